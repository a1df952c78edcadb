"""The update of one training step: mini-batches, micro-batches, gradients, optimizer steps.

Rollouts with zero advantage have no gradient, so they enter the denominators and are never run through the
model. Micro-batches hold rows of similar length; how rows fall into them changes neither loss nor gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baselines.algorithms import AlgorithmSpec
from benchmarks.engines.protocol import TrainBatch, TrainStats
from benchmarks.engines.torch_cpu.losses import Denominators, clipped_tokens, policy_loss
from benchmarks.spec import TrainingSettings

MICRO_BATCH_ROWS = 8
"""Rows run through the model at once [ours]: the fastest of 4, 8, 16 and 32 on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch:
    """Rows padded on the right to a rectangle; position t of `inputs` predicts `targets` at t."""

    inputs: Tensor
    """[R, T] prompt and response without its last token."""
    targets: Tensor
    """[R, T] the same rows one token later."""
    mask: Tensor
    """[R, T] bool, where `targets` is a response token."""


@dataclass(slots=True)
class _Tally:
    """Sums over the optimizer steps of one training step."""

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    clipped: int = 0
    tokens: int = 0
    ratio_deviation_max: float = 0.0

    def stats(self, weights_finite: bool) -> TrainStats:
        if not self.losses:
            return TrainStats(optimizer_steps=0, loss=None, grad_norm=None, clip_frac=None, ratio_deviation_max=None)
        return TrainStats(
            optimizer_steps=len(self.losses),
            loss=float(np.mean(self.losses)),
            grad_norm=float(np.mean(self.grad_norms)),
            clip_frac=self.clipped / self.tokens,  # counts, not a mean of the mini-batches' shares
            ratio_deviation_max=self.ratio_deviation_max,
            weights_finite=weights_finite,
        )


def token_batch(prompts: list[tuple[int, ...]], responses: list[NDArray[np.int64]], pad: int) -> TokenBatch:
    """Rows of prompt and response, for teacher forcing.

    Args:
        prompts: [R] prompt tokens, at least one each.
        responses: [R] response tokens, as sampled: a truncated one ends in the token that was sampled last.
        pad: fills the rows up; the mask comes from the lengths, so it may be any token.
    """
    lengths = [(len(prompt), len(response)) for prompt, response in zip(prompts, responses, strict=True)]
    width = max(sum(pair) for pair in lengths)
    tokens = np.full((len(lengths), width), pad, dtype=np.int64)
    mask = np.zeros((len(lengths), width - 1), dtype=bool)
    for row, (before, after) in enumerate(lengths):
        tokens[row, :before] = prompts[row]
        tokens[row, before : before + after] = responses[row]
        mask[row, before - 1 : before + after - 1] = True
    rows = torch.from_numpy(tokens)
    return TokenBatch(inputs=rows[:, :-1], targets=rows[:, 1:], mask=torch.from_numpy(mask))


def token_log_probs(model: nn.Module, batch: TokenBatch) -> Tensor:
    """[R, T] log-probability of every target at temperature 1."""
    logits = model(batch.inputs)
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none")
    return -losses.view(batch.targets.shape)


def mini_batches(order: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Cut the rows, in this order, into `count` parts of nearly equal size; fewer rows than that stay together."""
    return np.array_split(order, count) if len(order) >= count else [order]


def micro_batches(rows: NDArray[np.int64], lengths: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """The rows by length, `size` at a time."""
    by_length = rows[np.argsort(lengths[rows], kind="stable")]
    for first in range(0, len(by_length), size):
        yield by_length[first : first + size]


def update_policy(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: TrainBatch,
    order: NDArray[np.int64],
    algorithm: AlgorithmSpec,
    settings: TrainingSettings,
    pad: int,
    micro_batch_rows: int = MICRO_BATCH_ROWS,
) -> TrainStats:
    """Take one optimizer step per mini-batch.

    Args:
        model: the policy, changed in place.
        optimizer: over the parameters of `model`.
        batch: the rollouts of the step.
        order: a permutation of the rows of `batch`.
        algorithm: the loss.
        settings: mini-batches and the bound on the gradient norm.
        pad: token that fills rows up.
        micro_batch_rows: rows run through the model at once; for speed alone.

    Returns:
        Means over the optimizer steps. A mini-batch without a non-zero advantage takes no step and counts as
        none; `ratio_deviation_max` is that of the first step, whose policy is still the one that sampled.
    """
    tally = _Tally()
    responses = np.array([len(row) for row in batch.tokens], dtype=np.int64)
    totals = responses + np.array([len(prompt.tokens) for prompt in batch.prompts], dtype=np.int64)
    for rows in mini_batches(order, settings.mini_batches):
        live = rows[batch.advantages[rows] != 0]
        if not live.size:
            continue
        denominators = Denominators(rollouts=len(rows), tokens=int(responses[rows].sum()))
        optimizer.zero_grad(set_to_none=True)
        first = not tally.losses
        loss = 0.0
        for part in micro_batches(live, totals, micro_batch_rows):
            loss += _accumulate(model, batch, part, algorithm, denominators, pad, tally, first)
        norm = nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        tally.losses.append(loss)
        tally.grad_norms.append(float(norm))
    return tally.stats(all(bool(parameter.isfinite().all()) for parameter in model.parameters()))


def _accumulate(
    model: nn.Module,
    batch: TrainBatch,
    rows: NDArray[np.int64],
    algorithm: AlgorithmSpec,
    denominators: Denominators,
    pad: int,
    tally: _Tally,
    first: bool,
) -> float:
    """Add the gradient of one micro-batch; returns its share of the mini-batch's loss."""
    tokens = token_batch([batch.prompts[row].tokens for row in rows], [batch.tokens[row] for row in rows], pad)
    log_probs = token_log_probs(model, tokens)
    old = torch.zeros_like(log_probs)
    old[tokens.mask] = torch.from_numpy(np.concatenate([batch.log_probs[row] for row in rows])).to(old)
    advantages = torch.from_numpy(batch.advantages[rows]).to(old)
    log_ratios = log_probs - old
    loss = policy_loss(log_ratios, advantages, tokens.mask, algorithm, denominators)
    torch.autograd.backward(loss)
    log_ratios = log_ratios.detach()
    tally.tokens += int(tokens.mask.sum())
    tally.clipped += int(clipped_tokens(log_ratios, advantages, tokens.mask, algorithm))
    if first:
        deviation = float((log_ratios[tokens.mask].exp() - 1).abs().max())
        tally.ratio_deviation_max = max(tally.ratio_deviation_max, deviation)
    return float(loss.detach())
