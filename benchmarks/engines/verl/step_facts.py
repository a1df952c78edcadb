"""A training step of verl as a `StepRecord`, and its clock as a `StepTiming`; imports no verl."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.advantages import group_advantages
from benchmarks.record import PHASES, StepRecord, StepTiming
from benchmarks.store import RecordError
from sagc.integrations.verl_ledger import StepLedger
from sagc.stragglers import straggler_counts

PHASE_TIMERS = {
    "gen": "rollout",
    "reward": "reward",
    "old_log_prob": "update",
    "adv": "update",
    "update_actor": "update",
}
"""verl's timer -> our phase. Rule-based rewards run inside `gen`, next to the rollouts; weight sync is `update` too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRollout:
    """What the reward manager said of one rollout."""

    reward: float
    right: float
    penalty: float
    truncated: bool
    failed: bool
    """It could not be scored, and counts as wrong."""


def step_record(
    *,
    step: int,
    first_prompt: int,
    num_prompts: int,
    group_size: int,
    ledger: StepLedger,
    scores: Mapping[str, Sequence[ScoredRollout]],
    threshold: float,
    reference: Any,
    controller: dict[str, float],
    controller_next: dict[str, float],
    decision: dict[str, Any],
    optimizer_steps: int,
    metrics: Mapping[str, Any],
    ratio_deviation_max: float | None,
    refill_exhausted: bool,
) -> StepRecord:
    """Put one step on record.

    Waves are what verl sent out together: the step's first prompts, then each refill. verl lets them overlap, so
    `decode_steps`, the sum of the longest rollout of each wave, is what they would take one after another and an
    upper bound; `row_steps` counts each token once, as an engine does that drops finished rows.

    Args:
        step: 1-based.
        first_prompt: index of the first prompt drawn.
        num_prompts: P.
        group_size: G.
        ledger: every group drawn.
        scores: uid -> its rollouts, by session.
        threshold, reference: of straggler events.
        controller, controller_next: the policy's numbers in force, and after the step.
        decision: for the next step.
        optimizer_steps: taken.
        metrics: verl's own.
        ratio_deviation_max: trainer against sampler.
        refill_exhausted: whether the bound on refills was reached.
    """
    lengths = ledger.lengths
    stragglers = straggler_counts(lengths, threshold, reference)
    rollouts = [item for uid in ledger.groups for item in scores.get(uid, ())]
    waves = [[group for group in ledger.groups.values() if group.wave == wave] for wave in range(ledger.waves)]
    longest = [max((max(group.lengths, default=0) for group in wave), default=0) for wave in waves]
    trained = [uid for uid, group in ledger.groups.items() if group.fate == "trained"]
    return StepRecord(
        step=step,
        group_size=group_size,
        num_prompts=num_prompts,
        first_prompt=first_prompt,
        lengths=lengths,
        straggler_rate=stragglers.rate,
        straggler_groups=stragglers.straggler_groups,
        counted_groups=stragglers.groups,
        straggler_rollouts=stragglers.hits,
        controller=controller,
        controller_next=controller_next,
        decision=decision,
        barriers=len(waves),
        barrier_rollouts=[sum(len(group.lengths) for group in wave) for wave in waves],
        barrier_longest=longest,
        generated_tokens=ledger.tokens,
        decode_steps=sum(longest),
        row_steps=ledger.tokens,
        groups_generated=len(ledger.groups),
        groups_filtered=ledger.count("filtered"),
        groups_trained=len(trained),
        groups_surplus=ledger.count("surplus"),
        degenerate_groups=sum(_degenerate(scores.get(uid, ())) for uid in ledger.groups),
        rollouts_generated=ledger.rollouts,
        rollouts_trained=sum(len(ledger.groups[uid].lengths) for uid in trained),
        accuracy=_mean([item.right for item in rollouts]),
        reward_mean=_mean([item.reward for item in rollouts]),
        overlong_penalty_mean=_mean([item.penalty for item in rollouts]),
        truncated_rollouts=sum(item.truncated for item in rollouts),
        trained_tokens=sum(_live_tokens(ledger.groups[uid].lengths, scores.get(uid, ())) for uid in trained),
        optimizer_steps=optimizer_steps,
        loss=_finite(metrics.get("actor/pg_loss")),
        grad_norm=_finite(metrics.get("actor/grad_norm")),
        clip_frac=_finite(metrics.get("actor/pg_clipfrac")),
        ratio_deviation_max=ratio_deviation_max,
        refill_exhausted=refill_exhausted,
        reward_errors=sum(item.failed for item in rollouts),
    )


def step_timing(
    step: int, timers: Mapping[str, float], own_s: float, logging_s: float, record: StepRecord, devices: int
) -> StepTiming:
    """The clock of one step.

    verl's work is spread over processes and devices, so the measured cost is device-seconds: wall-clock times the
    devices that are held all the while. They stand in `cpu_s`, the measured cost of every engine.

    Args:
        step: 1-based.
        timers: verl's own, in seconds.
        own_s: seconds in the SAGC trainer's own code.
        logging_s: seconds in the writing of records.
        record: of the same step.
        devices: GPUs held; 1 on a CPU.
    """
    wall = dict.fromkeys(PHASES, 0.0)
    for timer, phase in PHASE_TIMERS.items():
        wall[phase] += timers.get(timer, 0.0)
    wall["update"] += timers.get("update_weights", 0.0)
    wall["controller"], wall["logging"] = own_s, logging_s
    rollout_s = wall["rollout"]
    return StepTiming(
        step=step,
        cpu_s={phase: seconds * devices for phase, seconds in wall.items()},
        wall_s=wall,
        throughput_tokens_per_s=record.generated_tokens / rollout_s,
        rollouts_per_s=record.rollouts_generated / rollout_s,
        load_average=os.getloadavg()[0],
    )


def _degenerate(group: Sequence[ScoredRollout]) -> bool:
    """All rewards equal before the penalty, as dynamic sampling sees it."""
    return len({item.right for item in group}) < 2


def _live_tokens(lengths: Sequence[int], group: Sequence[ScoredRollout]) -> int:
    """Tokens of the rollouts whose advantage is not zero."""
    if not group:
        return 0
    advantages = group_advantages([item.reward for item in group], np.zeros(len(group), dtype=np.int64))
    return sum(length for length, advantage in zip(lengths, advantages, strict=True) if advantage)


def _mean(values: Sequence[float]) -> float:
    """0 where there is nothing: a step all of whose rollouts failed got nothing right."""
    return math.fsum(values) / len(values) if values else 0.0


def _finite(value: Any) -> float | None:
    """JSON has no NaN: such a number is left out of the record, and the outcome says so."""
    return float(value) if value is not None and math.isfinite(float(value)) else None


def evaluations(data_sources: Sequence[str], extras: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Evaluation set -> the fields of an `EvaluationRecord` that its samples fill.

    Args:
        data_sources: set of each sample.
        extras: what the reward manager said of each sample, with the number of its problem.

    Returns:
        Problems by their number in the set.

    Raises:
        RecordError: if problems have different numbers of samples: some failed.
    """
    groups: dict[str, dict[int, list[int]]] = {}
    for sample, name in enumerate(data_sources):
        groups.setdefault(name, {}).setdefault(int(extras["problem"][sample]), []).append(sample)
    return {name: _evaluation(name, problems, extras) for name, problems in groups.items()}


def _evaluation(name: str, problems: Mapping[int, list[int]], extras: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    counts = {len(samples) for samples in problems.values()}
    if len(counts) > 1:
        raise RecordError(
            f"every problem of {name} must have the same number of samples, got {sorted(counts)}; "
            "look for failed rollouts in the log of the verl process"
        )

    def sums(key: str) -> list[int]:
        return [round(sum(extras[key][sample] for sample in problems[number])) for number in sorted(problems)]

    return {
        "samples": counts.pop(),
        "right": sums("acc"),
        "output_tokens": sums("response_tokens"),
        "truncated": sums("truncated"),
    }
