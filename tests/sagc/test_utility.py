from __future__ import annotations

import itertools
import math

import pytest

from sagc.utility import UTILITIES, utilities

CANDIDATES = (4, 8, 16, 32)


@pytest.mark.parametrize("name", UTILITIES)
def test_utilities_increase_are_concave_and_end_at_one(name: str) -> None:
    values = utilities(name, range(2, 65))
    steps = [later - earlier for earlier, later in itertools.pairwise(values)]
    assert values[0] > 0
    assert values[-1] == 1
    assert all(step > 0 for step in steps)
    assert all(later < earlier for earlier, later in itertools.pairwise(steps))


def test_values_of_each_utility() -> None:
    assert utilities("log", CANDIDATES) == pytest.approx([2 / 5, 3 / 5, 4 / 5, 1])
    assert utilities("inverse", CANDIDATES) == pytest.approx([24 / 31, 28 / 31, 30 / 31, 1])
    assert utilities("sqrt", CANDIDATES) == pytest.approx([math.sqrt(1 / 8), 1 / 2, math.sqrt(1 / 2), 1])
    assert utilities("inverse_sqrt", (4, 16)) == pytest.approx([2 / 3, 1])
