"""Straggler events: which groups of a training step waited for one unusually long rollout.

Part of the reference reading of arXiv 2606.02218 (its equations are not public): design equation 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sagc.checks import known_name
from sagc.errors import ObservationError
from sagc.types import Lengths

Reference = Literal["group", "step"]
"""Whose median a rollout is compared with."""
REFERENCES: tuple[str, ...] = get_args(Reference)
SMALLEST_LENGTH = float(np.nextafter(0, 1))
"""L >= this is L > 0 for every float, so the two conditions of a hit are one comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerCounts:
    """What one training step showed about stragglers."""

    groups: int
    """Groups that count: those of at least two rollouts."""
    straggler_groups: int
    """Counted groups with at least one hit."""
    rollouts: int
    """N: rollouts in counted groups."""
    hits: int
    """h: rollouts at or over the threshold times their reference, in counted groups."""
    skipped_groups: int
    """Groups of fewer than two rollouts: left out of everything above."""

    @property
    def rate(self) -> float | None:
        """Z = straggler_groups / groups, in [0, 1]; None when no group counts."""
        return self.straggler_groups / self.groups if self.groups else None


def straggler_counts(lengths: Lengths, threshold: float, reference: Reference) -> StragglerCounts:
    """Count straggler events and hits of one training step.

    A rollout of length L is a hit if L > 0 and L >= tau * m. Group j has a straggler, z_j = 1, if one of
    its rollouts is a hit, that is if max_i L_ji >= tau * m_j. Z = mean_j z_j.

    Args:
        lengths: length of every rollout that the step waited for, by group, each finite and >= 0 (tokens or
            seconds): an array ``[groups, G]`` (the fast path) or one sequence per group.
        threshold: tau > 1.
        reference: ``"group"``: m_j is the median of group j (the source's reading); ``"step"``: m is the
            median of all rollouts of the step, groups of one included. The median of an even number of
            lengths is the mean of the middle two.

    Returns:
        The counts. The order of groups, and of rollouts in a group, does not matter.

    Raises:
        ObservationError: on NaN, infinite or negative lengths (value and group are named), or a wrong shape.
        ConfigError: on an unknown reference.

    Degenerate cases: no groups at all give zeros and the rate None; a group of no or one rollout is skipped
    and counted; a group whose lengths are all equal, or all zero, has no straggler; where the reference is 0
    every positive length is a hit.

    Source: max/median rollout length per group is public, the comparison with a fixed threshold is our reading.
    """
    known_name("reference", reference, REFERENCES)
    tables = _tables(lengths)
    for table in tables:
        _check(table)
    step_median = _step_median(tables) if reference == "step" else None
    groups = straggler_groups = rollouts = hits = skipped = 0
    for _, table_lengths in tables:
        count, size = table_lengths.shape
        if size < 2:
            skipped += count
            continue
        median = _row_medians(table_lengths) if step_median is None else step_median
        is_hit = table_lengths >= np.maximum(threshold * median, SMALLEST_LENGTH)
        groups += count
        rollouts += count * size
        hits += int(np.count_nonzero(is_hit))
        straggler_groups += int(np.count_nonzero(is_hit.any(axis=1)))
    return StragglerCounts(
        groups=groups, straggler_groups=straggler_groups, rollouts=rollouts, hits=hits, skipped_groups=skipped
    )


class _Table(NamedTuple):
    """Groups of one size."""

    positions: Sequence[int] | NDArray[np.intp]
    """[n] position of each group in the observation, for error texts."""
    lengths: NDArray[Any]
    """[n, size]"""


def _tables(lengths: Lengths) -> list[_Table]:
    """The groups, gathered by size; there are at most sqrt(2 * rollouts) sizes, so one pass per size is cheap."""
    if isinstance(lengths, np.ndarray):
        if lengths.ndim != 2:
            raise ObservationError(
                f"lengths must be an array [groups, G] or one sequence per group, got shape {lengths.shape!r}; "
                "reshape it so that each row holds the rollouts of one prompt"
            )
        _require_numbers(lengths)
        return [_Table(range(len(lengths)), lengths)]
    try:
        groups = [group.tolist() if isinstance(group, np.ndarray) else group for group in lengths]  # scalars are slow
        sizes = np.fromiter(map(len, groups), dtype=np.intp, count=len(groups))
        order = np.argsort(sizes, kind="stable")  # equal sizes side by side: each size is one slice, reshaped
        flat = _flatten([groups[position] for position in order.tolist()], int(sizes.sum()))
    except (TypeError, ValueError) as error:
        raise ObservationError(
            f"lengths must be one sequence of numbers per group, got {_short(lengths)} ({error}); "
            "hand over the rollout lengths of each prompt as one list"
        ) from error
    _require_numbers(flat)
    tables, group, start = [], 0, 0
    for size, count in zip(*(column.tolist() for column in np.unique(sizes, return_counts=True)), strict=True):
        end = start + size * count
        tables.append(_Table(order[group : group + count], flat[start:end].reshape(count, size)))
        group, start = group + count, end
    return tables


def _flatten(groups: Sequence[Sequence[float]], total: int) -> NDArray[Any]:
    flat = np.array(list(chain.from_iterable(groups))) if total else np.empty(0, dtype=np.int64)
    if flat.shape != (total,):
        raise ValueError("a length is itself a sequence")
    return flat


def _require_numbers(values: NDArray[Any]) -> None:
    if values.dtype.kind not in "iuf":  # signed, unsigned, floating: bool, text and objects are no lengths
        raise ObservationError(
            f"lengths must be integers or floats, got dtype {values.dtype}; hand over tokens or seconds as numbers"
        )


def _check(table: _Table) -> None:
    lengths = table.lengths
    if lengths.size == 0 or (lengths.min() >= 0 and (lengths.dtype.kind != "f" or lengths.max() < np.inf)):
        return  # a NaN makes min() a NaN, which is not >= 0
    bad = ~(np.isfinite(lengths) & (lengths >= 0))
    row, column = np.argwhere(bad)[0]
    raise ObservationError(
        f"lengths must be finite and >= 0, got {lengths[row, column].item()!r} in group {table.positions[row]}; "
        "leave a rollout that never ended out of its group, or give the length it had reached"
    )


def _row_medians(lengths: NDArray[Any]) -> NDArray[np.float64]:
    """[n, 1] median of each row; sorting beats `np.median` several times over on short rows."""
    ordered = np.sort(lengths, axis=1)
    size = ordered.shape[1]
    lower, upper = ordered[:, (size - 1) // 2], ordered[:, size // 2]
    # to float before adding: the sum of two uint8 lengths would wrap around
    medians: NDArray[np.float64] = (lower.astype(np.float64) + upper.astype(np.float64)) / 2
    return medians[:, None]


def _step_median(tables: Iterable[_Table]) -> float:
    """Median of every rollout of the step; 0 when there is none, where nothing is compared with it."""
    flat = np.concatenate([table.lengths.ravel() for table in tables] or [np.empty(0)])
    if flat.size == 0:
        return 0.0
    middle = [(flat.size - 1) // 2, flat.size // 2]
    lower, upper = np.partition(flat, middle)[middle]
    return (float(lower) + float(upper)) / 2


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
