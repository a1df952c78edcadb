"""Runs that are killed at random moments and resumed by the real command line end as undisturbed ones, byte by byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run as MlflowRun

from benchmarks.cli import main
from benchmarks.commands import Reports
from benchmarks.metrics import GROUP_SIZE
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import STEPS, read_outcome, read_run
from benchmarks.tracking import connect
from reports import build, keep, sensitivity
from tests.reliability.conftest import PATIENCE_S, fixed_bytes, fresh, wait_for
from tests.reliability.sabotage import COMMAND_MOMENTS, WORKER_MOMENTS, Sabotaged

PROFILE = """
name = "kills"
engine = "torch_cpu"
seeds = {seeds}
rollouts_per_step = 32
[[matrix]]
tasks = ["steady"]
algorithms = ["grpo", "dapo"]
arms = ["static_4", "sagc"]
[horizon]
prompts = 26
rollouts = 832
[evaluation]
problems = 8
final_problems = 16
samples = 1
milestones = 2
"""
Start = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


def profile(folder: Path, seeds: int) -> str:
    path = folder / f"kills-{seeds}.toml"
    path.write_text(PROFILE.format(seeds=seeds))
    return str(path)


def asked(profile: str, folder: RunsFolder, *more: str) -> tuple[str, ...]:
    return ("reproduce", "--profile", profile, "--runs", str(folder.path), "--jobs", "2", *more)


def mirrored(folder: RunsFolder) -> list[MlflowRun]:
    tracker = connect(folder, "sagc-kills")
    return list(tracker.client.search_runs([tracker.experiment_id]))


def steps_in_mlflow(folder: RunsFolder, run: MlflowRun) -> list[int]:
    history = connect(folder, "sagc-kills").client.get_metric_history(run.info.run_id, GROUP_SIZE)
    return sorted(metric.step for metric in history)


def kill_the_runs(profile: str, folder: RunsFolder, moments: dict[Any, Any], *more: str) -> int:
    """The command in this process, while its runs' processes die."""
    engines = {"torch_cpu": partial(Sabotaged, moments)}
    return main(
        asked(profile, folder, *more),
        reports=Reports(build=build, keep=keep, sensitivity=sensitivity),
        engines=engines,
    )


def kill_by_the_clock(start: Start, arguments: tuple[str, ...], folder: RunsFolder, delay: float, alone: bool) -> None:
    """Kill a command some time after it has recorded something new: with its runs, or alone."""
    before = sum(path.stat().st_size for path in folder.path.glob(f"*/{STEPS}"))
    process = start(*arguments)
    deadline = time.monotonic() + PATIENCE_S
    while sum(path.stat().st_size for path in folder.path.glob(f"*/{STEPS}")) == before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(delay)
    (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)


def kill_and_resume(
    tmp_path: Path, ready: Path, warm: Path, start: Start, seeds: int, command_moments: Mapping[str, int], by_clock: int
) -> int:
    """Kill every run at a moment of its own, the command at moments of its own, and both by the clock.

    Returns:
        How often a run was killed while it ran.
    """
    chance = random.Random(seeds)
    plan = profile(tmp_path, seeds)
    whole = fresh(tmp_path / "whole", ready, warm)
    assert wait_for(start(*asked(plan, whole))).code == 0
    folder = fresh(tmp_path / "killed", ready, warm)

    ended = wait_for(start("MLflow run created", "2", *asked(plan, folder), module="tests.reliability.sabotaged_cli"))
    assert ended.code == -signal.SIGKILL, ended.text
    cells = list(product(("grpo", "dapo"), ("static_4", "sagc"), range(seeds)))
    chance.shuffle(cells)
    moments = {cell: (WORKER_MOMENTS[i % len(WORKER_MOMENTS)], chance.randrange(2**30)) for i, cell in enumerate(cells)}
    kill_the_runs(plan, folder, moments)
    outcomes = {run.name: read_outcome(run) for run in folder.runs()}
    kills = sum(outcome is not None and outcome.status == "killed" for outcome in outcomes.values())
    for moment, count in command_moments.items():
        ended = wait_for(start(moment, str(count), *asked(plan, folder), module="tests.reliability.sabotaged_cli"))
        assert ended.code == -signal.SIGKILL, f"{moment}: {ended.text}"
    for number in range(by_clock):
        kill_by_the_clock(start, asked(plan, folder), folder, 1.5 * chance.random(), alone=number % 2 == 0)

    ended = wait_for(start(*asked(plan, folder)))
    assert ended.code == 0, ended.text
    assert fixed_bytes(folder) == fixed_bytes(whole)
    assert_mlflow_has_each_step_once(folder)
    return kills


def assert_mlflow_has_each_step_once(folder: RunsFolder) -> None:
    shown = mirrored(folder)
    assert {run.info.status for run in shown} <= {"FINISHED", "KILLED"}  # nothing RUNNING for ever
    for run in folder.runs():
        (finished,) = [
            one for one in shown if one.data.tags.get("sagc.run_id") == run.name and one.info.status == "FINISHED"
        ]
        assert steps_in_mlflow(folder, finished) == [step.step for step in read_run(run).steps]


def test_moments_cover_the_rollout_the_update_the_checkpoint_and_mlflow() -> None:
    named = " ".join((*WORKER_MOMENTS, *COMMAND_MOMENTS))
    assert all(word in named for word in ("rollout", "update", "checkpoint", "MLflow"))


def test_twelve_runs_killed_at_random_moments_end_as_if_nothing_had_happened(
    tmp_path: Path, ready: Path, warm: Path, start: Start
) -> None:
    moments = {"records half cut": 1, "MLflow batch sent": 2}
    assert kill_and_resume(tmp_path, ready, warm, start, seeds=3, command_moments=moments, by_clock=1) >= 10


@pytest.mark.soak
def test_fifty_runs_killed_at_random_moments_end_as_if_nothing_had_happened(
    tmp_path: Path, ready: Path, warm: Path, start: Start
) -> None:
    moments = {"records half cut": 1, "MLflow batch sent": 2, "MLflow run closed": 3}
    assert kill_and_resume(tmp_path, ready, warm, start, seeds=14, command_moments=moments, by_clock=6) >= 50


def test_five_kills_in_a_row_leave_one_run_as_if_nothing_had_happened(
    tmp_path: Path, ready: Path, warm: Path, start: Start
) -> None:
    plan, only = profile(tmp_path, 1), ("--arms", "sagc", "--algorithms", "grpo")
    whole = fresh(tmp_path / "whole", ready, warm)
    assert kill_the_runs(plan, whole, {}, *only) == 0
    folder = fresh(tmp_path / "killed", ready, warm)
    moments = {"update": 0, "half a record": 1, "checkpoint not renamed": 2, "checkpoint renamed": 4, "model": 5}
    for moment, number in moments.items():
        assert kill_the_runs(plan, folder, {("grpo", "sagc", 0): (moment, number)}, *only) == 1
        outcome = read_outcome(folder.runs()[0])
        assert outcome is not None
        assert (outcome.status, outcome.reason) == ("killed", "its process was ended by SIGKILL")
    ended = wait_for(start(*asked(plan, folder, *only)))
    assert ended.code == 0, ended.text
    assert fixed_bytes(folder) == fixed_bytes(whole)
    assert_mlflow_has_each_step_once(folder)
