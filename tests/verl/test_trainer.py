"""Small parts of the trainer that need verl's types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)

import numpy as np
import torch

from sagc.integrations.verl import is_loggable


@pytest.mark.parametrize(
    "value", [1, 1.5, True, float("nan"), np.float32(1), np.int64(2), np.bool_(True), torch.ones(1)]
)
def test_numbers_reach_the_tracker(value: Any) -> None:
    assert is_loggable(value)


@pytest.mark.parametrize("value", [None, "text", [1.0], (1.0,), torch.ones(2), np.ones(2)])
def test_what_would_cost_the_tracker_the_whole_step_does_not(value: Any) -> None:
    assert not is_loggable(value)


def test_verls_own_table_of_filtered_rewards_is_left_to_verl() -> None:
    assert is_loggable({1.0: 3})
