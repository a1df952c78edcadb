"""What MLflow shows of a run: every metric key, and the pure functions that fill them from records.

A key that MLflow refuses loses the whole batch that it came in, so keys hold letters, digits, ``_``, ``-``, ``.`` and
``/`` only (`legal_key`). A unit is the suffix ``_s``, ``_tokens`` or ``_frac``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from benchmarks.record import EvaluationRecord, StepRecord, StepTiming

THROUGHPUT = "throughput_tokens_per_s"
ROLLOUTS_PER_S = "rollouts_per_s"
OUTPUT_LENGTH = "output_length_tokens"
ACCURACY = "accuracy"
ALWAYS = (THROUGHPUT, ROLLOUTS_PER_S, OUTPUT_LENGTH, ACCURACY)
"""Under these names on every run of every engine."""

GROUP_SIZE = "group_size"
NUM_PROMPTS = "num_prompts"
STRAGGLER_RATE = "straggler_rate_frac"
DUAL_VARIABLE = "dual_variable"
REWARD = "reward_mean"
OVERLONG_PENALTY = "overlong_penalty_mean"
TRUNCATED = "truncated_frac"
REWARD_ERRORS = "reward_errors_frac"
DEGENERATE = "degenerate_groups_frac"
FILTERED = "filtered_groups_frac"
SURPLUS = "surplus_groups_frac"
BARRIERS = "barriers"
LONGEST = "longest_rollout_tokens"
IDLE = "idle_frac"
GENERATED = "generated_tokens"
TRAINED = "trained_tokens"
DECODE_STEPS = "decode_steps"
ROW_STEPS = "row_steps"
LOSS = "loss"
GRAD_NORM = "grad_norm"
CLIP = "clip_frac"
RATIO_DEVIATION = "ratio_deviation_max"
LOAD = "load_average"
CONTROLLER = "controller/"
"""Prefix of the policy's own numbers, but for those that have a key of their own:"""
_SHOWN_ALREADY = {"group_size", "dual_variable", "straggler_rate"}
CPU = "cpu/"
"""Prefix of process CPU-seconds by phase."""
WALL = "wall/"
"""Prefix of wall-clock seconds by phase."""

EVALUATION_ACCURACY = "evaluation_accuracy"
EVALUATION_OUTPUT_LENGTH = "evaluation_output_length_tokens"
EVALUATION_TRUNCATED = "evaluation_truncated_frac"
EVALUATION_PROBLEMS = "evaluation_problems"
PROMPTS = "prompts_total"
ROLLOUTS = "rollouts_total"

Metrics = dict[str, float | None]
"""None: not measured in this record."""
_LEGAL = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
MAX_KEY_LENGTH = 250  # MLflow's


def step_metrics(record: StepRecord) -> Metrics:
    """The numbers of one training step; shares of nothing are None."""
    barrier_slots = sum(
        rollouts * longest for rollouts, longest in zip(record.barrier_rollouts, record.barrier_longest, strict=True)
    )
    shares = {
        OUTPUT_LENGTH: (record.generated_tokens, record.rollouts_generated),
        TRUNCATED: (record.truncated_rollouts, record.rollouts_generated),
        REWARD_ERRORS: (record.reward_errors, record.rollouts_generated),
        DEGENERATE: (record.degenerate_groups, record.groups_generated),
        FILTERED: (record.groups_filtered, record.groups_generated),
        SURPLUS: (record.groups_surplus, record.groups_generated),
    }
    busy = share(record.generated_tokens, barrier_slots)
    return {
        ACCURACY: record.accuracy,
        GROUP_SIZE: record.group_size,
        NUM_PROMPTS: record.num_prompts,
        STRAGGLER_RATE: record.straggler_rate,
        DUAL_VARIABLE: record.controller.get("dual_variable"),
        REWARD: record.reward_mean,
        OVERLONG_PENALTY: record.overlong_penalty_mean,
        BARRIERS: record.barriers,
        LONGEST: max(record.barrier_longest, default=None),
        IDLE: None if busy is None else 1 - busy,
        GENERATED: record.generated_tokens,
        TRAINED: record.trained_tokens,
        DECODE_STEPS: record.decode_steps,
        ROW_STEPS: record.row_steps,
        LOSS: record.loss,
        GRAD_NORM: record.grad_norm,
        CLIP: record.clip_frac,
        RATIO_DEVIATION: record.ratio_deviation_max,
        **{key: share(*parts) for key, parts in shares.items()},
        **{CONTROLLER + name: value for name, value in record.controller.items() if name not in _SHOWN_ALREADY},
    }


def timing_metrics(timing: StepTiming) -> Metrics:
    """The clock side of one training step."""
    return {
        THROUGHPUT: timing.throughput_tokens_per_s,
        ROLLOUTS_PER_S: timing.rollouts_per_s,
        LOAD: timing.load_average,
        **{f"{CPU}{phase}_s": seconds for phase, seconds in timing.cpu_s.items()},
        **{f"{WALL}{phase}_s": seconds for phase, seconds in timing.wall_s.items()},
    }


def evaluation_metrics(record: EvaluationRecord) -> Metrics:
    """One evaluation, averaged over all samples of all problems."""
    answers = len(record.right) * record.samples
    return {
        EVALUATION_ACCURACY: share(sum(record.right), answers),
        EVALUATION_OUTPUT_LENGTH: share(sum(record.output_tokens), answers),
        EVALUATION_TRUNCATED: share(sum(record.truncated), answers),
        EVALUATION_PROBLEMS: len(record.right),
        PROMPTS: record.prompts,
        ROLLOUTS: record.rollouts,
    }


def share(part: float, whole: float) -> float | None:
    """part / whole; None of nothing."""
    return part / whole if whole else None


def sendable(metrics: Mapping[str, object]) -> tuple[dict[str, float], list[str]]:
    """What MLflow can hold, and the keys that it cannot.

    None is "not measured" and is in neither. MLflow would store inf as 1.8e308, and a NaN would be ranked among
    numbers: both are refused, as is what is no number, and a key that MLflow does not accept.
    """
    measured = {key: value for key, value in metrics.items() if value is not None}
    good = {
        key: float(value)
        for key, value in measured.items()
        if isinstance(value, int | float) and math.isfinite(value) and legal_key(key)
    }
    return good, [key for key in measured if key not in good]


def legal_key(key: str) -> bool:
    """Whether MLflow takes `key` as the name of a metric on every system."""
    parts = key.split("/")
    return bool(_LEGAL.fullmatch(key)) and len(key) <= MAX_KEY_LENGTH and not {".", ".."} & set(parts)
