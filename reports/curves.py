"""One run as curves over what it has used: prompts, rollouts, tokens, updates and time.

Values at a budget are read by linear interpolation between what was recorded. Outside that range there is no
value and the reason is given; nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.costs import modelled_seconds
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.store import RecordError, RunData
from reports.undecidable import NotDecidable

Floats = NDArray[np.float64]

AXES: dict[str, str] = {
    "prompts": "prompts drawn",
    "rollouts": "rollouts",
    "tokens": "generated tokens",
    "modelled_s": "modelled seconds",
    "cpu_s": "measured CPU-seconds",
    "wall_s": "wall-clock seconds",
    "updates": "optimizer steps",
}
"""Every axis that a run can be read on, and what the report calls it."""


def _accuracy(record: EvaluationRecord) -> Floats:
    return np.asarray(record.right, dtype=float) / record.samples


def _output_length(record: EvaluationRecord) -> Floats:
    return np.asarray(record.output_tokens, dtype=float) / record.samples


MEASURES: dict[str, Callable[[EvaluationRecord], Floats]] = {
    "accuracy": _accuracy,
    "output_length_tokens": _output_length,
}
"""What an evaluation gives for each problem: the mean over its samples."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A measure at a budget, problem by problem."""

    problems: Floats
    """Value of each problem, in the order of the evaluation set."""

    @property
    def value(self) -> float:
        """Mean over the problems."""
        return float(self.problems.mean())


def paired(a: Reading, b: Reading) -> Floats:
    """Per-problem differences a - b on the problems that both hold.

    The final evaluation has more problems than the ones before it. Comparing the means of the two sets
    would add the difference in their difficulty, the same in every seed, so no number of seeds would show it.
    """
    common = min(len(a.problems), len(b.problems))
    return a.problems[:common] - b.problems[:common]


@dataclass(frozen=True, slots=True)
class Curve:
    """What a run has used after each of its T steps, and its evaluations."""

    run_id: str
    used: dict[str, Floats]
    """Axis -> [T + 1] cumulative amounts, 0 first; an axis that was not measured is missing."""
    evaluations: tuple[EvaluationRecord, ...]
    """In order of step, one a step."""

    def total(self, axis: str) -> float:
        """What the whole run used.

        Raises:
            NotDecidable: if the axis was not measured.
        """
        return float(self._axis(axis)[-1])

    def used_at(self, axis: str, budget: float, wanted: str) -> float:
        """How much of `wanted` the run had used when it had used `budget` of `axis`.

        Raises:
            NotDecidable: outside the run's range.
        """
        place, along = self._axis(axis), self._axis(wanted)
        self._check(axis, budget, place[0], place[-1])
        return float(np.interp(budget, place, along))

    def reading(self, measure: str, axis: str, budget: float) -> Reading:
        """A measure of the evaluations at a budget, by linear interpolation between the two around it.

        Raises:
            NotDecidable: outside the evaluated range, or without evaluations.
        """
        if not self.evaluations:
            raise NotDecidable(f"{self.run_id} has no evaluation")
        if len(sets := {record.set for record in self.evaluations}) > 1:
            raise NotDecidable(f"{self.run_id} mixes the evaluation sets {', '.join(sorted(sets))}")
        place = self._axis(axis)[[record.step for record in self.evaluations]]
        self._check(axis, budget, place[0], place[-1])
        after = int(np.searchsorted(place, budget))  # the first evaluation at or past the budget
        high = self._problems(measure, after)
        if place[after] == budget:
            return Reading(high)
        low = self._problems(measure, after - 1)
        common = min(len(low), len(high))
        weight = (budget - place[after - 1]) / (place[after] - place[after - 1])
        return Reading((1 - weight) * low[:common] + weight * high[:common])

    def _problems(self, measure: str, index: int) -> Floats:
        record = self.evaluations[index]
        values = MEASURES[measure](record)
        if not np.isfinite(values).all():  # NaN would win every argmax
            raise NotDecidable(f"{measure} of {self.run_id} at step {record.step} is not a finite number")
        return values

    def _axis(self, axis: str) -> Floats:
        if axis not in self.used:
            raise NotDecidable(f"{AXES[axis]} of {self.run_id} were not measured at every step")
        return self.used[axis]

    def _check(self, axis: str, budget: float, low: float, high: float) -> None:
        if not low <= budget <= high:
            raise NotDecidable(
                f"{budget:g} {AXES[axis]} lie outside what {self.run_id} covers ({low:g} to {high:g}); "
                "values are not extrapolated"
            )


def curve(run: RunData) -> Curve:
    """The curves of one run.

    Raises:
        RecordError: if its step numbers have a gap, or an evaluation stands at a step that was not recorded.
    """
    if [record.step for record in run.steps] != list(range(1, len(run.steps) + 1)):
        raise RecordError(f"steps of {run.folder} must be 1, 2, 3 ..., got a gap or a repeat; run it again")
    evaluations = _one_a_step(run.evaluations)
    if evaluations and evaluations[-1].step > len(run.steps):
        raise RecordError(
            f"evaluations of {run.folder} must follow recorded steps, got step {evaluations[-1].step} "
            f"after {len(run.steps)} steps; run it again"
        )
    used = {axis: _cumulative(amounts) for axis, amounts in _amounts(run.steps).items()}
    used |= {axis: _cumulative(amounts) for axis, amounts in _times(run.timings, len(run.steps)).items()}
    return Curve(run_id=run.run_id, used=used, evaluations=evaluations)


def _amounts(steps: Sequence[StepRecord]) -> dict[str, list[float]]:
    return {
        "prompts": [step.groups_generated for step in steps],
        "rollouts": [step.rollouts_generated for step in steps],
        "tokens": [step.generated_tokens for step in steps],
        "updates": [step.optimizer_steps for step in steps],
        "modelled_s": [modelled_seconds(step.decode_steps, step.row_steps, step.trained_tokens) for step in steps],
    }


def _times(timings: Sequence[StepTiming], steps: int) -> dict[str, list[float]]:
    """Seconds of each step; an axis is left out unless every step has a number on it."""
    if [timing.step for timing in timings] != list(range(1, steps + 1)):
        return {}
    measured = {"cpu_s": [timing.cpu_s for timing in timings], "wall_s": [timing.wall_s for timing in timings]}
    return {axis: [sum(phases.values()) for phases in all_] for axis, all_ in measured.items() if all(all_)}


def _cumulative(amounts: Sequence[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.asarray(amounts, dtype=float))])


def _one_a_step(evaluations: Sequence[EvaluationRecord]) -> tuple[EvaluationRecord, ...]:
    """In order of step; of two on one set at one step the one with more problems, which holds the other's."""
    latest: dict[tuple[int, str], EvaluationRecord] = {}
    for record in sorted(evaluations, key=lambda record: len(record.right)):
        latest[record.step, record.set] = record
    return tuple(sorted(latest.values(), key=lambda record: record.step))
