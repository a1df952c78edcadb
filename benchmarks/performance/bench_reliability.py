"""What checkpoints and records cost: the same run with them and without, in turn, by process CPU time.

The share is the median over pairs: one run takes seconds and a loaded machine changes its speed meanwhile.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from baselines.arms import ARMS, ArmContext
from benchmarks import loop
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

    def __init__(self, folder: Path) -> None:
        self._writer = RunWriter(folder)

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """See `Sink.step`."""
        self._writer.step(record, timing)

    def evaluation(self, record: EvaluationRecord) -> None:
        """See `Sink.evaluation`."""
        self._writer.evaluation(record)

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


def cpu_seconds(chosen: RunSpec, model: Path, folder: Path | None) -> float:
    """Process CPU-seconds of the run, with records and checkpoints under `folder` or with neither."""
    engine = TorchStepEngine(chosen, model)
    policy = ARMS[chosen.arm].make(ArmContext(controller=chosen.controller, seed=chosen.seed, schedule=None))
    began = time.process_time()
    if folder is None:
        outcome = loop.train(engine, chosen, policy, Nowhere())
    else:
        sink = Files(folder)
        outcome = loop.train(engine, chosen, policy, sink, checkpoints=folder / "checkpoints")
        sink.close()
    took = time.process_time() - began
    assert (outcome.status, outcome.steps) == ("finished", STEPS)
    return took


def test_checkpoints_and_records_cost_little(benchmark: BenchmarkFixture, model: Path, tmp_path: Path) -> None:
    chosen = spec()
    cpu_seconds(chosen, model, None)  # warm-up
    shares: list[float] = []

    def pair() -> None:
        with_, without = 0.0, 0.0
        for safe in (True, False) if len(shares) % 2 else (False, True):
            took = cpu_seconds(chosen, model, tmp_path / str(len(shares)) if safe else None)
            with_, without = (took, without) if safe else (with_, took)
        shares.append(with_ / without - 1)

    benchmark.pedantic(pair, rounds=PAIRS, iterations=1)  # type: ignore[no-untyped-call]
    share = statistics.median(shares)
    benchmark.extra_info["share_of_cpu_time"] = share
    print(f"checkpoints and records: {share:.2%} of the run's CPU time, pairs {[f'{one:.2%}' for one in shares]}")
    assert share < MOST
