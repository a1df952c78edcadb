"""The values that cross the boundary between a training loop and a group-size policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

JsonDict = dict[str, Any]
"""A JSON object: str keys, values that `json.dumps` round-trips exactly."""
_Numbers = NDArray[np.integer] | NDArray[np.floating]
Lengths = _Numbers | Sequence[Sequence[float] | _Numbers]
"""Rollout lengths by group: an array ``[groups, G]``, or one sequence per group when sizes differ."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one training step showed: raw facts only, thresholds and verdicts live in the policy."""

    lengths: Lengths
    """Length of **every** rollout the step waited for, by group (tokens, or seconds), each >= 0.
    Under dynamic sampling the filtered and refilled groups belong here too."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the next training step should run."""

    group_size: int
    """Rollouts per prompt, G."""
    num_prompts: int | None = None
    """Prompts of the step; None leaves it to the batch policy."""
    budget_infeasible: bool = False
    """The smallest candidate still breaks the budget and the price keeps rising; the caller warns."""
