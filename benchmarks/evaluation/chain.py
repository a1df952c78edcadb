"""The training tasks as evaluation sets, in their own 59 words: for the models that the suite trains."""

from __future__ import annotations

from benchmarks.evaluation.problems import EvaluationSet, Loader, LoadOptions, Problem
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import decode

ROWS = 64
"""Held-out problems of a set [ours]; a training run's own evaluations take more."""


def loader(task: str) -> Loader:
    """Gets the first held-out problems of a task."""

    def load(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
        return [
            Problem(f"{task}-{prompt.index}", " ".join(decode(prompt.tokens)), str(prompt.answer))
            for prompt in TASKS[task].held_out(row.rows)
        ]

    return load
