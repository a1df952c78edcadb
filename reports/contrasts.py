"""Seed-paired contrasts between arms of one comparison: what the claims are decided from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.curves import AXES, Floats, Reading, paired
from reports.facts import idle_share
from reports.runs import STATIC_ARMS, Comparison, Run
from reports.undecidable import NotDecidable


@dataclass(frozen=True, slots=True)
class Contrast:
    """One number a seed."""

    differences: tuple[float, ...]
    """In the order of the comparison's seeds."""
    problems: tuple[Floats, ...]
    """Per seed, the difference on each evaluation problem; empty where the contrast is not of an evaluation."""
    runs: tuple[Run, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class BestStatic:
    """For each seed, the static arm that was best on the other seeds."""

    contrast: Contrast
    chosen: tuple[str, ...]
    values: Floats
    """[static arms, seeds] accuracy that the choice was made on, all on the same problems."""
    sagc: Floats
    """[seeds] accuracy of SAGC on those problems."""


def cost_ratio(comparison: Comparison, cost: str, axis: str, a: str, b: str) -> Contrast:
    """Cost of `a` / cost of `b` at a matched budget.

    Args:
        comparison: the runs.
        cost: the axis that is the cost, `modelled_s` or `cpu_s`.
        axis: the axis of the budget.
        a: an arm.
        b: an arm.

    Raises:
        NotDecidable: if a run is missing, the budget lies outside its range, or its cost is 0.
    """
    runs = comparison.all_seeds([a, b])
    ratios = []
    for above, below, seed in zip(runs[a], runs[b], comparison.seeds, strict=True):
        budget = comparison.budget(axis, seed)
        costs = [run.curve.used_at(axis, budget, cost) for run in (above, below)]
        if min(costs) <= 0:
            raise NotDecidable(f"{above.run_id} or {below.run_id} has no {AXES[cost]} at {budget:g} {AXES[axis]}")
        ratios.append(costs[0] / costs[1])
    return Contrast(tuple(ratios), (), (*runs[a], *runs[b]))


def difference(comparison: Comparison, measure: str, axis: str, a: str, b: str) -> Contrast:
    """An evaluated measure of `a` minus that of `b` at a matched budget, on the problems that both hold.

    Raises:
        NotDecidable: if a run is missing or the budget lies outside its range.
    """
    runs = comparison.all_seeds([a, b])
    above, below = (_readings(comparison, runs[arm], measure, axis) for arm in (a, b))
    return _contrast([paired(x, y) for x, y in zip(above, below, strict=True)], (*runs[a], *runs[b]))


def against_best_static(comparison: Comparison, measure: str, axis: str, arm: str) -> BestStatic:
    """`arm` minus the best static arm, which is chosen for each seed by its accuracy on the *other* seeds.

    Chosen on the same seed it would win by luck as well as by merit. All static arms of the table take part, so
    a missing one leaves the contrast undecided.

    Raises:
        NotDecidable: if a run is missing, there is one seed only, or the budget lies outside a run's range.
    """
    runs = comparison.all_seeds([*STATIC_ARMS, arm])
    if len(comparison.seeds) < 2:
        raise NotDecidable("choosing the best static arm on the other seeds needs at least 2 seeds")
    accuracy = {name: _readings(comparison, found, "accuracy", axis) for name, found in runs.items()}
    common = min(len(reading.problems) for readings in accuracy.values() for reading in readings)
    means = {name: [reading.problems[:common].mean() for reading in readings] for name, readings in accuracy.items()}
    values = np.array([means[name] for name in STATIC_ARMS])
    chosen = tuple(STATIC_ARMS[index] for index in best_on_the_others(values))
    measured = {name: _readings(comparison, runs[name], measure, axis) for name in {*chosen, arm}}
    differences = [paired(measured[arm][i], measured[name][i]) for i, name in enumerate(chosen)]
    used = tuple(run for found in runs.values() for run in found)
    return BestStatic(_contrast(differences, used), chosen, values, np.array(means[arm]))


def best_on_the_others(values: NDArray[Any]) -> NDArray[np.intp]:
    """For each seed, the row with the highest mean over the other seeds; the first of equals.

    Args:
        values: [..., arms, seeds], at least two seeds.

    Returns:
        [..., seeds] row numbers.
    """
    others = values.sum(axis=-1, keepdims=True) - values
    best: NDArray[np.intp] = np.argmax(others, axis=-2)
    return best


def idle_difference(comparison: Comparison, a: str, b: str) -> Contrast:
    """Idle share of `a` minus that of `b`, over whole runs.

    Raises:
        NotDecidable: if a run is missing.
    """
    runs = comparison.all_seeds([a, b])
    pairs = zip(runs[a], runs[b], strict=True)
    differences = [idle_share(above.data.steps) - idle_share(below.data.steps) for above, below in pairs]
    return Contrast(tuple(differences), (), (*runs[a], *runs[b]))


def _readings(comparison: Comparison, runs: Sequence[Run], measure: str, axis: str) -> list[Reading]:
    return [run.curve.reading(measure, axis, comparison.budget(axis, run.key.seed)) for run in runs]


def _contrast(problems: Sequence[Floats], runs: tuple[Run, ...]) -> Contrast:
    return Contrast(tuple(float(values.mean()) for values in problems), tuple(problems), runs)
