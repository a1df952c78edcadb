from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog  # type: ignore[import-untyped]

from benchmarks.mixture import best_mixture


def test_two_arms_mix_to_the_allowed_rate() -> None:
    weights = best_mixture(np.array([0.1, 0.5]), np.array([0.6, 0.8]), 0.3)
    assert weights is not None
    assert weights.tolist() == pytest.approx([0.5, 0.5])


def test_an_arm_that_is_best_and_cheap_is_played_alone() -> None:
    weights = best_mixture(np.array([0.0, 0.2, 0.5]), np.array([0.9, 0.6, 0.8]), 0.3)
    assert weights is not None
    assert weights.tolist() == [1, 0, 0]


def test_no_mixture_lies_below_the_lowest_rate() -> None:
    assert best_mixture(np.array([0.2, 0.5]), np.array([0.6, 0.8]), 0.1) is None


def test_the_first_of_equal_arms_is_taken() -> None:
    weights = best_mixture(np.array([0.1, 0.1, 0.2]), np.array([0.5, 0.5, 0.5]), 0.3)
    assert weights is not None
    assert weights.tolist() == [1, 0, 0]


def test_it_is_the_optimum_of_the_linear_programme() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        rates, values, rate = rng.random(5), rng.random(5), float(rng.random())
        weights = best_mixture(rates, values, rate)
        solved = linprog(-values, A_ub=[rates], b_ub=[rate], A_eq=[np.ones(5)], b_eq=[1])
        assert (weights is None) == (not solved.success)
        if weights is not None:
            assert weights.sum() == pytest.approx(1)
            assert weights @ rates <= rate + 1e-12
            assert weights @ values == pytest.approx(-solved.fun)
