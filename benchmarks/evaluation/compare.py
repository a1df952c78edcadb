"""Two evaluations of the same problems, paired by problem.

    d_i = b_i - a_i,   mean d +- t(0.975, P - 1) sd(d) / sqrt(P)

Pairing takes the problems' difficulty out: two models that differ by 3 points on 30 problems can be told apart, or
not, by the d_i alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.evaluation.display import table
from benchmarks.evaluation.results import AskedSet, VerdictLine, read_scored
from sagc.errors import ConfigError

LEVEL = 0.95

QUANTITIES: dict[str, Callable[[VerdictLine], float]] = {
    "accuracy": lambda line: float(line.right),
    "output tokens": lambda line: float(line.tokens),
    "truncated": lambda line: float(line.truncated),
}
"""Name -> the number of one sample; a problem's number is the mean over its samples."""


class Difference(NamedTuple):
    """A paired difference."""

    first: float
    second: float
    difference: float
    """second - first."""
    half_width: float | None
    """Of the 95 % interval; None for one problem."""


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The paired difference of two numbers per problem.

    Degenerate cases: one problem has no interval; equal differences throughout give one of width 0.
    """
    differences = np.subtract(second, first)
    count = len(differences)
    half_width = None
    if count > 1:
        error = float(differences.std(ddof=1)) / math.sqrt(count)
        half_width = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * error
    return Difference(float(np.mean(first)), float(np.mean(second)), float(differences.mean()), half_width)


def compare_lines(first: Path, second: Path) -> list[str]:
    """A table of every set that both evaluations hold, with notes on what else differs.

    Raises:
        ConfigError: if they share no set, or hold different problems of one.
        RecordError: if one is no whole, scored evaluation.
    """
    scored = [read_scored(folder) for folder in (first, second)]
    tables = [_by_set(lines) for _, lines in scored]
    shared = [name for name in tables[0] if name in tables[1]]
    if not shared:
        raise ConfigError(
            f"sets must overlap, got {', '.join(tables[0])} and {', '.join(tables[1])}; evaluate both on the same sets"
        )
    rows = [["set", "problems", "", first.name, second.name, "difference", "95 % interval"]]
    for name in shared:
        problems = _same_problems(name, tables[0][name], tables[1][name])
        for quantity, number in QUANTITIES.items():
            values = [[float(np.mean([number(line) for line in side[name][p]])) for p in problems] for side in tables]
            rows.append([name, str(len(problems)), quantity, *_cells(quantity, paired(*values))])
    return [*table(rows), *_notes(shared, scored[0][0], scored[1][0], tables)]


def _by_set(lines: Sequence[VerdictLine]) -> dict[str, dict[str, list[VerdictLine]]]:
    tree: dict[str, dict[str, list[VerdictLine]]] = {}
    for line in lines:
        tree.setdefault(line.set, {}).setdefault(line.problem, []).append(line)
    return tree


def _same_problems(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    if different := sorted(first.keys() ^ second.keys()):
        raise ConfigError(
            f"problems of {name} must be the same, got {different[0]!r} in one of the two only; use one source for both"
        )
    return list(first)


def _cells(quantity: str, result: Difference) -> list[str]:
    scale, unit = (1, "") if quantity == "output tokens" else (100, " %")
    low_high = "-"
    if result.half_width is not None:
        low, high = (scale * (result.difference + sign * result.half_width) for sign in (-1, 1))
        low_high = f"{low:+.1f} to {high:+.1f}{unit}"
    return [
        f"{scale * result.first:.1f}{unit}",
        f"{scale * result.second:.1f}{unit}",
        f"{scale * result.difference:+.1f}{unit}",
        low_high,
    ]


def _notes(
    shared: Sequence[str],
    first: Mapping[str, AskedSet],
    second: Mapping[str, AskedSet],
    tables: Sequence[Mapping[str, Any]],
) -> list[str]:
    notes = [
        f"note: {name}: {what} differ, which the interval does not cover"
        for name in shared
        for what in ("problems", "sampling")
        if getattr(first[name], what) != getattr(second[name], what)
    ]
    alone = sorted(tables[0].keys() ^ tables[1].keys())
    return notes + [f"note: {name}: in one of the two only" for name in alone]
