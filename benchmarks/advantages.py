"""Group-relative advantages and the soft overlong penalty, in numpy: what every engine trains on.

    A_i = (r_i - mean_j r_j) / (std_j r_j + epsilon),   std with ddof 1

Source: GRPO, arXiv 2402.03300; the penalty: DAPO, arXiv 2503.14476, section 3.4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagc.errors import SagcError


class RewardError(SagcError, ValueError):
    """A reward that is no number."""


def group_advantages(rewards: ArrayLike, groups: ArrayLike, epsilon: float = 1e-6) -> NDArray[np.float64]:
    """Advantage of each rollout against its own group.

    Args:
        rewards: [R] reward of each rollout.
        groups: [R] id of the group of each rollout; rows may come in any order, groups in any size.
        epsilon: added to the standard deviation, outside the root.

    Returns:
        [R]. A group of one and a group whose rewards are all equal give exactly 0: no signal.

    Raises:
        RewardError: for a reward that is NaN or infinite.
    """
    values = np.asarray(rewards, dtype=np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise RewardError(f"reward must be finite, got {values[row]!r} in row {row}; check the task's verifier")
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(group)
    deviations = values - (np.bincount(group, weights=values) / sizes)[group]
    variances = np.bincount(group, weights=deviations**2) / np.maximum(sizes - 1, 1)
    advantages = deviations / (np.sqrt(variances)[group] + epsilon)
    return np.where(equal_groups(values, group)[group], 0.0, advantages)


def equal_groups(rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which groups are degenerate: all rewards equal, a group of one included.

    Args:
        rewards: [R].
        groups: [R] group ids 0 ... P - 1, each of which occurs.

    Returns:
        [P].
    """
    count = int(groups.max(initial=-1)) + 1
    highest, lowest = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(highest, groups, rewards)
    np.minimum.at(lowest, groups, rewards)
    equal: NDArray[np.bool_] = highest == lowest
    return equal


def overlong_penalty(lengths: ArrayLike, cap: int, buffer: int) -> NDArray[np.float64]:
    """Soft overlong penalty: 0 up to `cap` - `buffer` tokens, then linear down to -1 at `cap`, never below.

    Args:
        lengths: response tokens, the end-of-sequence token included; any shape.
        cap: most tokens of a response.
        buffer: tokens over which the penalty grows; 0: no penalty.
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    if buffer == 0:
        return np.zeros_like(lengths)
    return np.clip((cap - buffer - lengths) / buffer, -1.0, 0.0)
