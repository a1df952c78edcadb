from __future__ import annotations

import pytest

from benchmarks.costs import modelled_seconds


@pytest.mark.parametrize(
    ("decode_steps", "row_steps", "trained_tokens", "seconds"),
    [
        (0, 0, 0, 0.0),
        (1000, 0, 0, 2.27),
        (0, 10_000, 0, 0.266),
        (0, 0, 1000, 0.11),
        (1000, 10_000, 1000, 2.27 + 0.266 + 0.11),
    ],
)
def test_modelled_time_is_the_sum_of_its_three_terms(
    decode_steps: int, row_steps: int, trained_tokens: int, seconds: float
) -> None:
    assert modelled_seconds(decode_steps, row_steps, trained_tokens) == pytest.approx(seconds, abs=1e-12)
