from __future__ import annotations

import numpy as np
import pytest

from reports.contrasts import best_on_the_others
from reports.coverage import DRAWS, best_static_coverage, lead_over_best
from reports.statistics import estimate

SEEDS = 3
SEED_SPREAD = 0.009
"""Standard deviation of accuracy at matched rollouts over the training seeds of one arm: median over the arms of
`reports/data/cpu`, whose smallest is .005 and largest .013."""
COST_SPREAD = 0.25
"""Standard deviation of the log cost ratio of C1 at matched prompts (`steady`, GRPO) in `reports/data/cpu`."""
LENGTH_SPREAD = 0.3
"""Standard deviation of the mean output length over seeds, tokens, at matched prompts in `reports/data/cpu`."""
PROBLEMS = 1024 * 8
"""Evaluated responses: problems times samples."""


def accuracies(rng: np.random.Generator, truth: float) -> np.ndarray:
    seeds = rng.normal(truth, SEED_SPREAD, SEEDS)
    return rng.binomial(PROBLEMS, seeds) / PROBLEMS


def covered(differences: list[np.ndarray], truth: float, log: bool = False) -> float:
    found = [estimate("", values.tolist(), log=log) for values in differences]
    return float(np.mean([e.low is not None and e.high is not None and e.low <= truth <= e.high for e in found]))


def test_intervals_of_accuracy_pairs_cover_the_truth() -> None:  # C2a and C5
    rng = np.random.default_rng(0)
    draws = [accuracies(rng, 0.64) - accuracies(rng, 0.66) for _ in range(DRAWS)]
    assert 0.93 <= covered(draws, -0.02) <= 0.97


def test_intervals_of_cost_ratios_cover_the_truth() -> None:  # C1
    rng = np.random.default_rng(1)
    draws = [1.8 * np.exp(rng.normal(0, COST_SPREAD, SEEDS)) for _ in range(DRAWS)]
    assert 0.93 <= covered(draws, 1.8, log=True) <= 0.97


def test_intervals_of_output_lengths_cover_the_truth() -> None:  # C3
    rng = np.random.default_rng(2)
    draws = [rng.normal(22, LENGTH_SPREAD, SEEDS) - rng.normal(23, LENGTH_SPREAD, SEEDS) for _ in range(DRAWS)]
    assert 0.93 <= covered(draws, -1.0) <= 0.97


def test_a_percentile_bootstrap_of_three_seeds_would_not() -> None:
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(500):
        values = rng.normal(0, 1, SEEDS)
        low, high = np.quantile(rng.choice(values, (1000, SEEDS)).mean(axis=1), [0.025, 0.975])
        inside.append(low <= 0 <= high)
    assert np.mean(inside) < 0.8


@pytest.mark.parametrize("spread", [SEED_SPREAD, 0.015, 0.03, 0.06])
def test_equal_arms_contradict_c2b_in_at_most_five_percent(spread: float) -> None:
    rng = np.random.default_rng(4)
    static, sagc = rng.normal(0.6, spread, (20_000, 5, SEEDS)), rng.normal(0.6, spread, (20_000, SEEDS))
    _, high = lead_over_best(static, sagc)
    assert np.mean(high < -0.02) <= 0.05


def test_choosing_on_the_other_seeds_has_no_bias_and_on_the_same_seeds_it_would() -> None:
    rng = np.random.default_rng(5)
    static, sagc = rng.normal(0.6, 0.03, (20_000, 5, SEEDS)), rng.normal(0.6, 0.03, (20_000, SEEDS))
    low, high = lead_over_best(static, sagc)
    assert abs(np.mean(low + high) / 2) < 0.001
    on_the_same = sagc.mean(axis=1) - static.mean(axis=2).max(axis=1)
    assert np.mean(on_the_same) < -0.015  # the best of five equal arms looks better than it is


def test_the_best_of_the_others_ignores_the_seed_itself() -> None:
    values = np.array([[0.9, 0.1, 0.1], [0.2, 0.5, 0.5]])  # the first arm shines on seed 0 alone
    assert best_on_the_others(values).tolist() == [1, 0, 0]
    assert best_on_the_others(np.zeros((3, 2))).tolist() == [0, 0]  # the first of equals


def test_measured_coverage_is_repeatable_and_near_the_level() -> None:
    rng = np.random.default_rng(6)
    static = 0.6 + rng.normal(0, 0.01, (5, SEEDS)) + np.array([[-0.2], [-0.1], [0.2], [-0.1], [0.0]])
    sagc = 0.6 + rng.normal(0, 0.01, SEEDS)
    share = best_static_coverage(static, sagc)
    assert share == best_static_coverage(static, sagc)
    assert 0.93 <= share <= 0.97  # one arm is far ahead, so the pair is as good as fixed


def test_what_all_arms_of_a_seed_share_does_not_change_the_coverage() -> None:
    rng = np.random.default_rng(7)
    static, sagc = rng.normal(0.6, 0.01, (5, SEEDS)), rng.normal(0.6, 0.01, SEEDS)
    shared = np.array([0.1, -0.2, 0.1])
    assert best_static_coverage(static + shared, sagc + shared) == pytest.approx(best_static_coverage(static, sagc))


def test_without_spread_the_truth_is_hit() -> None:
    assert best_static_coverage(np.full((5, SEEDS), 0.6), np.full(SEEDS, 0.6)) == 1
