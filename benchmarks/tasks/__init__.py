"""Training tasks: prompts, verifiers and the settings that belong to a task."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.tasks.modular_chain import GROWING, STEADY, ChainTask
from benchmarks.tasks.questions import DAPO_MATH, QuestionTask

TASKS: dict[str, ChainTask] = {task.name: task for task in (STEADY, GROWING)}
"""Tiny tasks, which make their own prompts and a model of their own."""
QUESTION_TASKS: dict[str, QuestionTask] = {DAPO_MATH.name: DAPO_MATH}
"""Published questions for pretrained models, which need a GPU."""
ALL_TASKS: Mapping[str, ChainTask | QuestionTask] = {**TASKS, **QUESTION_TASKS}
