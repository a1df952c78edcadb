"""Real processes under the fake engine: order, honest ends, and going on."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.endings import ending, last_line
from benchmarks.engines import EngineFactory
from benchmarks.processes import Stop
from benchmarks.record import Status, StepRecord
from benchmarks.runner import Run, Runner
from benchmarks.runs_folder import RunsFolder
from benchmarks.settings import Overrides, make_spec, resolved_config
from benchmarks.spec import RunSpec
from benchmarks.store import CONFIG, EVALUATIONS, OUTCOME, STEPS, read_json, read_lines, read_run, write_json
from benchmarks.suite import Plan, planned_run
from sagc.errors import ConfigError
from tests.benchmarks.fake_engine import FAKES, FakeEngine

SMALL = Overrides(
    sections={
        "horizon": {"prompts": 16, "rollouts": 256},
        "evaluation": {"problems": 4, "final_problems": 8, "milestones": 2},
    }
)
PROVENANCE: dict[str, Any] = {"commit": None, "commit_reason": "a test"}


class Witness:
    """Notes what the runner says, and asks to stop where a test wants it."""

    def __init__(self, stop: Stop, stop_at: str | None = None) -> None:
        self.stop, self.stop_at = stop, stop_at
        self.events: list[str] = []
        self.running = self.most_running = 0

    def said(self, text: str) -> None:
        self.events.append(f"said {text}")

    def started(self, run: Run) -> None:
        self.events.append(f"started {run.spec.arm}")
        self.running += 1
        self.most_running = max(self.most_running, self.running)

    def ended(self, run: Run) -> None:
        self.events.append(f"{run.state} {run.spec.arm}")
        self.running -= run.folder is not None and not run.reused and run.state != "not started"

    def ticked(self) -> None:
        if self.stop_at and f"started {self.stop_at}" in self.events:
            self.stop.requests = max(self.stop.requests, 1)


def spec(arm: str, engine: str = "fake", **changes: Any) -> RunSpec:
    row = {"task": "steady", "algorithm": "grpo", "seed": 0, **changes}
    return make_spec(engine=engine, arm=arm, engines=FAKES, overrides=SMALL, **row)


def carry(
    folder: Path,
    *specs: RunSpec,
    jobs: int = 2,
    stop_at: str | None = None,
    engines: Mapping[str, EngineFactory] = FAKES,
) -> tuple[dict[str, Run], Witness]:
    """Run specs; the runs by arm."""
    stop = Stop()
    witness = Witness(stop, stop_at)
    runs = RunsFolder(folder)
    with runs.lock():
        plan = Plan(runs=tuple(map(planned_run, specs)))
        runner = Runner(plan, folder=runs, engines=engines, jobs=jobs, provenance=PROVENANCE, stop=stop)
        runner.observe(witness)
        runner.run()
    return {run.spec.arm: run for run in runner.runs}, witness


def test_every_run_is_finished_recorded_and_says_where_it_comes_from(tmp_path: Path) -> None:
    runs, _ = carry(tmp_path, spec("static_8"), spec("sagc"))
    for run in runs.values():
        assert run.state == "finished"
        assert run.folder is not None
        data = read_run(run.folder)
        assert data.config == resolved_config(run.spec)
        assert data.outcome is not None
        assert data.outcome.status == "finished"
        assert data.outcome.rollouts == sum(step.rollouts_generated for step in data.steps) >= 256
        assert data.outcome.steps == len(data.steps) == len(data.timings)
        assert data.outcome.provenance.keys() == PROVENANCE.keys() | {"started", "resumed_at", "ended"}
        assert [record.final for record in data.evaluations] == [False, False, True]


def test_a_follower_waits_and_replays_the_group_sizes_of_its_source(tmp_path: Path) -> None:
    runs, witness = carry(tmp_path, spec("shuffled_sagc"), spec("sagc"))
    source, follower = runs["sagc"], runs["shuffled_sagc"]
    assert witness.events.index("finished sagc") < witness.events.index("started shuffled_sagc")
    assert source.folder is not None
    sizes = tuple(step.group_size for step in read_lines(source.folder / STEPS, StepRecord))
    assert follower.spec.schedule == sizes
    assert follower.spec.schedule_source == source.spec.run_id
    assert follower.state == "finished"


def test_one_seed_gives_the_same_bytes_in_another_folder_and_another_seed_does_not(tmp_path: Path) -> None:
    carry(tmp_path / "a", spec("sagc"))
    carry(tmp_path / "b", spec("sagc"))
    run_id = spec("sagc").run_id
    for name in (CONFIG, STEPS, EVALUATIONS):
        assert (tmp_path / "a" / run_id / name).read_bytes() == (tmp_path / "b" / run_id / name).read_bytes()
    other = spec("sagc", seed=1)
    carry(tmp_path / "a", other)
    assert (tmp_path / "a" / other.run_id / STEPS).read_bytes() != (tmp_path / "a" / run_id / STEPS).read_bytes()


def test_no_more_runs_at_a_time_than_jobs(tmp_path: Path) -> None:
    _, one = carry(tmp_path / "one", *(spec(f"static_{size}") for size in (4, 8, 16)), jobs=1)
    _, two = carry(tmp_path / "two", *(spec(f"static_{size}") for size in (4, 8, 16)), jobs=2)
    assert (one.most_running, two.most_running) == (1, 2)


ENDS: dict[str, tuple[Status, str]] = {
    "raise": ("failed", "RuntimeError: the fake engine broke"),
    "exit_0": ("failed", "without saying how"),
    "exit_1": ("failed", "exit code 1"),
    "_exit": ("failed", "without saying how"),
    "SIGINT": ("killed", "SIGINT"),
    "SIGTERM": ("killed", "SIGTERM"),
    "SIGKILL": ("killed", "SIGKILL"),
    "SIGSEGV": ("failed", "SIGSEGV"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_process_that_ends_is_recorded_the_next_run_goes_on_and_the_same_command_completes(
    tmp_path: Path, how: str
) -> None:
    """Table B42: what others record as FINISHED, or as RUNNING for ever."""
    status, reason = ENDS[how]
    broken, healthy = spec("static_8", engine=how), spec("static_16", engine=how)
    runs, _ = carry(tmp_path, broken, healthy, jobs=1)
    assert runs["static_8"].state == status
    assert reason in runs["static_8"].reason
    assert "\n" not in runs["static_8"].reason
    assert runs["static_16"].state == "finished"
    data = read_run(tmp_path / broken.run_id)
    assert data.outcome is not None
    assert (data.outcome.status, data.outcome.steps) == (status, 2)
    assert data.outcome.cpu_s is None
    untouched = (tmp_path / healthy.run_id / OUTCOME).stat().st_mtime_ns

    runs, witness = carry(tmp_path, broken, healthy, jobs=1)
    assert [run.state for run in runs.values()] == ["finished", "finished"]
    assert runs["static_16"].reused
    assert not runs["static_8"].reused
    assert any("has no checkpoint: it starts anew" in event for event in witness.events)
    assert (tmp_path / healthy.run_id / OUTCOME).stat().st_mtime_ns == untouched
    steps = [step.step for step in read_run(tmp_path / broken.run_id).steps]
    assert steps == list(range(1, len(steps) + 1))


def test_a_traceback_is_kept_outside_the_run_folder(tmp_path: Path) -> None:
    broken = spec("static_8", engine="raise")
    carry(tmp_path, broken)
    log = RunsFolder(tmp_path).log(broken.run_id).read_text()
    assert "Traceback" in log
    assert "fake_engine.py" in log
    names = {path.name for path in (tmp_path / broken.run_id).iterdir()}
    assert names == {
        "config.json",
        "steps.jsonl",
        "timings.jsonl",
        "evaluations.jsonl",
        "sittings.jsonl",
        "outcome.json",
    }


def test_a_follower_of_a_run_that_did_not_finish_is_not_started_and_says_why(tmp_path: Path) -> None:
    engines = {"fake": partial(FakeEngine, ending="raise", ends="sagc")}
    runs, _ = carry(tmp_path, spec("sagc"), spec("shuffled_sagc"), engines=engines)
    assert runs["shuffled_sagc"].state == "not started"
    assert "which it follows, is failed" in runs["shuffled_sagc"].reason


def no_preparation() -> Any:
    raise RuntimeError("no warm start")


def test_a_task_that_cannot_be_prepared_leaves_its_runs_not_started(tmp_path: Path) -> None:
    runs, witness = carry(tmp_path, spec("static_8"), spec("sagc"), engines={"fake": no_preparation})
    assert {run.state for run in runs.values()} == {"not started"}
    assert "preparing steady failed: RuntimeError: no warm start" in runs["sagc"].reason
    assert not any(event.startswith("started") for event in witness.events)


def test_asked_to_stop_it_ends_the_step_marks_the_run_and_goes_on_later(tmp_path: Path) -> None:
    specs = spec("static_8", engine="slow"), spec("static_16", engine="slow")
    runs, witness = carry(tmp_path, *specs, jobs=1, stop_at="static_8")
    assert (runs["static_8"].state, runs["static_16"].state) == ("killed", "not started")
    assert "started static_16" not in witness.events
    data = read_run(tmp_path / specs[0].run_id)
    assert data.outcome is not None
    assert data.outcome.status == "killed"
    assert data.outcome.steps == len(data.steps) == len(data.timings)
    runs, _ = carry(tmp_path, *specs)
    assert {run.state for run in runs.values()} == {"finished"}


def test_asked_twice_it_ends_at_once(tmp_path: Path) -> None:
    endless = {"fake": partial(FakeEngine, pause_s=60.0)}
    stop = Stop()
    runs = RunsFolder(tmp_path)

    class Impatient(Witness):
        def ticked(self) -> None:
            self.stop.requests += "started static_8" in self.events

    with runs.lock():
        plan = Plan(runs=(planned_run(spec("static_8")),))
        runner = Runner(plan, folder=runs, engines=endless, jobs=1, provenance={}, stop=stop)
        runner.observe(Impatient(stop))
        runner.run()
    assert (runner.runs[0].state, runner.runs[0].reason) == ("killed", "its process was ended by SIGKILL")


def test_a_finished_run_under_another_configuration_is_refused_before_anything_starts(tmp_path: Path) -> None:
    finished = spec("static_8")
    carry(tmp_path, finished)
    path = tmp_path / finished.run_id / CONFIG
    config = read_json(path)
    write_json(path, {**config, "task": {**config["task"], "response_cap": 7}})
    with pytest.raises(ConfigError, match=r"task\.response_cap 7 \(now \d+\); delete it"):
        carry(tmp_path, finished, spec("static_16"))
    assert not (tmp_path / spec("static_16").run_id).exists()


def test_a_new_source_makes_its_shuffle_stale(tmp_path: Path) -> None:
    first, _ = carry(tmp_path, spec("sagc"), spec("shuffled_sagc"))
    longer = replace(spec("sagc"), horizon=replace(spec("sagc").horizon, rollouts=512))
    second, _ = carry(tmp_path, longer, replace(longer, arm="shuffled_sagc"))
    assert second["shuffled_sagc"].spec.run_id != first["shuffled_sagc"].spec.run_id
    assert not second["shuffled_sagc"].reused


@pytest.mark.parametrize(
    ("code", "stopped", "status"),
    [
        (-signal.SIGKILL, False, "killed"),
        (-signal.SIGTERM, True, "killed"),
        (-signal.SIGABRT, False, "failed"),
        (0, False, "failed"),
        (1, False, "failed"),
        (1, True, "killed"),
    ],
)
def test_an_exit_code_says_how_a_run_ended(code: int, stopped: bool, status: Status) -> None:
    assert ending(code, "last words", stopped)[0] == status


def test_the_last_words_are_one_short_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == ""
    log.write_bytes(b"first\nlast \xff words" + b"x" * 1000 + b"\n\n")
    assert last_line(log).startswith("last")
    assert len(last_line(log)) == 300


def test_a_finished_run_of_other_code_is_used_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = carry(tmp_path, spec("static_8"), spec("sagc"))
    _, again = carry(tmp_path, spec("static_8"), spec("sagc"))
    assert not any("other code" in event for event in (*first.events, *again.events))
    monkeypatch.setitem(PROVENANCE, "commit", "f" * 40)
    runs, other = carry(tmp_path, spec("static_8"), spec("sagc"), spec("static_4"))
    assert "said 2 finished runs come from other code (None); another --runs repeats them" in other.events
    assert [run.reused for run in runs.values()] == [True, True, False]
