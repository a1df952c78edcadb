"""What one run's step records say about stragglers, idle time and counts, each over the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.record import StepRecord
from reports.undecidable import NotDecidable


def straggler_rate(steps: Sequence[StepRecord]) -> float:
    """Mean over steps of the share of groups with a straggler; steps in which no group counts are left out.

    Raises:
        NotDecidable: if no step has a counted group.
    """
    rates = [step.straggler_rate for step in steps if step.straggler_rate is not None]
    if not rates:
        raise NotDecidable("no step has a group of two rollouts or more, so there is no straggler rate")
    return float(np.mean(rates))


def straggler_rate_by_group(steps: Sequence[StepRecord]) -> float:
    """Share of all counted groups of the run; lower than the mean over steps when large G means few groups."""
    counted = sum(step.counted_groups for step in steps)
    if not counted:
        raise NotDecidable("no step has a group of two rollouts or more, so there is no straggler rate")
    return sum(step.straggler_groups for step in steps) / counted


def idle_share(steps: Sequence[StepRecord]) -> float:
    """1 - sum(L) / sum over barriers of (rollouts x longest), of the whole run and not a mean of shares.

    Raises:
        NotDecidable: if nothing was generated.
    """
    slots = sum(
        rollouts * longest
        for step in steps
        for rollouts, longest in zip(step.barrier_rollouts, step.barrier_longest, strict=True)
    )
    if not slots:
        raise NotDecidable("no rollout was generated, so there is no idle share")
    return 1 - sum(step.generated_tokens for step in steps) / slots


def binding_share(steps: Sequence[StepRecord]) -> float:
    """Share of steps that ran under a price above 0.

    Raises:
        NotDecidable: if the policy has no price.
    """
    if not steps or any("dual_variable" not in step.controller for step in steps):
        raise NotDecidable("the policy recorded no price")
    return float(np.mean([step.controller["dual_variable"] > 0 for step in steps]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Both sides of mean_t Z_t - delta = (lambda_{T+1} - lambda_1 - sum_t c_t) / (eta T)."""

    left: float
    right: float
    first_price: float
    last_price: float
    clipped: float
    updates: int


def identity(steps: Sequence[StepRecord], controller: Mapping[str, Any]) -> Identity:
    """The identity of the price update, from recorded rates and recorded prices apart.

    Args:
        steps: of a run whose policy has a price.
        controller: its settings (`budget`, `dual_step_size`).

    Raises:
        NotDecidable: if the policy recorded no price, or no step updated it.
    """
    binding_share(steps)
    updating = [step for step in steps if step.straggler_rate is not None]
    if not updating:
        raise NotDecidable("no step updated the price")
    first, last = steps[0].controller["dual_variable"], steps[-1].controller_next["dual_variable"]
    clipped = sum(step.controller_next["clipped"] for step in updating)
    return Identity(
        left=straggler_rate(steps) - controller["budget"],
        right=(last - first - clipped) / (controller["dual_step_size"] * len(updating)),
        first_price=first,
        last_price=last,
        clipped=clipped,
        updates=len(updating),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums and means over a run's steps."""

    steps: int
    mean_group_size: float
    """Mean of G over steps."""
    mean_group_size_by_group: float
    """Rollouts / groups: what a generated prompt got."""
    groups_generated: int
    groups_filtered: int
    groups_trained: int
    groups_surplus: int
    degenerate_share: float
    """Degenerate / generated groups."""
    barriers_per_step: float
    truncated_share: float
    """Truncated / generated rollouts."""
    overlong_penalty: float
    """Mean soft overlong penalty of a generated rollout."""
    refill_exhausted: int
    """Steps in which dynamic sampling reached its bound."""


def counts(steps: Sequence[StepRecord]) -> Counts:
    """Counts of a run.

    Raises:
        NotDecidable: if it has no step, or generated nothing.
    """
    groups, rollouts = sum(step.groups_generated for step in steps), sum(step.rollouts_generated for step in steps)
    if not steps or not groups or not rollouts:
        raise NotDecidable("no rollout was generated")
    return Counts(
        steps=len(steps),
        mean_group_size=float(np.mean([step.group_size for step in steps])),
        mean_group_size_by_group=rollouts / groups,
        groups_generated=groups,
        groups_filtered=sum(step.groups_filtered for step in steps),
        groups_trained=sum(step.groups_trained for step in steps),
        groups_surplus=sum(step.groups_surplus for step in steps),
        degenerate_share=sum(step.degenerate_groups for step in steps) / groups,
        barriers_per_step=sum(step.barriers for step in steps) / len(steps),
        truncated_share=sum(step.truncated_rollouts for step in steps) / rollouts,
        overlong_penalty=sum(step.overlong_penalty_mean * step.rollouts_generated for step in steps) / rollouts,
        refill_exhausted=sum(step.refill_exhausted for step in steps),
    )
