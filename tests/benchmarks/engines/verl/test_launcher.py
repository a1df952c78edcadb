from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from baselines.arms import ARMS, ArmContext
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.engines import ENGINES
from benchmarks.engines.verl import tiny
from benchmarks.engines.verl.launcher import VerlEngine, check_spec
from benchmarks.engines.verl.process import PYTHON_VARIABLE, child_environment, verl_python
from benchmarks.record import EvaluationRecord, Outcome, StepRecord, StepTiming
from benchmarks.spec import EvaluationPlan, RunSpec
from benchmarks.suite import load_profile, plan
from sagc.errors import ConfigError
from tests.benchmarks.engines.verl.test_step_facts import record

TIMING = StepTiming(
    step=1,
    cpu_s={"rollout": 2.0},
    wall_s={"rollout": 2.0},
    throughput_tokens_per_s=1.0,
    rollouts_per_s=1.0,
    load_average=0.0,
)
EVALUATION = EvaluationRecord(
    step=0,
    milestone=0,
    final=False,
    set="steady",
    samples=1,
    prompts=0,
    rollouts=0,
    right=[1],
    output_tokens=[9],
    truncated=[0],
)
STARTED = {"kind": "started", "step": 0, "verl": "0.9.1"}
EVALUATED = {"kind": "evaluation", "record": asdict(EVALUATION), "seconds": 1.5}
ENDED = {"kind": "ended", "status": "finished", "reason": ""}


def stepped(number: int) -> dict[str, Any]:
    timing = replace(TIMING, step=number)
    return {"kind": "step", "record": asdict(record(step=number)), "timing": asdict(timing), "rows": []}


class Sink:
    def __init__(self, stop_after: int | None = None) -> None:
        self.steps: list[StepRecord] = []
        self.evaluations: list[EvaluationRecord] = []
        self._stop_after = stop_after

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        self.steps.append(record)

    def evaluation(self, record: EvaluationRecord) -> None:
        self.evaluations.append(record)

    def stop_requested(self) -> bool:
        return self._stop_after is not None and len(self.steps) >= self._stop_after


@pytest.fixture
def spec() -> RunSpec:
    return plan(load_profile("verl-cpu", ENGINES), engines=ENGINES).runs[0].spec


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VerlEngine:
    """An engine whose Python is the stand-in, and that needs no warm start."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in.py")} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.setattr(tiny, "prepare", lambda spec, cache: None)
    monkeypatch.setattr(tiny, "warm_start", lambda task, cache: cache / "warm-start")
    return VerlEngine()


def run(
    engine: VerlEngine,
    spec: RunSpec,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: Sink | None = None,
    resume: bool = False,
    **told: Any,
) -> Outcome:
    monkeypatch.setenv("STAND_IN", json.dumps(told))
    engine.prepare(spec, folder.parent / "cache")
    policy = ARMS[spec.arm].make(ArmContext(controller=spec.controller, seed=0, schedule=(8,)))
    return engine.run(spec, policy, sink or Sink(), folder, folder / CHECKPOINTS if resume else None)


def test_what_the_process_says_becomes_records_and_an_outcome(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink()
    events = [STARTED, EVALUATED, stepped(1), stepped(2), ENDED]
    outcome = run(engine, spec, tmp_path / "run", monkeypatch, sink, events=events)
    assert (outcome.status, outcome.reason, outcome.steps) == ("finished", "", 2)
    assert (outcome.prompts, outcome.rollouts) == (10, 20)
    assert (outcome.cpu_s, outcome.evaluation_cpu_s) == (5.5, 1.5)
    assert sink.steps == [record(step=1), record(step=2)]
    assert sink.evaluations == [EVALUATION]
    assert outcome.provenance["engine"]["verl"] == "0.9.1"


def test_a_crash_is_told_from_an_end(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run(engine, spec, tmp_path / "run", monkeypatch, events=[STARTED, stepped(1)], exit=3)
    assert outcome.status == "failed"
    assert outcome.reason == "the verl process ended with code 3 after step 1 without a word; see verl.log"


@pytest.mark.parametrize("status", ["failed", "stalled", "diverged"])
def test_what_the_process_says_of_its_end_is_believed(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    ended = {"kind": "ended", "status": status, "reason": "because"}
    outcome = run(engine, spec, tmp_path / "run", monkeypatch, events=[STARTED, stepped(1), ended], exit=1)
    assert (outcome.status, outcome.reason) == (status, "because")


def test_a_wish_to_stop_reaches_the_process(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(stop_after=1)
    outcome = run(engine, spec, tmp_path / "run", monkeypatch, sink, events=[STARTED, stepped(1)], wait_for_stop=True)
    assert (outcome.status, outcome.reason) == ("killed", "asked to stop after step 1")


def test_a_process_that_says_nothing_is_started_once_more_and_this_is_said(
    engine: VerlEngine,
    spec: RunSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quick = replace(spec, engine_settings={**spec.engine_settings, "start_limit_s": 1.5})
    outcome = run(engine, quick, tmp_path / "run", monkeypatch, events=[STARTED, stepped(1), ENDED], silent=1)
    assert outcome.status == "finished"
    assert (tmp_path / "run" / "starts").read_text() == "xx"
    assert "verl said nothing within 2 s: ended" in capsys.readouterr().out


def test_nothing_is_left_running_when_the_parent_fails(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Sink):
        def step(self, record: StepRecord, timing: StepTiming) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(engine, spec, tmp_path / "run", monkeypatch, Failing(), events=[STARTED, stepped(1)], wait_for_stop=True)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _stand_ins():
        time.sleep(0.05)
    assert _stand_ins() == []


def _stand_ins() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "stand_in" in " ".join(child.cmdline())]


def test_a_resumed_run_counts_what_it_has_and_drops_what_came_after_the_checkpoint(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    run(engine, spec, folder, monkeypatch, events=[STARTED, EVALUATED, stepped(1), stepped(2), stepped(3)], exit=9)
    (folder / CHECKPOINTS).mkdir()
    (folder / CHECKPOINTS / "latest_checkpointed_iteration.txt").write_text("2")
    sink = Sink()
    outcome = run(engine, spec, folder, monkeypatch, sink, resume=True, events=[STARTED, stepped(3), ENDED])
    assert [step.step for step in sink.steps] == [3]
    assert (outcome.status, outcome.steps, outcome.rollouts) == ("finished", 3, 30)
    kinds = [json.loads(line)["kind"] for line in (folder / "verl-events.jsonl").read_text().splitlines()]
    assert kinds == ["evaluation", "step", "step", "started", "step", "ended"]


def test_a_run_that_starts_anew_forgets_the_one_before(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    run(engine, spec, folder, monkeypatch, events=[STARTED, stepped(1)], exit=9)
    (folder / CHECKPOINTS).mkdir()
    outcome = run(engine, spec, folder, monkeypatch, events=[STARTED, stepped(1), ENDED])
    assert (outcome.steps, outcome.rollouts) == (1, 10)
    assert not (folder / CHECKPOINTS).exists()


def test_the_process_cannot_write_into_the_callers_mlflow(
    engine: VerlEngine, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://example.invalid")
    monkeypatch.setenv("MLFLOW_RUN_ID", "somebody's")
    run(engine, spec, tmp_path / "run", monkeypatch, events=[STARTED, ENDED])
    seen = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert not [name for name in seen if name.startswith("MLFLOW_")]
    assert seen["VERL_PLATFORM"] == "cpu"


def test_a_gpu_process_is_left_its_platform(tmp_path: Path) -> None:
    env = child_environment({"PATH": "/bin", "PYTHONPATH": "/x"}, tmp_path, tmp_path, "gpu")
    assert "VERL_PLATFORM" not in env
    assert env["VERL_USE_EXTERNAL_MODULES"] == "benchmarks.engines.verl.trainer"
    assert env["PYTHONPATH"].endswith(os.pathsep + "/x")


def test_without_a_python_that_has_verl_one_line_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"SAGC_VERL_PYTHON must name the Python .* install one with pip install"):
        verl_python({})
    with pytest.raises(ConfigError, match="must name a Python, got 'no-such-python'"):
        verl_python({PYTHON_VARIABLE: "no-such-python"})


def test_an_evaluation_that_verl_cannot_do_is_refused(spec: RunSpec) -> None:
    other = replace(spec, evaluation=EvaluationPlan(problems=32, final_problems=64))
    with pytest.raises(ConfigError, match=r"must equal evaluation\.problems"):
        check_spec(other)


def test_a_run_must_be_prepared(spec: RunSpec, tmp_path: Path) -> None:
    policy = ARMS["static_8"].make(ArmContext(controller=spec.controller, seed=0))
    with pytest.raises(ConfigError, match="prepare must be called before run"):
        VerlEngine().run(spec, policy, Sink(), tmp_path, None)
