"""What checkpoints and records cost of a run's process CPU time, measured twice in one go.

On and off: the same run with them and without, in turn; the share is the median over pairs. Inside: the time that the
calls themselves take. A loaded machine changes its speed between two runs of a pair, which the second does not notice:
that one decides.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from baselines.arms import ARMS, ArmContext
from benchmarks import loop
from benchmarks.checkpoint import write_checkpoint
from benchmarks.engines import ENGINES
from benchmarks.engines.torch_cpu.engine import TorchStepEngine
from benchmarks.engines.torch_cpu.warm_start import warm_start
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.settings import Overrides, make_spec
from benchmarks.spec import RunSpec
from benchmarks.store import RunWriter

PAIRS = 7
STEPS = 20
"""Two checkpoints."""
MOST = 0.03
"""Share of a run's CPU time that all of it may take."""


class Meter:
    """Adds up process CPU-seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, metered."""

        def metered(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.process_time() - began

        return metered


class Nowhere:
    """Takes records and forgets them."""

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """See `Sink.step`."""

    def evaluation(self, record: EvaluationRecord) -> None:
        """See `Sink.evaluation`."""

    def stop_requested(self) -> bool:
        """See `Sink.stop_requested`."""
        return False


class Files(Nowhere):
    """Writes them, as a run's process does."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self._writer, self._meter = RunWriter(folder), meter

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """See `Sink.step`."""
        self._meter(self._writer.step)(record, timing)

    def evaluation(self, record: EvaluationRecord) -> None:
        """See `Sink.evaluation`."""
        self._meter(self._writer.evaluation)(record)

    def close(self) -> None:
        """Nothing more will be written."""
        self._writer.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return warm_start("steady", tmp_path_factory.mktemp("warm_start"))


def spec() -> RunSpec:
    changes = {
        "horizon": {"prompts": 1, "rollouts": 64 * STEPS},
        "evaluation": {"problems": 1, "final_problems": 1, "samples": 1, "milestones": 1},
    }
    row = {"engine": "torch_cpu", "task": "steady", "algorithm": "grpo", "arm": "sagc"}
    return make_spec(seed=0, engines=ENGINES, overrides=Overrides(sections=changes), **row)


class Metered(TorchStepEngine):
    """The engine, whose state is copied for a checkpoint under the meter."""

    def __init__(self, chosen: RunSpec, model: Path, meter: Meter) -> None:
        super().__init__(chosen, model)
        self.state = meter(super().state)  # type: ignore[method-assign]


def cpu_seconds(chosen: RunSpec, model: Path, folder: Path | None, meter: Meter) -> float:
    """Process CPU-seconds of the run, with records and checkpoints under `folder` or with neither."""
    engine = Metered(chosen, model, meter)
    policy = ARMS[chosen.arm].make(ArmContext(controller=chosen.controller, seed=chosen.seed, schedule=None))
    began = time.process_time()
    if folder is None:
        outcome = loop.train(engine, chosen, policy, Nowhere())
    else:
        sink = Files(folder, meter)
        outcome = loop.train(engine, chosen, policy, sink, checkpoints=folder / "checkpoints")
        sink.close()
    took = time.process_time() - began
    assert (outcome.status, outcome.steps) == ("finished", STEPS)
    return took


def test_checkpoints_and_records_cost_little(
    benchmark: BenchmarkFixture, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, meter = spec(), Meter()
    cpu_seconds(chosen, model, None, meter)  # warm-up
    monkeypatch.setattr(loop, "write_checkpoint", meter(write_checkpoint))
    differences: list[float] = []
    with_all = 0.0

    def pair() -> None:
        nonlocal with_all
        took: dict[bool, float] = {}
        for safe in (True, False) if len(differences) % 2 else (False, True):
            took[safe] = cpu_seconds(chosen, model, tmp_path / str(len(differences)) if safe else None, meter)
        differences.append(took[True] / took[False] - 1)
        with_all += took[True]

    benchmark.pedantic(pair, rounds=PAIRS, iterations=1)  # type: ignore[no-untyped-call]
    inside, outside = meter.seconds / with_all, statistics.median(differences)
    benchmark.extra_info.update(share_inside=inside, share_on_and_off=outside, pairs=differences)
    spread = f"{min(differences):.1%} to {max(differences):.1%}"
    print(f"checkpoints and records: {inside:.2%} of CPU time inside; on and off {outside:.2%}, pairs {spread}")
    assert inside < MOST
