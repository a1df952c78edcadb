"""Planted fakes: changes to the records of a run folder, each of which must flip exactly the verdicts that it should.

Each works in place, on a copy of any run folder, synthetic or real.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.store import EVALUATIONS, STEPS

Alteration = Callable[[Path], None]


def scale_cost(factor: float) -> Alteration:
    """Multiply decode steps, row-steps and trained tokens, and so the modelled time."""

    def change(step: dict[str, Any]) -> None:
        for name in ("decode_steps", "row_steps", "trained_tokens"):
            step[name] = round(factor * step[name])

    return lambda folder: _rewrite(folder / STEPS, change)


def shift_accuracy(by: float) -> Alteration:
    """Turn answers right (`by` > 0) or wrong (`by` < 0), spread evenly over the problems.

    In every evaluation but that of the start, which all arms share.
    """

    def change(evaluation: dict[str, Any]) -> None:
        if evaluation["step"] == 0:
            return
        right, samples = evaluation["right"], evaluation["samples"]
        count = round(abs(by) * len(right) * samples)
        free = [i for i, n in enumerate(right) for _ in range(samples - n if by > 0 else n)]
        if count > len(free):
            raise ValueError(f"by must leave accuracies in [0, 1], got {by!r}; {len(free)} answers are free to change")
        for position in range(count):
            right[free[position * len(free) // count]] += 1 if by > 0 else -1

    return lambda folder: _rewrite(folder / EVALUATIONS, change)


def lengthen_outputs(by: int) -> Alteration:
    """Add tokens to every evaluated output; negative cuts."""

    def change(evaluation: dict[str, Any]) -> None:
        evaluation["output_tokens"] = [n + by * evaluation["samples"] for n in evaluation["output_tokens"]]

    return lambda folder: _rewrite(folder / EVALUATIONS, change)


def move_rate(by: float) -> Alteration:
    """Add to the straggler rate of every step, within [0, 1]; the prices stay, so the identity breaks and shows it."""

    def change(step: dict[str, Any]) -> None:
        if step["straggler_rate"] is not None:
            step["straggler_rate"] = min(1.0, max(0.0, step["straggler_rate"] + by))

    return lambda folder: _rewrite(folder / STEPS, change)


def stretch_barriers(factor: float) -> Alteration:
    """Multiply the longest rollout of every barrier, and so the idle share."""

    def change(step: dict[str, Any]) -> None:
        step["barrier_longest"] = [round(factor * longest) for longest in step["barrier_longest"]]

    return lambda folder: _rewrite(folder / STEPS, change)


def free_price() -> Alteration:
    """Set every price to 0, as if the budget had never bound."""

    def change(step: dict[str, Any]) -> None:
        for numbers in (step["controller"], step["controller_next"]):
            if "dual_variable" in numbers:
                numbers["dual_variable"] = 0.0

    return lambda folder: _rewrite(folder / STEPS, change)


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        change(record)
        lines.append(json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
