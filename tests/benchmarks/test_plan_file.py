"""`plan.json`: what a later command reads, and what it makes of a command that died."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.endings import DIED, mark_the_dead
from benchmarks.plan_file import Asked, PlanDocument, PlannedEntry, mark_dead_plans, plan_status, read_plan
from benchmarks.record import Outcome
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import OUTCOME, STEPS, RecordError, read_outcome, write_json, write_outcome
from tests.reports.records import World, write

ASKED = Asked(seeds=None, tasks=(), algorithms=(), arms=())


def entry(state: str, run_id: str | None = None) -> PlannedEntry:
    return PlannedEntry(name=f"x/{state}", run_id=run_id, state=state, reason="", follows=None)


def plan(*entries: PlannedEntry) -> PlanDocument:
    return PlanDocument(profile="test", suite="sagc-test", asked=ASKED, provenance={}, started={}, runs=entries)


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (("finished", "finished"), "finished"),
        (("finished", "failed"), "failed"),
        (("finished", "diverged", "stalled"), "failed"),
        (("failed", "killed"), "killed"),
        (("finished", "waiting"), "killed"),
        (("finished", "not started"), "killed"),
    ],
)
def test_the_whole_is_finished_only_if_every_run_is(states: tuple[str, ...], status: str) -> None:
    assert plan_status(plan(*map(entry, states))) == status


@pytest.mark.parametrize("change", [{"runs": {}}, {"asked": {"seeds": "1"}}, {"more": 1}, {"profile": None}])
def test_what_is_no_plan_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    write_json(tmp_path / "plan.json", {**asdict(plan(entry("finished"))), **change})
    with pytest.raises(RecordError, match="must be a plan"):
        read_plan(tmp_path)


def test_what_died_is_marked_in_the_run_and_in_the_plan(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    finished, died, living = write(tmp_path, World(arms=("sagc",), algorithms=("grpo",), seeds=(0, 1, 2)))
    for run in (died, living):
        (run / OUTCOME).unlink()
    entries = (
        entry("finished", finished.name), entry("running", died.name), entry("running", living.name), entry("waiting")
    )  # fmt: skip
    reproduction = folder.reproduction("test")
    reproduction.mkdir()
    write_json(reproduction / "plan.json", asdict(plan(*entries)))
    before = read_outcome(finished)
    with folder.lock(), folder.hold(living.name):
        assert mark_the_dead(folder) == []
        mark_dead_plans(folder)
    outcome = read_outcome(died)
    assert outcome is not None
    assert (outcome.status, outcome.reason, outcome.cpu_s) == ("killed", DIED, None)
    assert outcome.steps > 0
    assert outcome.wall_s > 0
    assert read_outcome(finished) == before
    assert read_outcome(living) is None  # its process still writes
    assert [run.state for run in read_plan(reproduction).runs] == ["finished", "killed", "running", "not started"]


def test_a_dead_run_that_cannot_be_read_is_named_and_stops_nobody(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    broken, died = write(tmp_path, World(arms=("sagc",), algorithms=("grpo",), seeds=(0, 1)))
    for run in (broken, died):
        (run / OUTCOME).unlink()
    (broken / STEPS).write_text("{}\n")
    with folder.lock():
        (problem,) = mark_the_dead(folder)
    assert problem.startswith(f"{broken.name} died and cannot be marked")
    assert read_outcome(died) is not None


def test_a_plan_that_cannot_be_read_stays_as_it_is(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    folder.reproduction("test").mkdir()
    path = folder.reproduction("test") / "plan.json"
    path.write_text("[")
    mark_dead_plans(folder)
    assert path.read_text() == "["


def test_a_run_that_said_how_it_ended_is_not_touched(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    (run,) = write(tmp_path, World(arms=("sagc",), algorithms=("grpo",), seeds=(0,)))
    outcome = Outcome(
        status="diverged", reason="x", steps=1, prompts=1, rollouts=1, cpu_s=1.0, wall_s=1.0, evaluation_cpu_s=0.0
    )
    write_outcome(run, outcome)
    with folder.lock():
        mark_the_dead(folder)
    assert read_outcome(run) == outcome
