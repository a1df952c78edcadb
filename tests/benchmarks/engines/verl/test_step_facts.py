from __future__ import annotations

from typing import Any

import pytest

from benchmarks.engines.verl.step_facts import ScoredRollout, evaluations, step_record, step_timing
from benchmarks.record import StepRecord
from benchmarks.store import RecordError
from sagc.integrations.verl_ledger import StepLedger


def scored(right: float, penalty: float = 0.0, truncated: bool = False, failed: bool = False) -> ScoredRollout:
    return ScoredRollout(reward=right + penalty, right=right, penalty=penalty, truncated=truncated, failed=failed)


def three_waves() -> tuple[StepLedger, dict[str, list[ScoredRollout]]]:
    """Two prompts, then a refill of two and one of one; G = 2."""
    lengths = {"a": [4, 6], "b": [5, 5], "c": [7, 20], "d": [3, 3], "e": [9, 1]}
    ledger = StepLedger()
    for wave in (["a", "b"], ["c", "d"], ["e"]):
        ledger.drew(wave)
    tags = {f"{uid}_{n}_0": {"response_len": x} for uid, group in lengths.items() for n, x in enumerate(group)}
    ledger.left("filtered", {"b", "d"}, tags)
    ledger.left("surplus", {"e"}, tags)
    ledger.left("trained", {"a", "c"}, tags)
    scores = {
        "a": [scored(1), scored(0)],
        "b": [scored(0), scored(0)],
        "c": [scored(0), scored(1, -0.5, truncated=True)],
        "d": [scored(1), scored(1)],
        "e": [scored(1), scored(0)],
    }
    return ledger, scores


def record(**changes: Any) -> StepRecord:
    ledger, scores = three_waves()
    settings: dict[str, Any] = {
        "step": 3,
        "first_prompt": 10,
        "num_prompts": 2,
        "group_size": 2,
        "ledger": ledger,
        "scores": scores,
        "threshold": 1.5,
        "reference": "group",
        "controller": {"dual_variable": 1.0},
        "controller_next": {"dual_variable": 0.9},
        "decision": {"group_size": 4, "num_prompts": None, "budget_infeasible": False},
        "optimizer_steps": 2,
        "metrics": {"actor/pg_loss": 0.25, "actor/grad_norm": 1.5, "actor/pg_clipfrac": 0.1},
        "ratio_deviation_max": 1e-6,
        "refill_exhausted": False,
    }
    return step_record(**{**settings, **changes})


def test_every_group_counts_where_it_belongs() -> None:
    step = record()
    assert step.lengths == [[4, 6], [5, 5], [7, 20], [3, 3], [9, 1]]
    assert (step.groups_generated, step.groups_filtered, step.groups_trained, step.groups_surplus) == (5, 2, 2, 1)
    assert (step.rollouts_generated, step.rollouts_trained, step.degenerate_groups) == (10, 4, 2)
    assert (step.straggler_groups, step.counted_groups, step.straggler_rate) == (1, 5, 0.2)  # 9 and 1: 9 >= 1.5 x 5
    assert step.generated_tokens == step.row_steps == 63


def test_straggler_counts_are_sagcs_own() -> None:
    assert record(threshold=1.45).straggler_groups == 2  # 20 >= 1.45 x 13.5 as well


def test_a_wave_is_a_barrier() -> None:
    step = record()
    assert (step.barriers, step.barrier_rollouts, step.barrier_longest) == (3, [4, 4, 2], [6, 20, 9])
    assert step.decode_steps == 35


def test_accuracy_and_reward_are_of_everything_generated() -> None:
    step = record()
    assert step.accuracy == 0.5
    assert step.reward_mean == pytest.approx(0.45)
    assert step.overlong_penalty_mean == pytest.approx(-0.05)
    assert step.truncated_rollouts == 1


def test_trained_tokens_are_those_with_an_advantage() -> None:
    assert record().trained_tokens == 4 + 6 + 7 + 20
    ledger, scores = three_waves()
    scores["a"] = [scored(1), scored(1)]
    assert record(ledger=ledger, scores=scores).trained_tokens == 7 + 20


def test_a_loss_that_is_not_finite_is_left_out() -> None:
    step = record(metrics={"actor/pg_loss": float("nan"), "actor/grad_norm": float("inf")})
    assert (step.loss, step.grad_norm, step.clip_frac) == (None, None, None)


def test_what_could_not_be_scored_is_counted_apart() -> None:
    ledger, scores = three_waves()
    scores["e"][1] = scored(0, failed=True)
    assert record(ledger=ledger, scores=scores).reward_errors == 1


def test_a_failed_group_counts_and_is_empty() -> None:
    ledger, scores = three_waves()
    ledger.drew(["f"])
    ledger.left("failed", {"f"}, {})
    step = record(ledger=ledger, scores=scores)
    assert step.lengths[-1] == []
    assert (step.groups_generated, step.rollouts_generated, step.barrier_longest[-1]) == (6, 10, 0)


def test_time_is_device_seconds_by_phase() -> None:
    timers = {"gen": 2.0, "old_log_prob": 0.5, "adv": 0.25, "update_actor": 1.0, "update_weights": 0.25, "step": 4.5}
    timing = step_timing(3, timers, 0.01, 0.02, record(), devices=8)
    assert timing.wall_s == {"rollout": 2.0, "reward": 0.0, "update": 2.0, "controller": 0.01, "logging": 0.02}
    assert timing.cpu_s["update"] == 16.0
    assert (timing.throughput_tokens_per_s, timing.rollouts_per_s) == (31.5, 5.0)


def test_evaluations_are_ordered_by_problem_whatever_the_order_of_samples() -> None:
    extras: dict[str, list[float]] = {
        "problem": [1, 0, 0, 1, 0],
        "acc": [1.0, 0.0, 1.0, 0.0, 1.0],
        "response_tokens": [5.0, 6.0, 7.0, 8.0, 9.0],
        "truncated": [0.0, 0.0, 1.0, 0.0, 0.0],
    }
    found = evaluations(["x", "x", "x", "x", "y"], extras)
    assert found["x"] == {"samples": 2, "right": [1, 1], "output_tokens": [13, 13], "truncated": [1, 0]}
    assert found["y"] == {"samples": 1, "right": [1], "output_tokens": [9], "truncated": [0]}


def test_an_evaluation_with_missing_samples_is_refused() -> None:
    extras: dict[str, list[float]] = {
        "problem": [0, 0, 1],
        "acc": [1.0] * 3,
        "response_tokens": [1.0] * 3,
        "truncated": [0.0] * 3,
    }
    with pytest.raises(RecordError, match=r"every problem of x must have the same number of samples, got \[1, 2\]"):
        evaluations(["x"] * 3, extras)
