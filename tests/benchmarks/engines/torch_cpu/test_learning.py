"""What the CPU experiment rests on: where a run starts, how its stragglers behave, and that it learns.

Slow: two warm starts of 10 to 20 CPU-seconds, and a run of 12 to 20 for every seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from baselines.arms import ARMS, ArmContext
from benchmarks import loop
from benchmarks.engines.torch_cpu.engine import TorchStepEngine
from benchmarks.engines.torch_cpu.warm_start import SUMMARY, warm_start
from benchmarks.spec import EvaluationPlan, RunSpec
from benchmarks.tasks import TASKS
from sagc.stragglers import straggler_counts
from tests.benchmarks.engines.torch_cpu.test_engine import Records

pytestmark = pytest.mark.slow
WarmStart = Callable[[str], Path]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> WarmStart:
    """The warm start of a task, built at its first use."""
    cache = tmp_path_factory.mktemp("warm-starts")
    return lambda task: warm_start(task, cache)


def run_spec(task: str, arm: str, seed: int) -> RunSpec:
    """A GRPO run over the task's own horizon, evaluated on 1,024 problems at its start and at its end."""
    row = TASKS[task]
    return RunSpec(
        engine="torch_cpu",
        task=task,
        algorithm="grpo",
        arm=arm,
        seed=seed,
        controller=row.controller,
        horizon=row.horizon,
        rollouts_per_step=row.rollouts_per_step,
        prompts_per_step=row.prompts_per_step,
        evaluation=EvaluationPlan(problems=1024, final_problems=1024, milestones=1),
    )


def run(spec: RunSpec, model: Path) -> Records:
    policy = ARMS[spec.arm].make(ArmContext(controller=spec.controller, seed=spec.seed))
    records = Records()
    assert loop.train(TorchStepEngine(spec, model), spec, policy, records).status == "finished"
    return records


@pytest.mark.parametrize("task", TASKS)
def test_a_warm_start_is_good_enough_to_learn_from_and_leaves_room(task: str, warm: WarmStart) -> None:
    summary = json.loads((warm(task) / SUMMARY).read_text())
    assert 0.30 <= summary["sampled_accuracy"] <= 0.45
    assert summary["greedy_accuracy"] <= 0.95
    assert summary["truncated_frac"] < 0.02


def test_straggler_rates_of_the_frozen_warm_start_rise_with_the_group_size(warm: WarmStart) -> None:
    """128 prompts with 64 rollouts each, cut into groups; three seeds lay within .03 of these rates."""
    engine = TorchStepEngine(run_spec("steady", "static_8", 0), warm("steady"))
    lengths = np.concatenate([engine.generate(engine.draw(8 * n, 8, 0.0), 64, 1).lengths for n in range(16)])
    sizes = (2, 4, 8, 16, 32)
    rates = np.array([straggler_counts(lengths.reshape(-1, size), 2.0, "group").rate for size in sizes], dtype=float)
    assert rates[0] == 0.0  # by arithmetic
    assert (np.diff(rates) > 0).all()
    assert rates[1:] == pytest.approx([0.14, 0.34, 0.60, 0.85], abs=0.08)


@pytest.mark.parametrize("seed", range(3))
def test_static_8_gains_a_quarter_of_sampled_accuracy_in_96_steps(seed: int, warm: WarmStart) -> None:
    records = run(run_spec("steady", "static_8", seed), warm("steady"))
    before, after = (np.mean(evaluation.right) for evaluation in records.evaluations)
    assert len(records.steps) == 96
    assert after - before >= 0.25


@pytest.mark.parametrize("task", TASKS)
def test_the_price_binds_in_most_steps_of_sagc(task: str, warm: WarmStart) -> None:
    records = run(run_spec(task, "sagc", 0), warm(task))
    assert np.mean([record.controller["dual_variable"] > 0 for record in records.steps]) >= 0.5
