"""The shared training loop: order, counts, milestones and honest ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from baselines.algorithms import AlgorithmSpec
from benchmarks.checkpoint import FOLDER, Checkpoint, CheckpointError, read_checkpoint, saved_steps
from benchmarks.engines.protocol import EvaluationScores, Prompt, Rollouts, TrainBatch, TrainStats
from benchmarks.loop import step_prompts, train
from benchmarks.noise import Stream, generator
from benchmarks.record import PHASES, EvaluationRecord, StepRecord, StepTiming
from benchmarks.spec import EvaluationPlan, Horizon, RunSpec
from sagc.config import SagcConfig
from sagc.controller import SagcPolicy
from sagc.errors import ConfigError
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.types import Decision, Observation

CONTROLLER = SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=2.0, rollouts_per_step=64)
SPEC = RunSpec(
    engine="lengths",
    task="lengths",
    algorithm="grpo",
    arm="sagc",
    seed=3,
    controller=CONTROLLER,
    horizon=Horizon(prompts=48, rollouts=768),
    rollouts_per_step=64,
    prompts_per_step=8,
    evaluation=EvaluationPlan(problems=4, final_problems=6, milestones=4),
)


class LengthEngine:
    """A step engine that draws lengths and rewards from a distribution and learns nothing."""

    response_cap = 100

    def __init__(self, seed: int = 3, success: float = 0.5, stats: TrainStats | None = None) -> None:
        self.seed, self.success = seed, success
        self.stats = stats
        self.draws: list[tuple[int, int]] = []
        self.batches: list[TrainBatch] = []

    def draw(self, first_index: int, count: int, progress: float) -> Sequence[Prompt]:
        assert 0 <= progress <= 1
        self.draws.append((first_index, count))
        return [Prompt(index=first_index + i, tokens=(1,), answer=0) for i in range(count)]

    def generate(self, prompts: Sequence[Prompt], group_size: int, step: int) -> Rollouts:
        noise = [generator(self.seed, Stream.ROLLOUTS, step, prompt.index) for prompt in prompts]
        lengths = [1 + np.minimum(rng.geometric(1 / 20, group_size), 99) for rng in noise]
        return Rollouts(
            prompts=prompts,
            tokens=[[np.zeros(n, dtype=np.int64) for n in group] for group in lengths],
            log_probs=[[np.zeros(n, dtype=np.float32) for n in group] for group in lengths],
            truncated=np.array(lengths) >= self.response_cap,
            decode_steps=int(np.max(lengths)) - 1,
            row_steps=int(np.sum(lengths)),
        )

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        rows = [generator(self.seed, Stream.SCHEDULE, prompt.index) for prompt in rollouts.prompts]
        return np.array([rng.random(rollouts.lengths.shape[1]) < self.success for rng in rows], dtype=np.float64)

    def train(self, batch: TrainBatch, algorithm: AlgorithmSpec, step: int) -> TrainStats:
        self.batches.append(batch)
        return self.stats or TrainStats(
            optimizer_steps=2, loss=0.1, grad_norm=1.0, clip_frac=0.0, ratio_deviation_max=0.0
        )

    def evaluate(self, problems: int, samples: int) -> EvaluationScores:
        return EvaluationScores(
            right=[samples] * problems, output_tokens=[20 * samples] * problems, truncated=[0] * problems
        )

    def state(self) -> dict[str, NDArray[Any]]:
        return {"updates": np.array(len(self.batches))}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.restored = int(arrays["updates"])

    def save_model(self, folder: Path) -> None:
        raise AssertionError("the loop saves no model")


class ListSink:
    """Keeps records in memory; asks to stop after `stop_after` steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.steps: list[StepRecord] = []
        self.timings: list[StepTiming] = []
        self.evaluations: list[EvaluationRecord] = []
        self.stop_after = stop_after

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        self.steps.append(record)
        self.timings.append(timing)

    def evaluation(self, record: EvaluationRecord) -> None:
        self.evaluations.append(record)

    def stop_requested(self) -> bool:
        return self.stop_after is not None and len(self.steps) >= self.stop_after


def refuse(path: Path) -> None:
    raise AssertionError(f"{path} must be whole")


def run(policy: Any, spec: RunSpec = SPEC, engine: LengthEngine | None = None, **sink: Any) -> tuple[ListSink, Any]:
    records = ListSink(**sink)
    return records, train(engine or LengthEngine(), spec, policy, records)


def test_a_run_ends_when_both_horizons_are_reached() -> None:
    for size, steps in ((4, 12), (16, 12), (32, 24)):  # 768 rollouts; 48 prompts of 2 a step
        sink, outcome = run(StaticPolicy(size))
        assert (outcome.status, outcome.steps) == ("finished", steps)
        assert outcome.rollouts == 64 * steps
        assert outcome.prompts == sum(record.groups_generated for record in sink.steps)


def test_prompts_follow_each_other_without_gap_or_repeat() -> None:
    engine = LengthEngine(success=0.1)
    run(SagcPolicy(CONTROLLER), replace(SPEC, algorithm="dapo"), engine)
    expected = 0
    for first, count in engine.draws:
        assert first == expected
        expected += count


def test_every_rollout_of_a_refilled_step_reaches_the_controller() -> None:
    sink, _ = run(SagcPolicy(CONTROLLER), replace(SPEC, algorithm="dapo"), LengthEngine(success=0.08))
    refilled = [record for record in sink.steps if record.barriers > 1]
    assert refilled
    for record in refilled:
        assert len(record.lengths) == record.groups_generated > record.num_prompts
        assert sum(record.barrier_rollouts) == record.rollouts_generated == record.groups_generated * record.group_size
        assert record.counted_groups == record.groups_generated
        assert record.groups_generated == record.groups_filtered + record.groups_trained + record.groups_surplus


def test_recorded_decisions_are_those_of_the_controller_alone() -> None:
    sink, _ = run(SagcPolicy(CONTROLLER))
    policy = SagcPolicy(CONTROLLER)
    decision, state = policy.init()
    for record in sink.steps:
        assert record.group_size == decision.group_size
        assert record.controller == policy.describe(state)
        decision, state = policy.update(state, Observation(record.lengths))
        assert record.controller_next == policy.describe(state)
        assert record.decision["group_size"] == decision.group_size


def test_evaluations_come_at_the_start_and_at_every_milestone_once() -> None:
    sink, _ = run(StaticPolicy(16))
    assert [(e.milestone, e.step, e.final) for e in sink.evaluations] == [
        (0, 0, False), (1, 3, False), (2, 6, False), (3, 9, False), (4, 12, True),
    ]  # fmt: skip
    assert [len(e.right) for e in sink.evaluations] == [4, 4, 4, 4, 6]


def test_a_step_that_passes_two_milestones_is_evaluated_once() -> None:
    spec = replace(SPEC, horizon=Horizon(prompts=3, rollouts=96), evaluation=EvaluationPlan(milestones=10))
    sink, _ = run(StaticPolicy(16), spec)
    assert [e.milestone for e in sink.evaluations] == [0, 6, 10]


def test_evaluation_cost_is_in_no_step() -> None:
    class Slow(LengthEngine):
        def evaluate(self, problems: int, samples: int) -> EvaluationScores:
            sum(math.sqrt(i) for i in range(300_000))
            return super().evaluate(problems, samples)

    sink, outcome = run(StaticPolicy(16), engine=Slow())
    assert outcome.evaluation_cpu_s > sum(sum(timing.cpu_s.values()) for timing in sink.timings)
    assert all(set(timing.cpu_s) == set(timing.wall_s) == set(PHASES) for timing in sink.timings)


def test_accuracy_is_of_all_generated_rollouts_before_any_filter() -> None:
    sink, _ = run(StaticPolicy(8), replace(SPEC, algorithm="dapo"), LengthEngine(success=0.05))
    mean = np.mean([record.accuracy for record in sink.steps])
    assert mean == pytest.approx(0.05, abs=0.03)


def test_dapo_stalls_with_a_name_when_no_group_is_informative() -> None:
    sink, outcome = run(StaticPolicy(8), replace(SPEC, algorithm="dapo"), LengthEngine(success=1.0))
    assert outcome.status == "stalled"
    assert "no informative group in 40 at step 1" in outcome.reason
    record = sink.steps[-1]
    assert (record.groups_generated, record.groups_trained, record.refill_exhausted) == (40, 0, True)


@pytest.mark.parametrize("field", ["loss", "grad_norm"])
def test_a_loss_that_is_not_finite_ends_the_run_in_its_step(field: str) -> None:
    numbers: dict[str, Any] = {"loss": 0.1, "grad_norm": 1.0, field: math.nan}
    stats = TrainStats(optimizer_steps=1, clip_frac=0.0, ratio_deviation_max=0.0, **numbers)
    sink, outcome = run(StaticPolicy(8), engine=LengthEngine(stats=stats))
    assert (outcome.status, outcome.steps) == ("diverged", 1)
    assert "nan at step 1" in outcome.reason
    assert getattr(sink.steps[0], field) is None


def test_a_weight_that_is_not_finite_ends_the_run_in_its_step_and_is_in_no_checkpoint(tmp_path: Path) -> None:
    stats = TrainStats(
        optimizer_steps=1, loss=0.1, grad_norm=1.0, clip_frac=0.0, ratio_deviation_max=0.0, weights_finite=False
    )
    sink = ListSink()
    outcome = train(LengthEngine(stats=stats), SPEC, StaticPolicy(8), sink, checkpoints=tmp_path)
    assert (outcome.status, outcome.reason) == ("diverged", "a weight is not finite after step 1")
    assert len(sink.steps) == 1
    assert list(tmp_path.iterdir()) == []


class HalfScored(LengthEngine):
    """Cannot score the first `failures` rollouts of each barrier."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        rewards = super().score(rollouts).astype(float)
        rewards.flat[: self.failures] = math.nan
        return rewards


def test_rollouts_that_cannot_be_scored_count_as_wrong_and_apart(tmp_path: Path) -> None:
    sink, outcome = run(StaticPolicy(8), engine=HalfScored(3))  # 3 of 64: 4.7 %
    assert outcome.status == "finished"
    assert [record.reward_errors for record in sink.steps] == [3] * len(sink.steps)
    assert all(math.isfinite(record.accuracy) for record in sink.steps)


def test_too_many_of_them_end_the_run_in_their_step() -> None:
    sink, outcome = run(StaticPolicy(8), engine=HalfScored(4))  # 6.3 %
    assert (outcome.status, outcome.steps) == ("failed", 1)
    assert outcome.reason == "4 of 64 rollouts could not be scored at step 1"
    assert sink.steps[0].reward_errors == 4


def test_grpo_goes_on_through_steps_without_an_informative_group_and_records_them() -> None:
    sink, outcome = run(StaticPolicy(8), engine=LengthEngine(success=1.0))
    assert outcome.status == "finished"
    assert all(record.degenerate_groups == record.groups_generated for record in sink.steps)
    assert all(record.trained_tokens == 0 for record in sink.steps)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"totals": {}, "decision": {}, "policy": {}},
        {"totals": {"step": "3"}, "decision": {"group_size": 8}, "policy": {}},
        {"totals": {"step": 3}, "decision": {"size": 8}, "policy": {}},
    ],
)
def test_a_checkpoint_of_something_else_is_refused(state: dict[str, Any]) -> None:
    checkpoint = Checkpoint(step=3, arrays={"updates": np.array(3)}, state=state)
    with pytest.raises(CheckpointError, match="checkpoint must be one of this run, got step 3 of another"):
        train(LengthEngine(), SPEC, SagcPolicy(CONTROLLER), ListSink(), resume=checkpoint)


def test_a_stop_ends_the_run_after_the_step_in_progress() -> None:
    sink, outcome = run(StaticPolicy(8), stop_after=2)
    assert (outcome.status, outcome.steps, len(sink.steps)) == ("killed", 2, 2)


@pytest.mark.parametrize("algorithm", ["grpo", "dapo"])
@pytest.mark.parametrize("stop", [0, 1, 7, 10, 11])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(tmp_path: Path, stop: int, algorithm: str) -> None:
    spec = replace(SPEC, algorithm=algorithm, horizon=Horizon(prompts=96, rollouts=1536))
    policy = SagcPolicy(CONTROLLER)
    whole, _ = run(policy, spec)
    first = ListSink(stop_after=stop)
    assert train(LengthEngine(), spec, policy, first, checkpoints=tmp_path / FOLDER).status == "killed"
    checkpoint = read_checkpoint(next(saved_steps(tmp_path, damaged=refuse)).path)
    engine, second = LengthEngine(), ListSink()
    outcome = train(engine, spec, policy, second, checkpoints=tmp_path / FOLDER, resume=checkpoint)
    assert engine.restored == checkpoint.step == stop
    assert (outcome.status, outcome.steps) == ("finished", len(whole.steps))
    assert first.steps + second.steps == whole.steps
    assert first.evaluations + second.evaluations == whole.evaluations


def test_group_size_one_trains_nothing() -> None:
    engine = LengthEngine()
    sink, _ = run(StaticPolicy(1), engine=engine)
    assert all(record.degenerate_groups == 64 and record.trained_tokens == 0 for record in sink.steps)
    assert all(record.straggler_rate is None for record in sink.steps)
    assert not any(batch.advantages.any() for batch in engine.batches)


def test_trained_tokens_are_those_with_an_advantage() -> None:
    engine = LengthEngine(success=0.1)
    sink, _ = run(StaticPolicy(4), engine=engine)
    for record, batch in zip(sink.steps, engine.batches, strict=True):
        live = [len(tokens) for tokens, a in zip(batch.tokens, batch.advantages, strict=True) if a]
        assert record.trained_tokens == sum(live) < record.generated_tokens
        assert len(batch.tokens) == record.rollouts_trained == 64


@pytest.mark.parametrize("make", [lambda: SagcPolicy(CONTROLLER), lambda: ReplayPolicy((4, 8, 32), shuffle_seed=1)])
def test_same_seed_same_records_and_another_seed_differs(make: Callable[[], Any]) -> None:
    first, _ = run(make())
    second, _ = run(make())
    other, _ = run(make(), engine=LengthEngine(seed=4))
    assert first.steps == second.steps
    assert first.steps != other.steps


def test_step_prompts_follow_the_batch_policy() -> None:
    assert step_prompts(Decision(group_size=16), SPEC) == 4
    assert step_prompts(Decision(group_size=16), replace(SPEC, batch_policy="fixed_prompts")) == 8
    assert step_prompts(Decision(group_size=16, num_prompts=5), SPEC) == 5
    with pytest.raises(ConfigError, match="must divide rollouts_per_step 64, got 7"):
        step_prompts(Decision(group_size=7), SPEC)
