"""Where an interrupted run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.checkpoint import FOLDER, Checkpoint, checkpoint_step, write_checkpoint
from benchmarks.engines import CHECKPOINTS
from benchmarks.resume import go_back_to_checkpoint
from benchmarks.store import EVALUATIONS, OUTCOME, STEPS, TIMINGS, cut_records, read_run
from tests.reports.records import World, write

WORLD = World(arms=("sagc",), algorithms=("grpo",), seeds=(0,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with records of many steps."""
    (found,) = write(tmp_path, WORLD)
    return found


def checkpoint(folder: Path, step: int) -> Path:
    return write_checkpoint(folder / FOLDER, Checkpoint(step=step, arrays={"w": np.ones(3)}, state={"step": step}))


def refuse(text: str) -> None:
    raise AssertionError(text)


def test_without_a_folder_or_a_checkpoint_a_run_starts_anew(tmp_path: Path, folder: Path) -> None:
    assert go_back_to_checkpoint(tmp_path / "missing", refuse) is None
    before = (folder / STEPS).read_bytes()
    assert go_back_to_checkpoint(folder, refuse) is None
    assert (folder / STEPS).read_bytes() == before


def test_records_go_back_to_the_checkpoint_and_the_outcome_goes(folder: Path) -> None:
    whole = read_run(folder)
    path = checkpoint(folder, 5)
    assert go_back_to_checkpoint(folder, refuse) == (5, path)
    back = read_run(folder)
    assert (back.steps, back.timings) == (whole.steps[:5], whole.timings[:5])
    assert back.evaluations == [record for record in whole.evaluations if record.step <= 5]
    assert back.outcome is None
    assert not (folder / OUTCOME).exists()


def test_a_half_written_line_goes_too(folder: Path) -> None:
    whole = read_run(folder)
    with (folder / STEPS).open("ab") as file:
        file.write(b'{"step": 1000, "group')
    cut_records(folder, 1000)
    assert read_run(folder).steps == whole.steps
    assert (folder / STEPS).read_bytes().endswith(b"}\n")


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(folder: Path) -> None:
    first, second = checkpoint(folder, 3), checkpoint(folder, 6)
    second.write_bytes(second.read_bytes()[:-1])
    said: list[str] = []
    assert go_back_to_checkpoint(folder, said.append) == (checkpoint_step(first), first)
    assert second.name in said[0]
    assert len(read_run(folder).steps) == checkpoint_step(first)


@pytest.mark.parametrize("lost", [0, 2])
def test_with_lost_records_a_run_starts_anew(folder: Path, lost: int) -> None:
    checkpoint(folder, 5)
    lines = (folder / STEPS).read_text().splitlines(keepends=True)
    (folder / STEPS).write_text("".join(lines[:lost] + lines[lost + 1 :]))
    said: list[str] = []
    assert go_back_to_checkpoint(folder, said.append) is None
    assert "lost" in said[0]


def test_a_run_without_records_can_be_cut(tmp_path: Path) -> None:
    (empty,) = write(tmp_path / "x", replace(WORLD, seeds=(1,)))
    for name in (STEPS, TIMINGS, EVALUATIONS):
        (empty / name).unlink()
    cut_records(empty, 0)
    assert read_run(empty).steps == []


def test_a_framework_goes_on_from_its_own_checkpoint(folder: Path) -> None:
    """verl's tracker file names the newest; it is written last, and verl looks at no other."""
    own, said = CHECKPOINTS["verl"], list[str]()
    assert go_back_to_checkpoint(folder, refuse, own) is None
    tracker = folder / FOLDER / "latest_checkpointed_iteration.txt"
    tracker.parent.mkdir()
    for text in ("", "many", "0", "-4"):
        tracker.write_text(text)
        assert go_back_to_checkpoint(folder, refuse, own) is None
    tracker.write_text("4\n")
    assert go_back_to_checkpoint(folder, said.append, own) is None
    assert said == ["checkpoint global_step_4 is damaged; the one before it is used, if there is one"]
    (folder / FOLDER / "global_step_4").mkdir()
    (folder / FOLDER / "global_step_4" / "sagc.json").write_text("{}")
    assert go_back_to_checkpoint(folder, refuse, own) == (4, folder / FOLDER)
    assert len(read_run(folder).steps) == 4
