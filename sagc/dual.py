"""The price of stragglers: projected subgradient ascent on the straggler-rate constraint.

Part of the reference reading of arXiv 2606.02218 (its equations are not public): design equation 2.4.
"""

from __future__ import annotations

from typing import NamedTuple


class PriceUpdate(NamedTuple):
    """One step of the dual variable."""

    price: float
    """lambda_{t+1} >= 0."""
    clipped: float
    """c_t >= 0: how far below 0 the price would have gone."""


def update_price(price: float, rate: float, budget: float, step_size: float) -> PriceUpdate:
    """Raise the price over the budget, lower it under the budget, never below 0.

    lambda_{t+1} = max(0, lambda_t + eta (Z_t - delta)),  c_t = max(0, -(lambda_t + eta (Z_t - delta))).

    Summed over T steps, mean_t Z_t - delta = (lambda_{T+1} - lambda_1 - sum_t c_t) / (eta T) exactly.

    Args:
        price: lambda_t >= 0.
        rate: Z_t in [0, 1].
        budget: delta in (0, 1).
        step_size: eta > 0.

    Returns:
        lambda_{t+1} and c_t; at most one of them is positive.

    Degenerate cases: a rate equal to the budget leaves the price as it is. There is no cap: a cap would void
    the identity, and a price that rises without end is how an infeasible budget shows.

    Source: the textbook primal-dual update; that the source uses it is our reading.
    """
    raw = price + step_size * (rate - budget)
    return PriceUpdate(price=max(0.0, raw), clipped=max(0.0, -raw))
