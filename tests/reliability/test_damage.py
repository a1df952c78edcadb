"""Damaged checkpoints, folders that cannot be written, full disks and crowded folders end in the documented way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from benchmarks import delivery
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.cli import main
from benchmarks.commands import Reports
from benchmarks.engines import EngineFactory
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import CONFIG, STEPS, TIMINGS, read_outcome, read_run
from reports import build, keep, sensitivity
from tests.benchmarks.fake_engine import FAKES, FakeEngine
from tests.reliability.conftest import PATIENCE_S, fixed_bytes, fresh, wait_for
from tests.reliability.dying_engine import DyingEngine, LimitedEngine

RUN = ("run", "--engine", "fake", "--task", "steady", "--algorithm", "grpo", "--arm", "sagc")
SMALL = tuple(
    part
    for setting in ("evaluation.problems=4", "evaluation.final_problems=8", "evaluation.milestones=2")
    for part in ("--set", setting)
)
HORIZON = ("--horizon-prompts", "32", "--horizon-rollouts", "1792")  # 28 steps: checkpoints after 10 and 20
FAKE_CLI = "tests.benchmarks.fake_cli"
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


def command(folder: RunsFolder, *more: str, engine: EngineFactory = FakeEngine, run: tuple[str, ...] = RUN) -> int:
    engines = {**FAKES, "fake": engine}
    arguments = (*run, *SMALL, *HORIZON, "--runs", str(folder.path), *more)
    return main(arguments, reports=Reports(build=build, keep=keep, sensitivity=sensitivity), engines=engines)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, ready: Path) -> dict[str, bytes]:
    """What the run records when nothing happens to it."""
    folder = fresh(tmp_path_factory.mktemp("whole") / "runs", ready)
    assert command(folder) == 0
    return fixed_bytes(folder)


@pytest.fixture
def died(tmp_path: Path, ready: Path, capsys: pytest.CaptureFixture[str]) -> RunsFolder:
    """A runs folder whose run was killed after step 25, with checkpoints after 10 and 20."""
    folder = fresh(tmp_path / "runs", ready)
    assert command(folder, engine=partial(DyingEngine, 25)) == 1
    assert "killed" in capsys.readouterr().out
    assert len(checkpoints(folder)) == 2
    return folder


def checkpoints(folder: RunsFolder) -> list[Path]:
    """Oldest first."""
    return sorted((folder.runs()[0] / CHECKPOINTS).glob("*.safetensors"))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-11])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, empty, flip])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    died: RunsFolder, whole: dict[str, bytes], damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    first, newest = checkpoints(died)
    damage(newest)
    assert command(died) == 0
    shown = capsys.readouterr().out
    assert f"checkpoint {newest.name} is damaged" in shown
    assert "goes on after step 10" in shown
    assert fixed_bytes(died) == whole
    assert not first.exists()  # a finished run keeps none


def test_with_every_checkpoint_damaged_the_run_starts_anew_and_says_so(
    died: RunsFolder, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in checkpoints(died):
        empty(path)
    assert command(died) == 0
    shown = capsys.readouterr().out
    assert shown.count("is damaged") == 2
    assert "it starts anew" in shown
    assert fixed_bytes(died) == whole


@pytest.mark.parametrize("lost", [3, 900, -1])
def test_records_that_a_power_failure_took_are_made_again_from_the_checkpoint_before_them(
    died: RunsFolder, whole: dict[str, bytes], lost: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Zeros where the last blocks never reached the disk: after step 15 or so, in the middle of a line, or all."""
    path = died.runs()[0] / STEPS
    lines = path.read_bytes().splitlines(keepends=True)
    kept = b"" if lost < 0 else b"".join(lines[:15]) + lines[15][:lost]
    path.write_bytes(kept + bytes(300))
    assert command(died) == 0
    shown = capsys.readouterr().out
    assert "of the 20 steps before checkpoint" in shown
    assert ("it starts anew" if lost < 0 else "goes on after step 10") in shown
    assert fixed_bytes(died) == whole


def test_a_checkpoint_of_another_run_is_refused_by_name(
    died: RunsFolder, capsys: pytest.CaptureFixture[str], tmp_path: Path, ready: Path
) -> None:
    other = fresh(tmp_path / "other", ready)
    assert command(other, "--seed", "1", engine=partial(DyingEngine, 25), run=(*RUN[:-1], "static_8")) == 1
    for path in checkpoints(died):
        path.unlink()
    shutil.copy(checkpoints(other)[-1], died.runs()[0] / CHECKPOINTS)
    capsys.readouterr()
    assert command(died) == 1
    assert "CheckpointError: checkpoint must be one of this run" in capsys.readouterr().out


def test_a_command_that_dies_with_its_runs_is_marked_by_the_next_start(
    tmp_path: Path, ready: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    folder = fresh(tmp_path / "runs", ready)
    slow = ("slow" if part == "fake" else part for part in RUN)
    process = start(*slow, *SMALL, *HORIZON, "--runs", str(folder.path), module=FAKE_CLI)
    run = wait_for_a_step(folder, process)
    assert process.poll() is None
    wait_for_end = time.monotonic() + PATIENCE_S
    os.killpg(process.pid, 9)
    process.communicate(timeout=PATIENCE_S)
    while folder.held(run.name):
        assert time.monotonic() < wait_for_end
    assert read_outcome(run) is None
    other = command(folder, "--seed", "1")
    assert other == 0
    data = read_run(run)
    assert data.outcome is not None
    assert (data.outcome.status, data.outcome.steps) == ("killed", len(data.steps))
    assert "found at the next start" in data.outcome.reason


def test_a_run_that_outlives_its_command_is_waited_for_and_never_written_by_two(
    tmp_path: Path, ready: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    folder = fresh(tmp_path / "runs", ready)
    slow = tuple("slow" if part == "fake" else part for part in RUN)
    short = ("--horizon-rollouts", "768")
    asked = (*slow, *SMALL, *HORIZON, *short, "--runs", str(folder.path))
    process = start(*asked, module=FAKE_CLI)
    run = wait_for_a_step(folder, process)
    os.killpg(process.pid, signal.SIGSTOP)  # however long the next command takes to start
    process.kill()  # the command alone
    process.wait()
    second = start(*asked, module=FAKE_CLI)
    assert second.stdout is not None
    assert any("still ends its step; waiting for it" in line for line in second.stdout)
    os.killpg(process.pid, signal.SIGCONT)
    assert wait_for(second).code == 0
    data = read_run(run)
    assert [step.step for step in data.steps] == list(range(1, len(data.steps) + 1))
    assert [timing.step for timing in data.timings] == [step.step for step in data.steps]
    whole = fresh(tmp_path / "whole", ready)
    assert command(whole, *short, run=slow) == 0
    assert fixed_bytes(folder) == fixed_bytes(whole)


def wait_for_a_step(folder: RunsFolder, process: subprocess.Popen[str]) -> Path:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        for path in folder.path.glob(f"*/{TIMINGS}"):
            if path.stat().st_size:
                return path.parent
        time.sleep(0.02)
    raise AssertionError("no step was recorded")


@contextmanager
def mounted(path: Path, kind: str, *options: str) -> Iterator[None]:
    """Mount something at `path`; skips where this user may not."""
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, kind, str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a mount is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_run_folder_that_is_read_only_stops_that_run_alone(
    died: RunsFolder, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    run = died.runs()[0]
    before = fixed_bytes(died)
    with mounted(run, str(run), "--bind"):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(run)], check=True)
        assert command(died) == 1
        shown = capsys.readouterr().out
        assert "not started" in shown
        assert "Read-only file system" in shown
        assert "Traceback" not in shown
        assert fixed_bytes(died) == before
    assert command(died) == 0
    assert fixed_bytes(died) == whole


def test_a_runs_folder_that_is_read_only_is_bad_input(died: RunsFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(died.path, str(died.path), "--bind"):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(died.path)], check=True)
        assert command(died) == 2
    assert "runs folder must be writable" in capsys.readouterr().err


def test_a_disk_that_fills_up_loses_nothing_and_the_same_command_goes_on(
    tmp_path: Path,
    ready: Path,
    whole: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(delivery, "LAST_TRIES_S", 1.0)
    disk = tmp_path / "disk"
    with mounted(disk, "tmpfs", "-t", "tmpfs", "-o", "size=16m"):
        folder = fresh(disk / "runs", ready)
        ballast = disk / "ballast"
        room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        ballast.write_bytes(bytes(room - 48_000))  # room for a few steps
        assert command(folder) == 1
        shown = capsys.readouterr()
        assert "No space left on device" in shown.out
        assert "to go on: the same command" in shown.out
        assert "Traceback" not in shown.out + shown.err
        ballast.unlink()
        assert command(folder) == 0
        assert fixed_bytes(folder) == whole


def test_a_file_that_may_not_grow_fails_its_run_by_name_and_loses_nothing(
    tmp_path: Path, ready: Path, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """What a quota does; unlike a mount it can be had everywhere."""
    folder = fresh(tmp_path / "runs", ready)
    assert command(folder, engine=partial(LimitedEngine, 25_000)) == 1
    shown = capsys.readouterr().out
    assert "failed" in shown
    assert "File too large" in shown
    outcome = read_outcome(folder.runs()[0])
    assert outcome is not None
    assert outcome.status == "failed"
    assert 10 < outcome.steps < 20
    assert command(folder) == 0
    assert "goes on after step 10" in capsys.readouterr().out
    assert fixed_bytes(folder) == whole


def test_the_second_of_two_reproductions_is_refused_and_names_the_process_of_the_first(
    tmp_path: Path, ready: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    folder = fresh(tmp_path / "runs", ready)
    slow = tuple("slow" if part == "fake" else part for part in RUN)
    arguments = (*slow, *SMALL, *HORIZON[:-1], "100000", "--runs", str(folder.path))
    first = start(*arguments, module=FAKE_CLI)
    run = wait_for_a_step(folder, first)
    ended = wait_for(start(*arguments, module=FAKE_CLI))
    assert ended.code == 2, ended.text
    assert f"in use by process {first.pid};" in ended.text
    assert ended.text.count("\n") == 1
    os.killpg(first.pid, signal.SIGINT)
    done = wait_for(first)
    assert done.code == 130, done.text
    data = read_run(run)
    assert [step.step for step in data.steps] == list(range(1, len(data.steps) + 1))
    assert data.outcome is not None
    assert (data.outcome.status, data.outcome.steps) == ("killed", len(data.steps))


def test_a_configuration_that_was_changed_is_refused_with_the_difference(
    died: RunsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    config = died.runs()[0] / CONFIG
    config.write_text(config.read_text().replace('"response_cap": 112', '"response_cap": 7'))
    assert command(died) == 2
    assert "task.response_cap 7 (now 112)" in capsys.readouterr().err
