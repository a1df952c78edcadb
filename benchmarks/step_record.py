"""How a training step is put on record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.protocol import TrainStats
from benchmarks.record import StepRecord
from benchmarks.sampling import StepSample
from sagc.config import SagcConfig
from sagc.stragglers import straggler_counts
from sagc.types import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What a training step was trained on, and how."""

    rewards: NDArray[np.float64]
    """[groups, G] shaped rewards: the overlong penalty included."""
    penalty_mean: float
    trained_tokens: int
    stats: TrainStats


def step_record(
    *,
    step: int,
    first_prompt: int,
    played: Decision,
    upcoming: Decision,
    sample: StepSample,
    learned: Learned,
    controller: SagcConfig,
    in_force: dict[str, float],
    after: dict[str, float],
) -> StepRecord:
    """Put one training step on record.

    Args:
        step: 1-based.
        first_prompt: index of the first prompt drawn.
        played: the decision that the step ran.
        upcoming: what the policy decided for the next one.
        sample: everything sampled.
        learned: what was trained on it.
        controller: threshold and reference of straggler events; the same for every arm of a task.
        in_force: the policy's numbers during the step.
        after: the policy's numbers after its observation.
    """
    lengths = sample.lengths
    stragglers = straggler_counts(lengths, controller.threshold, controller.reference)
    barriers = [barrier.rollouts for barrier in sample.barriers]
    trained, degenerate = sample.trained, sample.degenerate
    stats = learned.stats
    return StepRecord(
        step=step,
        group_size=played.group_size,
        num_prompts=sample.num_prompts,
        first_prompt=first_prompt,
        lengths=lengths.tolist(),
        straggler_rate=stragglers.rate,
        straggler_groups=stragglers.straggler_groups,
        counted_groups=stragglers.groups,
        straggler_rollouts=stragglers.hits,
        controller=in_force,
        controller_next=after,
        decision={
            "group_size": upcoming.group_size,
            "num_prompts": upcoming.num_prompts,
            "budget_infeasible": upcoming.budget_infeasible,
        },
        barriers=len(barriers),
        barrier_rollouts=[int(rollouts.lengths.size) for rollouts in barriers],
        barrier_longest=[int(rollouts.lengths.max()) for rollouts in barriers],
        generated_tokens=int(lengths.sum()),
        decode_steps=sum(rollouts.decode_steps for rollouts in barriers),
        row_steps=sum(rollouts.row_steps for rollouts in barriers),
        groups_generated=len(lengths),
        groups_filtered=int(degenerate.sum()) if sample.filters else 0,
        groups_trained=int(trained.sum()),
        groups_surplus=int((sample.eligible & ~trained).sum()),
        degenerate_groups=int(degenerate.sum()),
        rollouts_generated=int(lengths.size),
        rollouts_trained=int(trained.sum()) * played.group_size,
        accuracy=float(sample.rewards.mean()),
        reward_mean=float(learned.rewards.mean()),
        overlong_penalty_mean=learned.penalty_mean,
        truncated_rollouts=sum(int(rollouts.truncated.sum()) for rollouts in barriers),
        trained_tokens=learned.trained_tokens,
        optimizer_steps=stats.optimizer_steps,
        loss=_finite(stats.loss),
        grad_norm=_finite(stats.grad_norm),
        clip_frac=_finite(stats.clip_frac),
        ratio_deviation_max=_finite(stats.ratio_deviation_max),
        refill_exhausted=sample.exhausted,
        reward_errors=sample.reward_errors,
    )


def _finite(value: float | None) -> float | None:
    """JSON has no NaN: a number that is not finite is left out of the record, and the outcome says so."""
    return value if value is None or math.isfinite(value) else None
