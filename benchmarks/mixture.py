"""The best mixture of static group sizes at a straggler rate: what a controller has to beat."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray


def best_mixture(rates: NDArray[np.float64], values: NDArray[np.float64], rate: float) -> NDArray[np.float64] | None:
    """max_w sum_a w_a value_a  subject to  sum_a w_a rate_a <= rate, w >= 0, sum_a w_a = 1.

    A linear programme with one constraint besides the sum has an optimum with at most two weights above 0, so all
    arms and pairs are tried.

    Args:
        rates: [arms] straggler rates.
        values: [arms], higher is better.
        rate: the most that the mixture may have.

    Returns:
        [arms] weights, the first optimum in the order of the arms; None if every arm is above `rate`.
    """
    unit = np.eye(len(rates))
    feasible = [unit[arm] for arm in range(len(rates)) if rates[arm] <= rate]
    for pair in combinations(range(len(rates)), 2):
        low, high = sorted(pair, key=lambda arm: float(rates[arm]))
        if rates[low] < rate < rates[high]:
            share = (rate - rates[low]) / (rates[high] - rates[low])
            feasible.append((1 - share) * unit[low] + share * unit[high])
    return max(feasible, key=lambda weights: float(weights @ values), default=None)
