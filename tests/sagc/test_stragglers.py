from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagc.errors import ConfigError, ObservationError
from sagc.stragglers import StragglerCounts, straggler_counts

RAGGED = st.lists(st.lists(st.integers(0, 40), max_size=7), max_size=8)


def counts(groups: int = 0, stragglers: int = 0, rollouts: int = 0, hits: int = 0, skipped: int = 0) -> StragglerCounts:
    return StragglerCounts(
        groups=groups, straggler_groups=stragglers, rollouts=rollouts, hits=hits, skipped_groups=skipped
    )


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        pytest.param([], counts(), id="no group"),
        pytest.param(np.empty((0, 8), dtype=np.int64), counts(), id="no group, array"),
        pytest.param([[]], counts(skipped=1), id="empty group"),
        pytest.param(np.empty((3, 0)), counts(skipped=3), id="empty groups, array"),
        pytest.param([[7]], counts(skipped=1), id="group of one"),
        pytest.param(np.array([[7], [90]]), counts(skipped=2), id="groups of one, array"),
        pytest.param([[5, 5, 5, 5]], counts(1, 0, 4, 0), id="all lengths equal"),
        pytest.param([[0, 0, 0, 0]], counts(1, 0, 4, 0), id="zero lengths are no stragglers"),
        pytest.param([[0, 0, 0, 1]], counts(1, 1, 4, 1), id="a positive length over a zero median is a hit"),
        pytest.param([[10, 10, 10, 20]], counts(1, 1, 4, 1), id="exactly at the threshold is a hit"),
        pytest.param([[10, 10, 10, 19]], counts(1, 0, 4, 0), id="just below the threshold is none"),
        pytest.param([[10, 10, 25, 20, 30]], counts(1, 0, 5, 0), id="odd group: 30 < 2 x 20"),
        pytest.param([[10, 20, 10, 30]], counts(1, 1, 4, 1), id="even group: the median is the mean of 10 and 20"),
        pytest.param([[9, 1]], counts(1, 0, 2, 0), id="a group of two cannot straggle at threshold 2"),
        pytest.param([[9, 0]], counts(1, 1, 2, 1), id="unless one of its lengths is zero"),
        pytest.param([[10, 10, 10, 40, 50], [3], [1, 1]], counts(2, 1, 7, 2, 1), id="ragged"),
        pytest.param([[0.5, 0.5, 0.5, 1.0]], counts(1, 1, 4, 1), id="seconds"),
    ],
)
def test_group_reference(lengths: Any, expected: StragglerCounts) -> None:
    assert straggler_counts(lengths, 2.0, "group") == expected


def test_step_reference_uses_every_rollout_of_the_step() -> None:
    lengths = [[10, 10], [10, 30], [30]]  # median of 10, 10, 10, 30, 30 is 10
    assert straggler_counts(lengths, 2.0, "step") == counts(2, 1, 4, 1, 1)
    without_the_single = [[10, 10], [30, 30]]  # median 20: nothing reaches 40
    assert straggler_counts(without_the_single, 2.0, "step") == counts(2, 0, 4, 0)
    assert straggler_counts([], 2.0, "step") == counts()
    assert straggler_counts([[], [4]], 2.0, "step") == counts(skipped=2)


def test_one_prompt() -> None:
    assert straggler_counts(np.array([[1, 1, 1, 9]]), 2.0, "group").rate == 1.0
    assert straggler_counts(np.array([[1, 1, 1, 1]]), 2.0, "step").rate == 0.0


def test_rate_is_none_when_no_group_counts() -> None:
    assert straggler_counts([[5], []], 2.0, "group").rate is None


def test_small_integer_types_do_not_wrap_around() -> None:
    lengths = np.array([[200, 200, 200, 255]], dtype=np.uint8)  # 200 + 200 is 144 in uint8
    assert straggler_counts(lengths, 1.2, "group") == counts(1, 1, 4, 1)
    assert straggler_counts(lengths, 1.2, "step") == counts(1, 1, 4, 1)


@pytest.mark.parametrize(
    ("lengths", "named"),
    [
        ([[1, 2], [3, float("nan")]], "got nan in group 1"),
        ([[1, 2], [3], [float("inf"), 1]], "got inf in group 2"),
        ([[1, 2, 3], [-4, 2]], "got -4 in group 1"),
        (np.array([[1.0, 2.0], [np.nan, 3.0]]), "got nan in group 1"),
        (np.array([[-np.inf, 2.0]]), "got -inf in group 0"),
        (np.array([[1, 2], [3, -7]]), "got -7 in group 1"),
        ([[float("nan")]], "got nan in group 0"),
        (np.array([1, 2, 3]), r"got shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (np.array([[True, False]]), "got dtype bool"),
        ([[True, False]], "got dtype bool"),
        ([3, 4], "one sequence of numbers per group"),
        ([[1, [2, 3]]], "one sequence of numbers per group"),
        ([["1", "2"]], "got dtype <U1"),
        ([[1, None]], "got dtype object"),
        (5, "one sequence of numbers per group"),
    ],
)
@pytest.mark.parametrize("reference", ["group", "step"])
def test_what_is_no_length_is_refused_by_name(lengths: Any, named: str, reference: Any) -> None:
    with pytest.raises(ObservationError, match=named):
        straggler_counts(lengths, 2.0, reference)


def test_unknown_reference_offers_the_nearest() -> None:
    wrong: Any = "groups"
    with pytest.raises(ConfigError, match="did you mean 'group'"):
        straggler_counts([], 2.0, wrong)


def naive(lengths: list[list[int]], threshold: float, reference: str) -> StragglerCounts:
    every = [length for group in lengths for length in group]
    kept = [group for group in lengths if len(group) >= 2]
    per_group = []
    for group in kept:
        median = statistics.median(group if reference == "group" else every)
        per_group.append(sum(length > 0 and length >= threshold * median for length in group))
    return counts(
        len(kept), sum(h > 0 for h in per_group), sum(map(len, kept)), sum(per_group), len(lengths) - len(kept)
    )


@given(RAGGED, st.sampled_from([1.1, 1.5, 2.0, 3.0]), st.sampled_from(["group", "step"]))
def test_ragged_counts_equal_a_loop_over_the_definition(
    lengths: list[list[int]], threshold: float, reference: Any
) -> None:
    assert straggler_counts(lengths, threshold, reference) == naive(lengths, threshold, reference)


@given(st.integers(0, 6), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from(["group", "step"]))
def test_arrays_lists_and_rows_agree(groups: int, size: int, seed: int, reference: Any) -> None:
    table = np.random.default_rng(seed).geometric(0.1, (groups, size))
    expected = straggler_counts(table, 2.0, reference)
    assert straggler_counts(table.tolist(), 2.0, reference) == expected
    assert straggler_counts(list(table), 2.0, reference) == expected
    assert straggler_counts(table.astype(np.float32), 2.0, reference) == expected


def test_observing_leaves_the_lengths_as_they_were() -> None:
    table = np.array([[9, 1, 5, 3]])
    straggler_counts(table, 2.0, "group")
    assert table.tolist() == [[9, 1, 5, 3]]
