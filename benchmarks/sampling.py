"""The rollouts of one training step: one barrier, or several under dynamic sampling.

Refill as verl 0.9.1's V1 replay buffer does it in sync mode: every evicted group adds `refill_factor`
prompts of credit, at most one step's prompts are in flight, and once enough informative groups are there
the surplus is discarded. Every refill waits for its slowest rollout: a new barrier. The bound on the
rounds is ours; verl has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from baselines.algorithms import AlgorithmSpec
from benchmarks.engines.protocol import Rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """One batch of rollouts that the step waited for, with its rewards."""

    rollouts: Rollouts
    rewards: NDArray[np.float64]
    """[P, G] reward before any penalty; 0 where scoring failed."""
    errors: int = 0
    """Rollouts whose scoring failed."""

    @property
    def degenerate(self) -> NDArray[np.bool_]:
        """[P] whether all rewards of a group are equal; a group of one always is."""
        equal: NDArray[np.bool_] = self.rewards.max(axis=1) == self.rewards.min(axis=1)
        return equal


@dataclass(slots=True)
class StepSample:
    """Everything a training step sampled, and which of it is trained."""

    num_prompts: int
    """Groups that the step set out to train, P."""
    filters: bool
    """Whether degenerate groups are dropped."""
    barriers: list[Barrier] = field(default_factory=list)
    exhausted: bool = False
    """The bound on refill rounds was reached with too few informative groups."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[groups, G] tokens of every rollout, in draw order."""
        return np.concatenate([barrier.rollouts.lengths for barrier in self.barriers])

    @property
    def rewards(self) -> NDArray[np.float64]:
        """[groups, G], in draw order."""
        return np.concatenate([barrier.rewards for barrier in self.barriers])

    @property
    def reward_errors(self) -> int:
        """Rollouts whose scoring failed."""
        return sum(barrier.errors for barrier in self.barriers)

    @property
    def degenerate(self) -> NDArray[np.bool_]:
        """[groups], in draw order."""
        return np.concatenate([barrier.degenerate for barrier in self.barriers])

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """[groups] whether a group may be trained."""
        degenerate = self.degenerate
        return ~degenerate if self.filters else np.ones_like(degenerate)

    @property
    def trained(self) -> NDArray[np.bool_]:
        """[groups] the first `num_prompts` eligible groups; what is eligible beyond them is surplus."""
        eligible = self.eligible
        return eligible & (np.cumsum(eligible) <= self.num_prompts)

    @property
    def complete(self) -> bool:
        """Whether there are as many eligible groups as the step set out to train."""
        return int(self.eligible.sum()) >= self.num_prompts


def scored(rollouts: Rollouts, rewards: NDArray[np.float64]) -> Barrier:
    """A barrier with its rewards: what is not finite is a failure to score, counted, and no right answer."""
    failed = ~np.isfinite(rewards)
    return Barrier(rollouts=rollouts, rewards=np.where(failed, 0.0, rewards), errors=int(failed.sum()))


def collect(num_prompts: int, algorithm: AlgorithmSpec, barrier: Callable[[int], Barrier]) -> StepSample:
    """Sample one training step.

    Args:
        num_prompts: groups to train, P.
        algorithm: says whether degenerate groups are dropped, and the refill rule.
        barrier: samples and scores that many new prompts.

    Returns:
        The sample. When the bound on refills is reached it trains on the informative groups it has, which
        may be none.
    """
    sample = StepSample(num_prompts=num_prompts, filters=algorithm.dynamic_sampling)
    draw, credit = num_prompts, 0
    for _ in range(1 + algorithm.max_refill_rounds):
        sample.barriers.append(barrier(draw))
        if sample.complete:
            return sample
        credit += algorithm.refill_factor * int(sample.barriers[-1].degenerate.sum())
        draw = min(credit, num_prompts)
        credit -= draw
    sample.exhausted = True
    return sample
