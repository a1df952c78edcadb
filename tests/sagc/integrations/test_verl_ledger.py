from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagc.integrations.verl_ledger import StepLedger, Totals, lone_rows, real_rows, rollout_lengths, step_counters


def tags(**groups: list[int]) -> dict[str, dict[str, Any]]:
    """key -> tag of every rollout: one output each."""
    return {
        f"{uid}_{session}_0": {"response_len": length}
        for uid, lengths in groups.items()
        for session, length in enumerate(lengths)
    }


def test_every_group_is_seen_in_the_order_in_which_it_was_drawn() -> None:
    ledger = StepLedger()
    ledger.drew(["a", "b"])
    ledger.drew(["c"])  # a refill
    everything = tags(c=[7, 8], b=[3, 4], a=[1, 2])
    ledger.left("filtered", {"b"}, everything)
    ledger.left("trained", {"c", "a"}, everything)
    assert ledger.lengths == [[1, 2], [3, 4], [7, 8]]
    assert [group.fate for group in ledger.groups.values()] == ["trained", "filtered", "trained"]
    assert [group.wave for group in ledger.groups.values()] == [0, 0, 1]
    assert (ledger.refilled, ledger.rollouts, ledger.tokens, ledger.unseen) == (1, 6, 25, 0)


def test_the_first_fate_stays() -> None:
    ledger = StepLedger()
    ledger.drew(["a", "b"])
    assert ledger.left("filtered", {"a"}, tags(a=[5, 6], b=[1, 1])) == ["a"]
    assert ledger.left("surplus", {"a", "b"}, tags(b=[1, 1])) == ["b"]
    assert ledger.lengths == [[5, 6], [1, 1]]
    assert (ledger.count("filtered"), ledger.count("surplus")) == (1, 1)


def test_a_group_that_failed_altogether_is_empty_and_one_that_never_left_is_counted() -> None:
    ledger = StepLedger()
    ledger.drew(["a", "b"])
    ledger.left("failed", {"a"}, {})
    assert ledger.lengths == [[], []]
    assert (ledger.count("failed"), ledger.unseen, ledger.rollouts) == (1, 1, 0)


def test_a_rollout_of_several_outputs_is_as_long_as_all_of_them() -> None:
    keys = {"a_0_0": {"response_len": 3}, "a_0_1": {"response_len": 4}, "a_1_0": {"response_len": 9}}
    assert rollout_lengths(keys, {"a"}) == {"a": [7, 9]}


def test_sessions_are_ordered_by_number_and_not_by_text() -> None:
    keys = {f"a_{session}_0": {"response_len": session} for session in (10, 2, 0, 9)}
    assert rollout_lengths(keys, {"a"}) == {"a": [0, 2, 9, 10]}


def test_only_a_row_whose_group_has_one_rollout_is_lone() -> None:
    keys = ["a_0_0", "a_1_0", "b_0_0", "c_3_0", "c_3_1", "pad0_0_0"]
    padding = [{}, {}, {}, {}, {}, {"is_padding": True}]
    assert lone_rows(keys, padding) == ["b_0_0", "c_3_0", "c_3_1"]
    assert real_rows(keys, padding) == keys[:5]


def test_counters_say_where_every_group_and_row_went() -> None:
    ledger = StepLedger()
    ledger.drew(["a", "b", "c"])
    ledger.drew(["d", "e"])
    everything = tags(a=[1, 2], b=[3, 4], c=[5, 6], d=[7, 8], e=[9, 10])
    ledger.left("filtered", {"b"}, everything)
    ledger.left("trained", {"a", "c"}, everything)
    ledger.left("surplus", {"d", "e"}, everything)
    rows = ["a_0_0", "a_1_0", "c_0_0", "c_1_0", "pad_0_0", "pad_1_0"]
    counters = step_counters(ledger, rows, [{}, {}, {}, {}, {"is_padding": True}, {"is_padding": True}])
    assert counters == {
        "prompts": 5,
        "rollouts": 10,
        "generated_tokens": 55,
        "trained_groups": 2,
        "trained_rows": 4,
        "padded_rows": 2,
        "filtered_groups": 1,
        "failed_groups": 0,
        "surplus_groups": 2,
        "unseen_groups": 0,
        "refilled_prompts": 2,
    }


@given(
    groups=st.lists(st.lists(st.integers(0, 500), max_size=6), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_nothing_is_lost_in_whatever_order_groups_leave(groups: list[list[int]], order: Any) -> None:
    ledger = StepLedger()
    uids = [f"u{number}" for number in range(len(groups))]
    ledger.drew(uids)
    everything = tags(**dict(zip(uids, groups, strict=True)))
    leaving = uids[:]
    order.shuffle(leaving)
    for uid in leaving:
        ledger.left("trained", {uid}, everything)
    assert ledger.lengths == groups
    totals = Totals()
    totals.add(ledger)
    assert totals == Totals(steps=1, prompts=len(groups), rollouts=sum(map(len, groups)), tokens=ledger.tokens)


def test_a_tag_without_a_length_is_an_error() -> None:
    with pytest.raises(KeyError, match="response_len"):
        rollout_lengths({"a_0_0": {}}, {"a"})
