from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nox
import pytest

import noxfile
from noxfile import (
    ENVIRONMENTS,
    Choice,
    choose,
    choose_evaluator,
    constraints_file,
    count_gpus,
    mlflow_variables,
    sqlite_file,
    take_option,
    unpinned,
)

ROOT = Path(__file__).parents[1]
SESSIONS = (
    *("lint", "types", "tests", "reliability", "soak", "smoke", "reproduce", "bench", "report", "ui", "resolve"),
    *("tests_verl", "smoke_verl", "learn_verl", "tests_vllm", "evaluate"),
)


@pytest.mark.parametrize(
    ("gpus", "profile", "environment", "chosen"),
    [
        (0, None, "cpu", "cpu"),
        (1, None, "verl-gpu", "gpu-1"),
        (7, None, "verl-gpu", "gpu-1"),
        (8, None, "verl-gpu", "gpu-8"),
        (16, None, "verl-gpu", "gpu-8"),
        (8, "cpu", "cpu", "cpu"),
        (0, "gpu-8", "verl-gpu", "gpu-8"),
        (8, "gpu-1", "verl-gpu", "gpu-1"),
        (1, "smoke", "cpu", "smoke"),
        (1, "mine.toml", "cpu", "mine.toml"),
    ],
)
def test_environment_and_profile_follow_the_gpus_unless_a_profile_is_asked_for(
    gpus: int, profile: str | None, environment: str, chosen: str
) -> None:
    assert choose(gpus, profile)[:2] == (environment, chosen)


@pytest.mark.parametrize(
    ("gpus", "profile", "environment"),
    [
        (0, "gpu-1", "verl-cpu"),
        (0, "gpu-8", "verl-cpu"),
        (8, None, "verl-gpu"),
        (0, None, "cpu"),
        (0, "verl-cpu", "verl-cpu"),
    ],
)
def test_a_dry_run_without_a_gpu_takes_verl_s_cpu_environment(gpus: int, profile: str | None, environment: str) -> None:
    assert choose(gpus, profile, dry_run=True).environment == environment


def test_the_choice_says_why() -> None:
    assert choose(0) == Choice("cpu", "cpu", "no NVIDIA driver answers")
    assert choose(8).reason == "8 NVIDIA GPUs answer"
    assert choose(8, "cpu").reason == "asked for by --profile"


@pytest.mark.parametrize(
    ("gpus", "asked", "environment", "engine"),
    [
        (0, None, "cpu", "transformers"),
        (0, "transformers", "cpu", "transformers"),
        (0, "vllm", "vllm-cpu", "vllm"),
        (0, "vlm", "cpu", "vlm"),  # the command names the nearest
        (1, None, "verl-gpu", "vllm"),
        (8, "vllm", "verl-gpu", "vllm"),
        (8, "transformers", "verl-gpu", "transformers"),
    ],
)
def test_an_evaluation_gets_an_environment_that_has_its_engine(
    gpus: int, asked: str | None, environment: str, engine: str
) -> None:
    assert choose_evaluator(gpus, asked) == (environment, engine)


def test_every_environment_has_pins_and_removes_only_what_they_name() -> None:
    for name, environment in ENVIRONMENTS.items():
        pins = {line.split("==")[0] for line in constraints_file(name).read_text().splitlines()}
        assert set(environment.removed) <= pins


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; echo 'GPU 1: NVIDIA H200 (UUID: GPU-2)'", 2),
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; echo '  MIG 1g.18gb Device 0: (UUID: MIG-1)'", 1),
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; exit 9", 0),
        ("echo 'No devices were found'", 0),
        (None, 0),
    ],
)
def test_only_a_driver_that_answers_counts(
    script: str | None, gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        driver = tmp_path / "nvidia-smi"
        driver.write_text(f"#!/bin/sh\n{script}\n")
        driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert count_gpus() == gpus


def test_an_option_is_taken_out_of_the_other_arguments() -> None:
    assert take_option(["--seeds", "1", "--profile", "cpu", "-x"], "--profile") == ("cpu", ["--seeds", "1", "-x"])
    assert take_option(["--profile=cpu"], "--profile") == ("cpu", [])
    assert take_option(["--prof", "cpu", "--help"], "--profile") == (None, ["--prof", "cpu", "--help"])


def test_leaked_mlflow_variables_are_unset_and_the_chosen_store_is_kept_where_asked() -> None:
    shell = {"MLFLOW_RUN_ID": "1", "MLFLOW_EXPERIMENT_ID": "2", "MLFLOW_TRACKING_URI": "sqlite:///x.db", "PATH": "/bin"}
    leaked = {"MLFLOW_RUN_ID": None, "MLFLOW_EXPERIMENT_ID": None}
    assert mlflow_variables(shell, keep_tracking=True) == leaked
    assert mlflow_variables(shell, keep_tracking=False) == leaked | {"MLFLOW_TRACKING_URI": None}


def test_only_a_sqlite_address_names_a_file() -> None:
    assert sqlite_file("sqlite:////tmp/a.db") == Path("/tmp/a.db")
    assert sqlite_file("sqlite:///runs/a.db") == Path("runs/a.db")
    assert sqlite_file("postgresql://host/db") is None


def test_a_resolved_package_without_a_pin_is_named() -> None:
    report = {"install": [{"metadata": {"name": name}} for name in ("Numpy", "typing_extensions", "extra.one", "sagc")]}
    assert unpinned(report, "# numpy\nnumpy==2.0\ntyping-extensions==4.0\n") == ["extra-one"]


def test_every_session_is_explained_and_a_bare_nox_checks() -> None:
    for name in SESSIONS:
        assert getattr(noxfile, name).__doc__
    assert nox.options.sessions == ["lint", "types", "tests"]


def run_nox(*arguments: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    search = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
    command = [sys.executable, "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), *arguments]
    env = {**os.environ, "PATH": search, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)


def test_the_list_of_sessions_is_the_documented_one() -> None:
    lines = run_nox("--list").stdout.splitlines()
    assert sorted(line.split()[1] for line in lines if line.startswith(("* ", "- "))) == sorted(SESSIONS)


def test_a_gpu_profile_without_a_driver_is_refused_in_one_line_before_any_install() -> None:
    ended = run_nox("-s", "reproduce", "--", "--profile", "gpu-1")
    assert ended.returncode != 0
    assert "environment verl-gpu, profile gpu-1 (asked for by --profile)" in ended.stderr
    assert noxfile.NO_GPU in ended.stderr
    assert "pip install" not in ended.stderr


def test_ui_refuses_while_nothing_was_logged(tmp_path: Path) -> None:
    ended = run_nox("-s", "ui", MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/none.db")
    assert ended.returncode != 0
    assert f"nothing was logged yet: there is no {tmp_path}/none.db; run nox -s smoke" in ended.stderr


def test_ui_points_to_a_tracking_server_instead_of_starting_one() -> None:
    ended = run_nox("-s", "ui", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert ended.returncode == 0
    assert "open http://127.0.0.1:9 in a browser" in ended.stderr
