"""Dynamic sampling: bounds and exact accounting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from baselines.algorithms import DAPO, GRPO
from benchmarks.engines.protocol import Prompt, Rollouts
from benchmarks.sampling import Barrier, StepSample, collect


def make_barrier(rewards: list[list[float]]) -> Barrier:
    groups, size = len(rewards), len(rewards[0])
    return Barrier(
        rewards=np.array(rewards),
        rollouts=Rollouts(
            prompts=[Prompt(index=i, tokens=(1,), answer=0) for i in range(groups)],
            tokens=[[np.zeros(3, dtype=np.int64)] * size] * groups,
            log_probs=[[np.zeros(3, dtype=np.float32)] * size] * groups,
            truncated=np.zeros((groups, size), dtype=bool),
            decode_steps=2,
            row_steps=2 * groups * size,
        ),
    )


def scripted(informative: list[int]) -> tuple[Callable[[int], Barrier], list[int]]:
    """Barriers whose first groups are mixed, as many as the script says, and the draws that were asked for."""
    script: Iterator[int] = iter(informative)
    draws: list[int] = []

    def barrier(count: int) -> Barrier:
        draws.append(count)
        mixed = next(script)
        return make_barrier([[1.0, 0.0]] * mixed + [[1.0, 1.0]] * (count - mixed))

    return barrier, draws


def counts(sample: StepSample) -> tuple[int, int, int, int]:
    degenerate, trained = sample.degenerate, sample.trained
    return len(degenerate), int(degenerate.sum()), int(trained.sum()), int((sample.eligible & ~trained).sum())


def test_every_group_is_accounted_for_over_three_draws() -> None:
    barrier, draws = scripted([1, 2, 2])
    sample = collect(4, DAPO, barrier)
    assert counts(sample) == (12, 7, 4, 1)  # generated, filtered, trained, surplus
    assert draws == [4, 4, 4]
    assert not sample.exhausted


def test_refill_asks_for_twice_the_evicted_groups_and_at_most_a_step() -> None:
    barrier, draws = scripted([7, 1])
    collect(8, DAPO, barrier)
    assert draws == [8, 2]
    barrier, draws = scripted([1, 8])
    collect(8, DAPO, barrier)
    assert draws == [8, 8]


def test_credit_that_was_not_drawn_is_kept() -> None:
    # round 1: 3 evicted -> credit 6, 4 drawn, 2 kept; round 2: 1 evicted -> credit 4, 4 drawn
    barrier, draws = scripted([1, 3, 1])
    sample = collect(4, DAPO, barrier)
    assert draws == [4, 4]
    assert counts(sample) == (8, 4, 4, 0)


def test_a_model_that_is_always_right_ends_the_step_at_the_bound() -> None:
    barrier, draws = scripted([0] * 50)
    sample = collect(4, DAPO, barrier)
    assert len(draws) == 1 + DAPO.max_refill_rounds
    assert sample.exhausted
    assert counts(sample) == (4 * len(draws), 4 * len(draws), 0, 0)


def test_at_the_bound_the_informative_groups_are_trained() -> None:
    barrier, _ = scripted([1, 0, 1, 0, 0])
    sample = collect(4, DAPO, barrier)
    assert sample.exhausted
    assert counts(sample)[2] == 2


def test_no_refill_round_allowed_means_one_barrier() -> None:
    barrier, draws = scripted([0])
    sample = collect(4, replace(DAPO, max_refill_rounds=0), barrier)
    assert draws == [4]
    assert sample.exhausted


def test_without_dynamic_sampling_degenerate_groups_are_trained() -> None:
    barrier, draws = scripted([1])
    sample = collect(4, GRPO, barrier)
    assert draws == [4]
    assert counts(sample) == (4, 3, 4, 0)


def test_a_group_is_kept_or_dropped_whole() -> None:
    sample = StepSample(num_prompts=2, filters=True, barriers=[make_barrier([[1.0, 0.0, 0.0, 0.0], [0.0] * 4])])
    assert sample.trained.tolist() == [True, False]


def test_a_group_of_one_is_degenerate() -> None:
    assert make_barrier([[1.0], [0.0]]).degenerate.tolist() == [True, True]


@pytest.mark.parametrize("size", [1, 2, 8])
def test_surplus_is_what_comes_last(size: int) -> None:
    sample = StepSample(num_prompts=size, filters=True, barriers=[make_barrier([[1.0, 0.0]] * (size + 2))])
    assert sample.trained.tolist() == [True] * size + [False] * 2
