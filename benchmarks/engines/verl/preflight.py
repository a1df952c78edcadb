"""A look at a node before hours are spent on it: what would fail later fails here, in a minute.

Every check looks at one thing and says what to do about it; none of them changes anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.verl.process import ROOT
from benchmarks.engines.verl.settings import VerlEngineSettings
from sagc.config import SagcConfig
from sagc.controller import candidate_risks, init

HUB = "https://huggingface.co/api"
GATED = "datasets/Idavidrein/gpqa"
ANSWER_S = 10.0
"""How long anything on a network may take to answer [ours]."""
VERSIONS = {"verl": "0.9.1", "vllm": "0.24.0", "torch": "2.11.0", "transformers": "5.9.0"}
"""What `verl[vllm]==0.9.1` itself pins."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    found: str
    cure: str = ""
    """What to do; empty where nothing is needed."""

    def line(self) -> str:
        """For a terminal."""
        return f"{'ok  ' if self.passed else 'FAIL'} {self.name}: {self.found}{f'; {self.cure}' if self.cure else ''}"


def preflight(
    settings: VerlEngineSettings,
    controller: SagcConfig,
    folder: Path,
    python: str,
    *,
    environ: Mapping[str, str] = os.environ,
    run: Callable[[Sequence[str]], str] | None = None,
    fetch: Callable[[str], int] | None = None,
) -> list[Check]:
    """Look at everything that a run needs.

    Args:
        settings: of the profile.
        controller: of its task.
        folder: where checkpoints will go.
        python: interpreter of the verl environment.
        environ: the environment of the caller.
        run: runs a command and returns what it prints; raises OSError or CalledProcessError.
        fetch: asks a URL and returns the status of the answer; raises OSError.

    Returns:
        One check a line, those that failed included; a caller starts nothing unless all passed.
    """
    run, fetch = run or _run, fetch or _fetch
    checks = [budget(controller), disk(folder, settings.disk_gb), versions(python, run), *files(settings)]
    if settings.hardware == "gpu":
        checks.append(gpus(settings, run))
    if settings.model:
        checks.append(model(settings.model, fetch))
    if any("gpqa" in name for name in settings.evaluation_files):
        checks.append(gated(environ, fetch))
    checks.append(tracking(environ.get("MLFLOW_TRACKING_URI", ""), fetch))
    return checks


def gpus(settings: VerlEngineSettings, run: Callable[[Sequence[str]], str]) -> Check:
    """Enough GPUs, with enough free memory each."""
    query = ("nvidia-smi", "--query-gpu=memory.free,name", "--format=csv,noheader,nounits")
    try:
        rows = [line.split(",", 1) for line in run(query).splitlines() if line.strip()]
    except (OSError, subprocess.CalledProcessError) as error:
        return Check(name="GPUs", passed=False, found=f"no answer ({error})", cure="install the NVIDIA driver")
    free = [int(memory) / 1024 for memory, _ in rows]
    enough = [memory for memory in free if memory >= settings.gpu_memory_gb]
    wanted = f"{settings.gpus_per_node} with {settings.gpu_memory_gb} GiB free each"
    each = ", ".join(f"{name.strip()} {memory:.0f} GiB free" for (_, name), memory in zip(rows, free, strict=True))
    found = f"{len(free)}: {each}"
    passed = len(enough) >= settings.gpus_per_node
    return Check(name="GPUs", passed=passed, found=found, cure="" if passed else f"this profile needs {wanted}")


def disk(folder: Path, wanted_gb: int) -> Check:
    """Room for checkpoints."""
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free / _GIB
    passed = free >= wanted_gb
    cure = "" if passed else f"{wanted_gb} GiB are needed: free some or use --runs on another disk"
    return Check(name="disk", passed=passed, found=f"{free:.0f} GiB free at {existing}", cure=cure)


def versions(python: str, run: Callable[[Sequence[str]], str]) -> Check:
    """The packages that this was written for, in the verl environment."""
    code = (
        "import importlib.metadata as m, json\n"
        f"names = {list(VERSIONS)!r}\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({name: found.get(name, 'missing') for name in names}))"
    )
    try:
        found = json.loads(run((python, "-c", code)))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return Check(name="versions", passed=False, found=f"no answer ({error})", cure="name a Python with verl")
    odd = {name: version for name, version in found.items() if version.split("+")[0] != VERSIONS[name]}
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    cure = f"install {', '.join(f'{name}=={VERSIONS[name]}' for name in odd)}" if odd else ""
    return Check(name="versions", passed=not odd, found=text, cure=cure)


def files(settings: VerlEngineSettings) -> list[Check]:
    """Training and evaluation data where the profile says."""
    named = (*settings.train_files, *settings.evaluation_files)
    missing = [name for name in named if not (ROOT / name).exists()]
    if not settings.train_files:
        return []
    cure = "prepare them: python -m benchmarks.engines.verl.data --help" if missing else ""
    found = f"missing {', '.join(missing)}" if missing else f"{len(settings.train_files)} training file(s) and more"
    return [Check(name="data", passed=not missing, found=found, cure=cure)]


def model(name: str, fetch: Callable[[str], int]) -> Check:
    """The model is a folder, or the Hub gives it."""
    if (ROOT / name).is_dir():
        return Check(name="model", passed=True, found=f"folder {name}")
    status, cure = _hub(f"{HUB}/models/{name}", fetch)
    return Check(name="model", passed=status == 200, found=f"{name} on the Hub answers {status}", cure=cure)


def gated(environ: Mapping[str, str], fetch: Callable[[str], int]) -> Check:
    """GPQA is gated: its terms are accepted on the Hub, and a token is needed."""
    status, cure = _hub(f"{HUB}/{GATED}", fetch)
    token = bool(environ.get("HF_TOKEN"))
    if status == 200 and not token:
        cure = "accept its terms on the Hub and set HF_TOKEN, or prepare it from a file"
    passed = status == 200 and token
    found = f"Hub answers {status}, HF_TOKEN {'set' if token else 'not set'}"
    return Check(name="GPQA", passed=passed, found=found, cure=cure)


def tracking(uri: str, fetch: Callable[[str], int]) -> Check:
    """The MLflow store answers; a file or none is the suite's own business."""
    if not uri.startswith(("http://", "https://")):
        return Check(name="MLflow", passed=True, found=uri or "the suite's own file")
    try:
        status = fetch(f"{uri.rstrip('/')}/health")
    except OSError as error:
        return Check(name="MLflow", passed=False, found=f"{uri}: {error}", cure="start it or unset MLFLOW_TRACKING_URI")
    cure = "" if status == 200 else "start it or unset MLFLOW_TRACKING_URI"
    return Check(name="MLflow", passed=status == 200, found=f"{uri} answers {status}", cure=cure)


def budget(controller: SagcConfig) -> Check:
    """The straggler budget is not below what the controller believes of its smallest candidate at the start."""
    _, state = init(controller)
    risk = candidate_risks(controller, state.posterior)[0]
    passed = controller.budget >= risk
    cure = "" if passed else "no candidate can hold it: raise controller.budget or controller.threshold"
    found = f"{controller.budget:g} against {risk:.2f} believed of G = {controller.candidates[0]}"
    return Check(name="budget", passed=passed, found=found, cure=cure)


def failures(checks: Sequence[Check]) -> str:
    """What failed, in one line; empty if nothing did."""
    return "; ".join(f"{check.name}: {check.found} ({check.cure})" for check in checks if not check.passed)


def report(checks: Sequence[Check]) -> str:
    """All checks, a line each."""
    return "\n".join(check.line() for check in checks)


def _hub(url: str, fetch: Callable[[str], int]) -> tuple[int | str, str]:
    try:
        status = fetch(url)
    except OSError as error:
        return f"nothing ({error})", "give the node access to the Hub, or name a folder"
    return status, "" if status == 200 else "check the name, and that HF_TOKEN may read it"


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _fetch(url: str) -> int:
    headers = {"Authorization": f"Bearer {os.environ['HF_TOKEN']}"} if os.environ.get("HF_TOKEN") else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
