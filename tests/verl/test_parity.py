"""The same batch through our advantages and losses and through verl's: equal to 1e-6 where both define them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from baselines.algorithms import ALGORITHMS, DAPO, GRPO, AlgorithmSpec
from benchmarks.advantages import group_advantages, overlong_penalty
from tests.verl.harness import NEEDS_VERL

torch = pytest.importorskip("torch", reason=NEEDS_VERL)
pytest.importorskip("verl", reason=NEEDS_VERL)

from verl.trainer.ppo.core_algos import (  # noqa: E402
    agg_loss,
    compute_grpo_outcome_advantage,
    compute_policy_loss_vanilla,
)
from verl.workers.config import ActorConfig  # noqa: E402

from benchmarks.engines.torch_cpu.losses import Denominators, clipped_tokens, policy_loss  # noqa: E402
from benchmarks.engines.verl.overrides import LOSS_AGGREGATIONS  # noqa: E402

ROWS, WIDTH = 48, 20


def batch(seed: int, spread: float = 0.3) -> tuple[Any, Any, Any]:
    """Log-ratios [R, T], advantages [R] and mask [R, T] in double precision; lengths differ, one row is degenerate."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, WIDTH + 1, (ROWS,), generator=generator)
    mask = torch.arange(WIDTH)[None] < lengths[:, None]
    log_ratios = spread * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    advantages = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    advantages[3] = 0.0
    return log_ratios, advantages, mask


def verl_loss(log_ratios: Any, advantages: Any, mask: Any, algorithm: AlgorithmSpec, **batch_info: Any) -> Any:
    config = ActorConfig(
        strategy="fsdp2",
        rollout_n=8,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio=algorithm.clip_low,
        clip_ratio_low=algorithm.clip_low,
        clip_ratio_high=algorithm.clip_high,
    )
    config.global_batch_info.update(
        {"dp_size": 1, "batch_num_tokens": None, "global_batch_size": None, "loss_scale_factor": None, **batch_info}
    )
    return compute_policy_loss_vanilla(
        old_log_prob=torch.zeros_like(log_ratios),
        log_prob=log_ratios,
        advantages=advantages[:, None] * mask,
        response_mask=mask,
        loss_agg_mode=LOSS_AGGREGATIONS[algorithm.loss_aggregation],
        config=config,
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=list(ALGORITHMS))
@pytest.mark.parametrize("seed", range(5))
def test_losses_gradients_and_clip_fractions_agree(algorithm: AlgorithmSpec, seed: int) -> None:
    log_ratios, advantages, mask = batch(seed)
    ours_at, theirs_at = log_ratios.clone().requires_grad_(), log_ratios.clone().requires_grad_()
    denominators = Denominators(rollouts=ROWS, tokens=int(mask.sum()))
    ours = policy_loss(ours_at, advantages, mask, algorithm, denominators)
    theirs, metrics = verl_loss(
        theirs_at, advantages, mask, algorithm, batch_num_tokens=int(mask.sum()), global_batch_size=ROWS
    )
    assert float(ours) == pytest.approx(float(theirs), abs=1e-6)
    torch.autograd.backward(ours)
    torch.autograd.backward(theirs)
    torch.testing.assert_close(ours_at.grad, theirs_at.grad, rtol=0, atol=1e-6)
    clipped = int(clipped_tokens(log_ratios, advantages, mask, algorithm)) / int(mask.sum())
    assert metrics["actor/pg_clipfrac"] == pytest.approx(clipped, abs=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=list(ALGORITHMS))
def test_a_mini_batch_is_the_sum_of_its_micro_batches_in_both(algorithm: AlgorithmSpec) -> None:
    log_ratios, advantages, mask = batch(7)
    denominators = Denominators(rollouts=ROWS, tokens=int(mask.sum()))
    whole = float(policy_loss(log_ratios, advantages, mask, algorithm, denominators))
    parts = [slice(start, start + 12) for start in range(0, ROWS, 12)]
    ours = sum(float(policy_loss(log_ratios[p], advantages[p], mask[p], algorithm, denominators)) for p in parts)
    info = {"batch_num_tokens": int(mask.sum()), "global_batch_size": ROWS}
    theirs = sum(float(verl_loss(log_ratios[p], advantages[p], mask[p], algorithm, **info)[0]) for p in parts)
    assert ours == pytest.approx(whole, abs=1e-6)
    assert theirs == pytest.approx(whole, abs=1e-6)


def verl_advantages(rewards: list[float], groups: list[str]) -> list[float]:
    token_rewards = torch.tensor(rewards, dtype=torch.float64)[:, None]
    advantages, _ = compute_grpo_outcome_advantage(
        token_rewards, torch.ones(len(rewards), 1), np.array(groups, dtype=object)
    )
    return [float(value) for value in advantages[:, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_advantages_agree_for_groups_of_any_size_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [name for name in "abcdef" for _ in range(rng.integers(2, 17))]
    rng.shuffle(groups)
    rewards = rng.integers(0, 2, len(groups)).astype(float) - rng.random(len(groups)).round(2)
    names = np.unique(groups, return_inverse=True)[1]
    ours = group_advantages(rewards, names)
    np.testing.assert_allclose(ours, verl_advantages(rewards.tolist(), groups), rtol=0, atol=1e-6)


# Deliberate differences, each of which `benchmarks.engines.verl.faults` or the docs name.


def test_difference_a_group_of_one_has_no_advantage_here_and_its_raw_reward_there() -> None:
    rewards, groups = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0], ["a"] * 4 + ["b"] + ["c"] * 2
    np.testing.assert_allclose(
        group_advantages(rewards, [0] * 4 + [1] + [2] * 2),
        [1.499997, -0.499999, -0.499999, -0.499999, 0.0, -0.707106, 0.707106],
        atol=1e-6,
    )
    assert verl_advantages(rewards, groups)[4] == pytest.approx(0.999999, abs=1e-6)


def test_difference_a_group_of_equal_rewards_has_exactly_zero_advantage_here() -> None:
    rewards = [0.1] * 3
    assert group_advantages(rewards, [0, 0, 0]).tolist() == [0.0, 0.0, 0.0]
    assert verl_advantages(rewards, ["a"] * 3) == pytest.approx([0.0] * 3, abs=1e-4)  # rounding over epsilon


def test_difference_verl_holds_the_loss_of_a_negative_advantage_at_ratio_three() -> None:
    mask = torch.ones(1, 1, dtype=torch.bool)
    log_ratio, advantage = torch.tensor([[math.log(4.0)]]), torch.tensor([-1.0])
    ours = policy_loss(log_ratio, advantage, mask, DAPO, Denominators(rollouts=1, tokens=1))
    theirs, _ = verl_loss(log_ratio, advantage, mask, DAPO)
    assert [float(ours), float(theirs)] == pytest.approx([4.0, 3.0])


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=list(ALGORITHMS))
def test_difference_a_fully_masked_batch_is_zero_here_and_nan_there(algorithm: AlgorithmSpec) -> None:
    mask = torch.zeros(2, 3, dtype=torch.bool)
    ours = policy_loss(torch.zeros(2, 3), torch.ones(2), mask, algorithm, Denominators(rollouts=2, tokens=0))
    assert float(ours) == 0.0
    theirs = agg_loss(torch.ones(2, 3), mask.float(), LOSS_AGGREGATIONS[algorithm.loss_aggregation])
    assert math.isnan(float(theirs))


def test_difference_nan_under_the_mask_reaches_verls_sequence_mean() -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    log_ratios = torch.zeros(2, 3)
    log_ratios[0, 2] = math.nan
    ours = policy_loss(log_ratios, torch.ones(2), mask, GRPO, Denominators(rollouts=2, tokens=3))
    assert float(ours) == pytest.approx(-1.0)
    assert math.isnan(float(agg_loss(log_ratios, mask.float(), "seq-mean-token-mean")))


def test_difference_the_overlong_penalty_has_a_floor_here() -> None:
    cap, buffer = 16, 4
    lengths = [10, 12, 13, 14, 15, 16, 17, 20]
    assert overlong_penalty(lengths, cap, buffer).tolist() == [0, 0, -0.25, -0.5, -0.75, -1, -1, -1]
    verls = [min(-(length - (cap - buffer)) / buffer, 0) for length in lengths]  # its dapo reward manager's formula
    assert verls[-2:] == [-1.25, -2.0]
