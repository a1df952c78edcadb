"""The clipped policy loss of GRPO and DAPO, as pure functions of tensors.

    ratio_t = exp(log pi(a_t) - log pi_old(a_t))
    l_t     = -min(ratio_t A, clip(ratio_t, 1 - clip_low, 1 + clip_high) A)

    sequence_mean (GRPO):  (1 / rollouts) sum over rollouts of mean_t l_t
    token_mean    (DAPO):  (1 / tokens)   sum over rollouts and t of l_t

Both denominators are those of the whole mini-batch, its degenerate rollouts included, and are handed in: the
loss of a mini-batch is then the sum over its micro-batches however it is split and padded.

Sources: GRPO, arXiv 2402.03300; DAPO, arXiv 2503.14476. There is no KL term and, unlike verl 0.9.1, no dual
clip: for a negative advantage the loss grows without bound above ratio 3, where verl holds it at 3 |A|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from baselines.algorithms import AlgorithmSpec, LossAggregation


@dataclass(frozen=True, slots=True, kw_only=True)
class Denominators:
    """Size of the whole mini-batch, degenerate rollouts included."""

    rollouts: int
    tokens: int
    """Response tokens."""


def policy_loss(
    log_ratios: Tensor, advantages: Tensor, mask: Tensor, algorithm: AlgorithmSpec, denominators: Denominators
) -> Tensor:
    """The share of these rollouts in the loss of their mini-batch.

    Args:
        log_ratios: [R, T] log pi(a_t) - log pi_old(a_t); what stands outside the mask is never read.
        advantages: [R].
        mask: [R, T] bool, which positions are response tokens.
        algorithm: clip range and aggregation.
        denominators: of the whole mini-batch.

    Returns:
        A scalar. Everything masked gives 0 with zero gradients.
    """
    log_ratios = torch.where(mask, log_ratios, 0.0)  # not a product: NaN * 0 is NaN
    ratios = log_ratios.exp()
    clipped = ratios.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high)
    per_row = advantages.unsqueeze(1)
    losses = -torch.min(ratios * per_row, clipped * per_row)
    return aggregate(losses, mask, algorithm.loss_aggregation, denominators)


def aggregate(losses: Tensor, mask: Tensor, aggregation: LossAggregation, denominators: Denominators) -> Tensor:
    """Sum token losses [R, T] under `mask` into a scalar, as the algorithm weighs tokens and rollouts."""
    return _AGGREGATIONS[aggregation](torch.where(mask, losses, 0.0), mask, denominators)


def clipped_tokens(log_ratios: Tensor, advantages: Tensor, mask: Tensor, algorithm: AlgorithmSpec) -> Tensor:
    """How many tokens are on the clipped branch, where the loss has no gradient: a scalar count.

    A token is clipped above 1 + clip_high if its advantage is positive, below 1 - clip_low if it is negative.
    """
    ratios, per_row = log_ratios.exp(), advantages.unsqueeze(1)
    above = (per_row > 0) & (ratios > 1 + algorithm.clip_high)
    below = (per_row < 0) & (ratios < 1 - algorithm.clip_low)
    return ((above | below) & mask).sum()


def _sequence_mean(losses: Tensor, mask: Tensor, denominators: Denominators) -> Tensor:
    lengths = mask.sum(dim=1).clamp(min=1)  # a row without response tokens adds 0, not 0 / 0
    return (losses.sum(dim=1) / lengths).sum() / denominators.rollouts


def _token_mean(losses: Tensor, mask: Tensor, denominators: Denominators) -> Tensor:
    return losses.sum() / max(denominators.tokens, 1)


_AGGREGATIONS: dict[LossAggregation, Callable[[Tensor, Tensor, Denominators], Tensor]] = {
    "sequence_mean": _sequence_mean,
    "token_mean": _token_mean,
}
