"""Table B42, row by row, with our statuses: outcome.json, the table at the end and the MLflow run agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import loop
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.delivery import Delivery
from benchmarks.engines import EngineFactory
from benchmarks.engines.protocol import Rollouts, Sink, TrainBatch, TrainStats
from benchmarks.mirror import Mirror
from benchmarks.processes import Stop
from benchmarks.progress import status_lines
from benchmarks.record import Outcome, Status
from benchmarks.runner import Run, Runner
from benchmarks.runs_folder import RunsFolder
from benchmarks.settings import make_spec
from benchmarks.spec import RunSpec
from benchmarks.store import read_run
from benchmarks.suite import Plan, planned_run
from benchmarks.tracking import connect
from tests.benchmarks.fake_engine import FAKES, FakeEngine, FakeSteps
from tests.benchmarks.test_runner import SMALL
from tests.reliability.conftest import fresh

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


class WrongSteps(FakeSteps):
    """Goes wrong from its third step on."""

    def __init__(self, seed: int, how: str) -> None:
        super().__init__(seed, 0.001)
        self.how, self.updates = how, 0

    def generate(self, prompts: Any, group_size: int, step: int) -> Rollouts:
        rollouts = super().generate(prompts, group_size, step)
        if self.how == "all_truncated" and step >= 3:
            tokens = [[np.zeros(self.response_cap, dtype=np.int64)] * group_size for _ in prompts]
            return replace(rollouts, tokens=tokens, truncated=np.ones_like(rollouts.truncated))
        return rollouts

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        rewards = super().score(rollouts)
        if self.updates >= 2 and self.how in ("all_right", "all_truncated"):
            return np.full_like(rewards, float(self.how == "all_right"))
        if self.updates >= 2 and self.how.endswith("cannot_be_scored"):
            count = {"4_cannot_be_scored": 4, "3_cannot_be_scored": 3}[self.how]
            rewards.flat[:count] = math.nan
        return rewards

    def train(self, batch: TrainBatch, algorithm: Any, step: int) -> TrainStats:
        self.updates += 1
        stats = super().train(batch, algorithm, step)
        if step < 3:
            return stats
        if not batch.advantages.any():
            return TrainStats(optimizer_steps=0, loss=None, grad_norm=None, clip_frac=None, ratio_deviation_max=None)
        wrong: dict[str, dict[str, Any]] = {
            "loss_NaN": {"loss": math.nan},
            "gradient_infinite": {"grad_norm": math.inf},
            "weight_NaN": {"weights_finite": False},
        }
        return replace(stats, **wrong.get(self.how, {}))


class WrongEngine(FakeEngine):
    """Trains `WrongSteps`."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def run(self, spec: RunSpec, policy: Any, sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        return loop.train(WrongSteps(spec.seed, self._how), spec, policy, sink, checkpoints=folder / CHECKPOINTS)


def engine_rows(*names: str) -> dict[str, EngineFactory]:
    return {name: partial(WrongEngine, name) for name in names}


WRONG = engine_rows(
    "loss_NaN",
    "gradient_infinite",
    "weight_NaN",
    "all_right",
    "all_truncated",
    "3_cannot_be_scored",
    "4_cannot_be_scored",
)
ENGINES: Mapping[str, EngineFactory] = {**FAKES, **WRONG}
ROWS: dict[tuple[str, str], tuple[Status, str, str]] = {
    # engine and algorithm -> our status, MLflow's, words of the reason
    ("fake", "grpo"): ("finished", "FINISHED", ""),
    ("raise", "grpo"): ("failed", "FAILED", "RuntimeError: the fake engine broke"),
    ("exit_1", "grpo"): ("failed", "FAILED", "exit code 1"),
    ("exit_0", "grpo"): ("failed", "FAILED", "without saying how the run ended"),
    ("SIGINT", "grpo"): ("killed", "KILLED", "SIGINT"),
    ("SIGTERM", "grpo"): ("killed", "KILLED", "SIGTERM"),
    ("SIGKILL", "grpo"): ("killed", "KILLED", "SIGKILL"),
    ("SIGSEGV", "grpo"): ("failed", "FAILED", "SIGSEGV"),
    ("_exit", "grpo"): ("failed", "FAILED", "without saying how the run ended"),
    ("loss_NaN", "grpo"): ("diverged", "FAILED", "the loss is nan at step 3"),
    ("gradient_infinite", "grpo"): ("diverged", "FAILED", "the gradient norm is inf at step 3"),
    ("weight_NaN", "grpo"): ("diverged", "FAILED", "a weight is not finite after step 3"),
    ("all_right", "dapo"): ("stalled", "FAILED", "no informative group in 40 at step 3"),
    ("all_right", "grpo"): ("finished", "FINISHED", ""),
    ("all_truncated", "dapo"): ("stalled", "FAILED", "no informative group"),
    ("all_truncated", "grpo"): ("finished", "FINISHED", ""),
    ("4_cannot_be_scored", "grpo"): ("failed", "FAILED", "4 of 64 rollouts could not be scored at step 3"),
    ("3_cannot_be_scored", "grpo"): ("finished", "FINISHED", ""),
}


def row_spec(engine: str, algorithm: str) -> RunSpec:
    row = {"task": "steady", "algorithm": algorithm, "arm": "static_8"}
    return make_spec(engine=engine, seed=0, engines=ENGINES, overrides=SMALL, **row)


def carry(folder: RunsFolder, specs: list[RunSpec]) -> tuple[list[Run], Delivery]:
    stop = Stop()
    with folder.lock():
        plan = Plan(runs=tuple(map(planned_run, specs)))
        runner = Runner(plan, folder=folder, engines=ENGINES, jobs=2, provenance={}, stop=stop)
        mirror = Mirror(connect(folder, "sagc-test"), folder, None)
        runner.observe(mirror)
        runner.run()
        return runner.runs, mirror.close("failed", lambda: False)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, ready: Path) -> tuple[RunsFolder, dict[tuple[str, str], Run]]:
    """Every row in one plan: what goes wrong in one run touches no other."""
    folder = fresh(tmp_path_factory.mktemp("rows") / "runs", ready)
    specs = [row_spec(*row) for row in ROWS]
    runs, delivery = carry(folder, specs)
    assert (delivery.undelivered, delivery.errors) == (0, 0)
    return folder, {(run.spec.engine, run.spec.algorithm): run for run in runs}


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_the_record_the_table_and_mlflow_agree(
    ended: tuple[RunsFolder, dict[tuple[str, str], Run]], row: tuple[str, str]
) -> None:
    folder, runs = ended
    status, shown, words = ROWS[row]
    run = runs[row]
    assert run.folder is not None
    data = read_run(run.folder)
    assert data.outcome is not None
    assert data.outcome.status == run.state == status
    assert words in data.outcome.reason
    assert data.outcome.steps == len(data.steps)
    assert f"{status} " in next(line for line in status_lines([run]) if run.name in line)
    tracker = connect(folder, "sagc-test")
    (mirrored,) = tracker.client.search_runs([tracker.experiment_id], f"tags.`sagc.run_id` = '{run.spec.run_id}'")
    assert mirrored.info.status == shown
    assert mirrored.info.end_time is not None
    tags = mirrored.data.tags
    assert (tags["sagc.outcome"], tags["sagc.completed_steps"]) == (status, str(len(data.steps)))


def test_the_step_that_went_wrong_is_on_record_with_its_facts(
    ended: tuple[RunsFolder, dict[tuple[str, str], Run]],
) -> None:
    def third(engine: str, algorithm: str) -> Any:
        folder = ended[1][engine, algorithm].folder
        assert folder is not None
        return read_run(folder).steps[2]

    assert third("loss_NaN", "grpo").loss is None
    assert third("all_right", "dapo").refill_exhausted
    silent = third("all_right", "grpo")
    assert (silent.degenerate_groups, silent.optimizer_steps) == (silent.groups_generated, 0)
    long = third("all_truncated", "grpo")
    assert (long.truncated_rollouts, long.optimizer_steps, long.loss) == (long.rollouts_generated, 0, None)
    assert third("4_cannot_be_scored", "grpo").reward_errors == 4
    few = third("3_cannot_be_scored", "grpo")
    assert few.reward_errors == 3
    assert math.isfinite(few.reward_mean)
