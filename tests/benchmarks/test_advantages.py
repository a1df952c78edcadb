"""Advantages: degenerate groups first, then the values that public reports got wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.advantages import RewardError, equal_groups, group_advantages, overlong_penalty


@pytest.mark.parametrize("reward", [1.0, 0.0, -1.0])
def test_a_group_of_one_has_no_advantage(reward: float) -> None:
    assert group_advantages([reward], [0]).tolist() == [0.0]


def test_a_group_of_one_beside_others_stays_zero() -> None:
    # verl 0.9.1 gives the singleton its raw reward
    advantages = group_advantages([1, 0, 0, 0, 1, 0, 1], [0, 0, 0, 0, 1, 2, 2])
    np.testing.assert_allclose(
        advantages, [1.499997, -0.499999, -0.499999, -0.499999, 0, -0.707106, 0.707106], atol=1e-6
    )


@pytest.mark.parametrize("rewards", [[1.0, 1.0, 1.0], [0.1 + 0.2] * 7, [-3.0] * 2, [1e-300] * 4])
def test_an_all_equal_group_gives_exactly_zero(rewards: list[float]) -> None:
    assert group_advantages(rewards, [0] * len(rewards)).tolist() == [0.0] * len(rewards)


def test_no_rollouts_give_no_advantages() -> None:
    assert group_advantages([], np.empty(0, dtype=int)).shape == (0,)
    assert equal_groups(np.empty(0), np.empty(0, dtype=np.int64)).shape == (0,)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(RewardError, match="in row 1"):
        group_advantages([1.0, bad], [0, 0])


def test_deviation_uses_ddof_1_and_epsilon_1e_6() -> None:
    np.testing.assert_allclose(group_advantages([1, 0, 0, 0], [0] * 4), [1.499997] + [-0.499999] * 3, atol=1e-6)
    np.testing.assert_allclose(group_advantages([1, 0], [0, 0]), [0.707106, -0.707106], atol=1e-6)
    np.testing.assert_allclose(
        group_advantages([1, 0, 0, 0], [0] * 4, epsilon=1e-4), [1.4997] + [-0.4999] * 3, atol=1e-6
    )


@pytest.mark.parametrize(
    ("size", "of_the_success", "total"),
    [(2, 0.7071, 1.414), (4, 1.5, 3.0), (8, 2.4749, 4.95), (16, 3.75, 7.5), (32, 5.48, 10.96)],
)
def test_one_success_weighs_more_in_a_larger_group(size: int, of_the_success: float, total: float) -> None:
    # so G alone changes the step size; nothing may call that "learning signal"
    advantages = group_advantages([1] + [0] * (size - 1), [0] * size)
    assert advantages[0] == pytest.approx(of_the_success, abs=6e-3)
    assert np.abs(advantages).sum() == pytest.approx(total, rel=2e-3)
    assert np.abs(advantages).max() <= (size - 1) / math.sqrt(size)


def test_grouping_is_by_id_and_not_by_position() -> None:
    advantages = group_advantages([1, 1, 0, 1, 0, 1, 0, 1], [7, 3] * 4)
    np.testing.assert_allclose(advantages[0::2], [1.5, -0.5, -0.5, -0.5], atol=1e-5)
    assert advantages[1::2].tolist() == [0.0] * 4


def test_groups_of_different_sizes() -> None:
    rewards = [1, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0]
    advantages = group_advantages(rewards, [0] * 4 + [1] * 2 + [2] * 8)
    want = [1.499997] + [-0.499999] * 3 + [0, 0] + [-0.540061, 1.620182, 1.620182] + [-0.540061] * 5
    np.testing.assert_allclose(advantages, want, atol=1e-6)


def test_a_tiny_but_real_spread_is_not_floored() -> None:
    np.testing.assert_allclose(group_advantages([1, 1.00001], [0, 0]), [-0.6195, 0.6195], atol=1e-4)


def test_truncated_rollouts_stay_in_their_group() -> None:
    # dropping row 2 first would give [.577, -1.155, .577]
    np.testing.assert_allclose(group_advantages([1, 0, 0, 1], [0] * 4), [0.866, -0.866, -0.866, 0.866], atol=1e-3)


@given(st.data())
def test_any_order_of_rows_gives_the_same_advantages(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    rewards = data.draw(st.lists(st.sampled_from([0.0, 1.0, 0.5, -0.25]), min_size=size, max_size=size))
    groups = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    order = data.draw(st.permutations(range(size)))
    straight = group_advantages(rewards, groups)
    shuffled = group_advantages([rewards[i] for i in order], [groups[i] for i in order])
    np.testing.assert_allclose(shuffled, straight[list(order)], atol=1e-12)


def test_equal_groups_sees_a_group_of_one() -> None:
    groups = np.array([0, 0, 1, 2, 2])
    assert equal_groups(np.array([1.0, 1.0, 0.0, 1.0, 0.0]), groups).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(10, 0), (12, 0), (13, -0.25), (14, -0.5), (15, -0.75), (16, -1), (17, -1), (20, -1)],
)
def test_overlong_penalty_has_a_floor(length: int, penalty: float) -> None:
    # verl 0.9.1 goes on to -1.25 and -2
    assert overlong_penalty(length, cap=16, buffer=4) == penalty


def test_overlong_penalty_at_the_source_s_size() -> None:
    penalties = overlong_penalty([3072, 3073, 3584, 4096], cap=4096, buffer=1024)
    np.testing.assert_allclose(penalties, [0, -0.000977, -0.5, -1], atol=1e-6)


def test_no_buffer_means_no_penalty() -> None:
    assert overlong_penalty([[1, 500]], cap=16, buffer=0).tolist() == [[0.0, 0.0]]
