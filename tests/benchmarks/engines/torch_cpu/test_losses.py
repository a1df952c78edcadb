"""Policy loss: the public bug reports of loss aggregation, clipping and masks, with their numbers."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from baselines.algorithms import ALGORITHMS, DAPO, GRPO, AlgorithmSpec, LossAggregation
from benchmarks.engines.torch_cpu.losses import Denominators, aggregate, clipped_tokens, policy_loss

TOY_LOSSES, TOY_LENGTHS = (1.0, 2.0, 4.0, 0.5), (2, 6, 1, 3)
TOY_MEANS: dict[LossAggregation, float] = {"sequence_mean": 1.875, "token_mean": 1.625}
RATIOS = (0.5, 0.75, 1.0, 1.25, 1.5, 4.0)
both_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
both_aggregations = pytest.mark.parametrize("aggregation", TOY_MEANS)


def toy(width: int = 6) -> tuple[Tensor, Tensor]:
    """Losses and mask [4, width] of four rollouts of 2, 6, 1 and 3 tokens."""
    mask = torch.arange(width)[None, :] < torch.tensor(TOY_LENGTHS)[:, None]
    losses = torch.tensor(TOY_LOSSES, dtype=torch.float64)[:, None].expand(4, width)
    return torch.where(mask, losses, 99.0), mask


def denominators(mask: Tensor) -> Denominators:
    return Denominators(rollouts=len(mask), tokens=int(mask.sum()))


def random_batch(rows: int = 6, width: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Log ratios that cross both clip bounds, advantages and mask."""
    generator = torch.Generator().manual_seed(0)
    log_ratios = torch.randn(rows, width, generator=generator, dtype=torch.float64) * 0.4
    advantages = torch.randn(rows, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    return log_ratios, advantages, torch.arange(width)[None, :] < lengths[:, None]


def loss_and_gradient(
    parts: list[list[int]], algorithm: AlgorithmSpec, batch: tuple[Tensor, Tensor, Tensor]
) -> tuple[float, Tensor]:
    """Loss and gradient with the rows run in these micro-batches, each cut to its own width."""
    log_ratios, advantages, mask = batch
    leaf = log_ratios.clone().requires_grad_()
    total = 0.0
    for rows in parts:
        width = int(mask[rows].sum(dim=1).max())
        loss = policy_loss(leaf[rows, :width], advantages[rows], mask[rows, :width], algorithm, denominators(mask))
        torch.autograd.backward(loss)
        total += loss.item()
    assert leaf.grad is not None
    return total, leaf.grad


def splits(count: int) -> list[list[list[int]]]:
    """Every way to cut `count` rows, in order, into consecutive parts."""
    cuts = itertools.chain.from_iterable(itertools.combinations(range(1, count), n) for n in range(count))
    return [[list(range(a, b)) for a, b in itertools.pairwise((0, *cut, count))] for cut in cuts]


@both_aggregations
def test_toy_batch_has_its_published_mean(aggregation: LossAggregation) -> None:
    losses, mask = toy()
    assert float(aggregate(losses, mask, aggregation, denominators(mask))) == pytest.approx(TOY_MEANS[aggregation])


@both_aggregations
@pytest.mark.parametrize("parts", [[[0, 1], [2, 3]], [[0], [1, 2, 3]], [[0], [1], [2], [3]]])
def test_toy_batch_keeps_its_mean_in_micro_batches(aggregation: LossAggregation, parts: list[list[int]]) -> None:
    losses, mask = toy()
    total = sum(float(aggregate(losses[rows], mask[rows], aggregation, denominators(mask))) for rows in parts)
    assert total == pytest.approx(TOY_MEANS[aggregation])  # means of micro-batch means: 1.5625 and 1.58333


def test_token_mean_weighs_micro_batches_by_their_tokens() -> None:
    whole = Denominators(rollouts=2, tokens=1000)
    parts = [(2.0, 100), (0.5, 900)]
    total = sum(
        float(aggregate(torch.full((1, n), value), torch.ones(1, n, dtype=torch.bool), "token_mean", whole))
        for value, n in parts
    )
    assert total == pytest.approx(0.65)  # a mean of means gives 1.25


@both_algorithms
def test_every_split_gives_the_same_loss_and_gradient(algorithm: AlgorithmSpec) -> None:
    batch = random_batch()
    loss, gradient = loss_and_gradient([list(range(6))], algorithm, batch)
    assert gradient.abs().sum() > 0
    for parts in splits(6):
        split_loss, split_gradient = loss_and_gradient(parts, algorithm, batch)
        assert split_loss == pytest.approx(loss, abs=1e-12)
        torch.testing.assert_close(split_gradient, gradient, rtol=0, atol=1e-12)


@both_algorithms
def test_everything_masked_is_zero_without_nan(algorithm: AlgorithmSpec) -> None:
    log_ratios = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(3, 4, dtype=torch.bool)
    loss = policy_loss(log_ratios, torch.ones(3, dtype=torch.float64), mask, algorithm, denominators(mask))
    torch.autograd.backward(loss)
    assert loss.item() == 0.0
    assert log_ratios.grad is not None
    assert torch.equal(log_ratios.grad, torch.zeros(3, 4, dtype=torch.float64))


@both_aggregations
def test_nan_under_the_mask_is_not_read(aggregation: LossAggregation) -> None:
    losses, mask = toy()
    dirty = torch.where(mask, losses, math.nan)
    assert float(aggregate(dirty, mask, aggregation, denominators(mask))) == pytest.approx(TOY_MEANS[aggregation])


@both_algorithms
def test_nan_log_ratios_under_the_mask_change_neither_loss_nor_gradient(algorithm: AlgorithmSpec) -> None:
    log_ratios, advantages, mask = random_batch()
    rows = [list(range(6))]
    clean = loss_and_gradient(rows, algorithm, (log_ratios, advantages, mask))
    dirty = loss_and_gradient(rows, algorithm, (torch.where(mask, log_ratios, math.nan), advantages, mask))
    assert dirty[0] == clean[0]
    assert torch.equal(dirty[1], clean[1])


@both_aggregations
def test_padding_width_does_not_matter(aggregation: LossAggregation) -> None:
    for width in (6, 12, 40):
        losses, mask = toy(width)
        assert float(aggregate(losses, mask, aggregation, denominators(mask))) == pytest.approx(TOY_MEANS[aggregation])


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [(1.0, (-0.5, -0.75, -1.0, -1.25, -1.28, -1.28)), (-1.0, (0.8, 0.8, 1.0, 1.25, 1.5, 4.0))],
)
def test_clip_higher_per_token(advantage: float, expected: tuple[float, ...]) -> None:
    for ratio, loss in zip(RATIOS, expected, strict=True):
        assert one_token_loss(ratio, advantage, DAPO) == pytest.approx(loss)


def test_no_dual_clip_so_the_loss_differs_from_verl_above_ratio_three() -> None:
    assert one_token_loss(4.0, -1.0, DAPO) == pytest.approx(4.0)  # verl 0.9.1: 3.0
    assert one_token_loss(3.0, -1.0, DAPO) == pytest.approx(3.0)


def test_grpo_clips_symmetrically() -> None:
    assert one_token_loss(1.5, 1.0, GRPO) == pytest.approx(-1.2)
    assert one_token_loss(0.5, -1.0, GRPO) == pytest.approx(0.8)


def one_token_loss(ratio: float, advantage: float, algorithm: AlgorithmSpec) -> float:
    log_ratio = torch.tensor([[math.log(ratio)]], dtype=torch.float64)
    mask = torch.ones(1, 1, dtype=torch.bool)
    adv = torch.tensor([advantage], dtype=torch.float64)
    return float(policy_loss(log_ratio, adv, mask, algorithm, Denominators(rollouts=1, tokens=1)))


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_clip_fraction_knows_the_sign_of_the_advantage(advantage: float) -> None:
    log_ratios = torch.tensor([RATIOS]).log()
    mask = torch.ones(1, 6, dtype=torch.bool)
    assert int(clipped_tokens(log_ratios, torch.tensor([advantage]), mask, DAPO)) == 2  # sign ignored: 4 of 6
    mask[0, -1] = mask[0, 0] = False
    assert int(clipped_tokens(log_ratios, torch.tensor([advantage]), mask, DAPO)) == 1


@both_algorithms
def test_clipped_tokens_are_those_without_a_gradient(algorithm: AlgorithmSpec) -> None:
    batch = random_batch()
    _, gradient = loss_and_gradient([list(range(6))], algorithm, batch)
    without = (gradient == 0) & batch[2]
    assert int(without.sum()) == int(clipped_tokens(*batch, algorithm)) > 0


def test_on_policy_loss_is_minus_the_mean_advantage_over_the_denominator() -> None:
    _, mask = toy()
    advantages = torch.tensor([1.5, -0.5, -0.5, -0.5], dtype=torch.float64)
    zeros = torch.zeros(4, 6, dtype=torch.float64)
    token_mean = -(1.5 * 2 - 0.5 * 6 - 0.5 * 1 - 0.5 * 3) / 12
    assert float(policy_loss(zeros, advantages, mask, DAPO, denominators(mask))) == pytest.approx(token_mean)
    assert float(policy_loss(zeros, advantages, mask, GRPO, denominators(mask))) == pytest.approx(0.0)


@both_algorithms
def test_degenerate_rollouts_count_in_the_denominator(algorithm: AlgorithmSpec) -> None:
    log_ratios, advantages, mask = random_batch()
    advantages = torch.cat([advantages[:3], torch.zeros(3, dtype=torch.float64)])
    whole = policy_loss(log_ratios, advantages, mask, algorithm, denominators(mask))
    live_only = policy_loss(log_ratios[:3], advantages[:3], mask[:3], algorithm, denominators(mask))
    assert float(live_only) == pytest.approx(float(whole))
    assert float(policy_loss(log_ratios[:3], advantages[:3], mask[:3], algorithm, denominators(mask[:3]))) != (
        pytest.approx(float(whole))
    )
