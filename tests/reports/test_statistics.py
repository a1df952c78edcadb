from __future__ import annotations

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from reports.statistics import BOOTSTRAP_FROM, clustered_se, estimate, student
from reports.undecidable import NotDecidable


def test_the_interval_is_students_t_on_the_differences() -> None:
    values = [0.010, -0.004, 0.021]
    found = estimate("a difference", values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(0.009)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.n == 3


def test_three_seeds_take_the_t_of_two_degrees_of_freedom() -> None:
    mean, low, high = student(np.array([[-1.0, 0.0, 1.0]]))
    assert mean[0] == 0
    assert high[0] == pytest.approx(4.302653 / np.sqrt(3), abs=1e-6)
    assert low[0] == -high[0]


def test_costs_are_averaged_as_log_ratios() -> None:
    found = estimate("a ratio", [2.0, 8.0], log=True)
    assert found.value == pytest.approx(4.0)  # not 5: twice and an eighth less are one step each
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(16.0)


def test_one_seed_has_no_interval() -> None:
    found = estimate("a difference", [0.01])
    assert (found.value, found.low, found.high, found.n) == (0.01, None, None, 1)


def test_equal_differences_give_a_point() -> None:
    found = estimate("a difference", [0.25, 0.25, 0.25])
    assert (found.low, found.value, found.high) == (0.25, 0.25, 0.25)


def test_the_bootstrap_appears_from_ten_seeds_on() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=BOOTSTRAP_FROM).tolist()
    assert estimate("a difference", values[:-1]).bootstrap is None
    found = estimate("a difference", values)
    assert found.bootstrap is not None
    assert found.bootstrap == estimate("a difference", values).bootstrap
    assert found.low is not None
    assert found.low < found.bootstrap[0] < found.value < found.bootstrap[1]


def test_the_clustered_error_averages_each_problem_over_the_seeds_first() -> None:
    seeds = [np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0])]
    assert clustered_se(seeds) == 0  # each problem is right once: the problems do not differ
    same = [np.array([0.0, 1.0, 0.0, 1.0])] * 2
    assert clustered_se(same) == pytest.approx(np.std([0, 1, 0, 1], ddof=1) / 2)


def test_the_clustered_error_uses_the_problems_that_every_seed_has() -> None:
    assert clustered_se([np.array([0.0, 1.0, 5.0]), np.array([0.0, 1.0])]) == pytest.approx(0.5)


def test_one_problem_has_no_clustered_error() -> None:
    assert clustered_se([np.array([1.0])]) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_gives_no_estimate(bad: float) -> None:
    with pytest.raises(NotDecidable, match=r"a difference is not a finite number in every seed: 0\.1, .*, 0\.3"):
        estimate("a difference", [0.1, bad, 0.3])
