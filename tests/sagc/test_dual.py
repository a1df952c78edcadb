from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagc.dual import update_price


@pytest.mark.parametrize(
    ("price", "rate", "expected", "clipped"),
    [
        (1.0, 1.0, 1.375, 0.0),  # over the budget: up by 0.5 x 0.75
        (1.0, 0.25, 1.0, 0.0),  # at the budget: unchanged
        (1.0, 0.0, 0.875, 0.0),  # under it: down
        (0.125, 0.0, 0.0, 0.0),  # exactly to 0: nothing clipped
        (0.0625, 0.0, 0.0, 0.0625),  # would be -0.0625
        (0.0, 0.0, 0.0, 0.125),
    ],
)
def test_price_inside_on_and_beyond_the_boundary(price: float, rate: float, expected: float, clipped: float) -> None:
    assert update_price(price, rate, budget=0.25, step_size=0.5) == (expected, clipped)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=200),
    st.floats(0.001, 0.999),
    st.floats(0.01, 5),
    st.floats(0, 10),
)
def test_mean_rate_minus_budget_is_the_identity_of_the_trace(
    rates: list[float], budget: float, step_size: float, initial: float
) -> None:
    price, clipped = initial, 0.0
    for rate in rates:
        price, amount = update_price(price, rate, budget, step_size)
        clipped += amount
    excess = sum(rates) / len(rates) - budget
    assert excess == pytest.approx((price - initial - clipped) / (step_size * len(rates)), abs=1e-9)
