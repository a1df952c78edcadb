from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sagc.config import SagcConfig
from sagc.controller import SagcPolicy, best_candidate, candidate_risks, decide, init, next_group_size, update
from sagc.errors import ObservationError, StateError
from sagc.protocol import Policy
from sagc.state import SagcState
from sagc.types import Observation

CONFIG = SagcConfig(candidates=(4, 8, 16), budget=0.25, threshold=2.0)
CALM = {size: [[10] * size] * (64 // size) for size in (4, 8, 16)}
STALLED = {size: [[10] * (size - 1) + [90]] * (64 // size) for size in (4, 8, 16)}


def run(config: SagcConfig, steps: int, lengths: dict[int, list[list[int]]]) -> list[SagcState]:
    _, state = init(config)
    states = [state]
    for _ in range(steps):
        _, state = update(config, state, Observation(lengths[state.group_size]))
        states.append(state)
    return states


def step_of(group_size: int, hits_per_group: list[int]) -> Observation:
    """64 rollouts of length 10, of which `hits_per_group` are 20: exactly twice the median, so a hit."""
    hits = hits_per_group + [0] * (64 // group_size - len(hits_per_group))
    return Observation([[20] * hit + [10] * (group_size - hit) for hit in hits])


# The order of one step, by hand. Candidates 4, 8, 16 have the utilities log g / log 16 = 1/2, 3/4, 1; budget 1/4,
# eta 1/2, lambda_1 = 1, gamma 9/10, prior 2 of 40, hysteresis 1/20, 64 rollouts a step. In each step Z comes first,
# then s and n, then lambda with this Z, then G with this q = (s + 2) / (n + 40) and this lambda:
#
#   G_t  Z    s <- .9 s + h            n <- .9 n + 64        lambda             U - lambda p at 4, 8, 16   decision
#   8    1/8  0 + 2 = 2                64                    1 - 1/16 = 15/16   .3639 .4975 .5630   gain .0655: 16
#   16   3/4  1.8 + 9 = 10.8           57.6 + 64 = 121.6     15/16 + 1/4        .1662 .1762 .1296   gain .0465: stay
#   16   1/4  9.72 + 6 = 15.72         173.44                19/16 + 0          .1521 .1561 .1092   gain .0469: stay
#   16   1/4  14.148 + 7 = 21.148      220.096               19/16 + 0          .1304 .1259 .0798   gain .0507: 4
#   4    0    19.0332 + 0              262.0864              19/16 - 1/8        .2336 .2840 .2723   gain .0504: 8
#   8    3/8  17.12988 + 5 = 22.12988  299.87776             17/16 + 1/16       .2130 .2492 .2213   present best
#   8    3/4  19.916892 + 8            333.889984            9/8 + 1/4          .1100 .0806 -.0129  gain .0294: stay
#
# The trace was searched for: deciding with the old price or the old posterior, discounting after adding, not
# discounting, Z counted in rollouts, a prior that is discounted, or no hysteresis each give other group sizes.
GOLDEN = [
    # G_t, hits in each straggler group, s, n, lambda_{t+1}, G_{t+1}
    (8, [2], 2.0, 64.0, 15 / 16, 16),
    (16, [4, 4, 1], 10.8, 121.6, 19 / 16, 16),
    (16, [6], 15.72, 173.44, 19 / 16, 16),
    (16, [7], 21.148, 220.096, 19 / 16, 4),
    (4, [], 19.0332, 262.0864, 17 / 16, 8),
    (8, [3, 1, 1], 22.12988, 299.87776, 9 / 8, 8),
    (8, [2, 2, 1, 1, 1, 1], 27.916892, 333.889984, 11 / 8, 8),
]


def test_golden_trace_fixes_the_order_of_a_step() -> None:
    decision, state = init(CONFIG)
    assert (decision.group_size, state.price) == (8, 1.0)
    for group_size, hits, s, n, price, following in GOLDEN:
        assert state.group_size == group_size
        decision, state = update(CONFIG, state, step_of(group_size, hits))
        assert state.posterior == pytest.approx({"hits": s, "rollouts": n}, abs=1e-12)
        assert state.price == pytest.approx(price, abs=1e-12)
        assert decision.group_size == state.group_size == following


def test_init_plays_the_size_and_price_of_the_config() -> None:
    decision, state = init(replace(CONFIG, initial_group_size=4, initial_price=0.5))
    assert decision.group_size == 4
    assert decision.num_prompts is None
    assert not decision.budget_infeasible
    assert state.price == 0.5
    assert state.dwell_steps == 0


def test_a_calm_run_ends_at_the_largest_size_and_a_stalled_one_at_the_smallest() -> None:
    assert run(CONFIG, 30, CALM)[-1].group_size == 16
    assert run(CONFIG, 30, CALM)[-1].price == 0.0
    assert run(CONFIG, 30, STALLED)[-1].group_size == 4


def test_one_prompt_moves_the_price_by_a_whole_event() -> None:
    _, state = init(CONFIG)
    _, stalled = update(CONFIG, state, Observation(np.array([[10] * 7 + [20]])))
    assert stalled.price == pytest.approx(1 + 0.5 * 0.75)


@pytest.mark.parametrize("budget", [1e-9, 1 - 1e-9])
def test_budgets_near_the_ends_keep_their_direction(budget: float) -> None:
    config = replace(CONFIG, budget=budget)
    stalled, calm = run(config, 10, STALLED), run(config, 10, CALM)
    assert all(later.price > earlier.price for earlier, later in itertools.pairwise(stalled))
    assert all(later.price < earlier.price or later.price == 0 for earlier, later in itertools.pairwise(calm))


@pytest.mark.parametrize("lengths", [[], [[], []], [[7], [900]], np.empty((0, 8))])
def test_a_step_with_no_group_left_changes_only_counters(lengths: Any) -> None:
    state = run(replace(CONFIG, initial_price=0.1), 3, CALM)[-1]
    assert state.clipped > 0  # so that repeating it after the empty step would show
    before = decide(CONFIG, state)
    decision, after = update(CONFIG, state, Observation(lengths))
    assert decision == before
    assert replace(after, steps=state.steps, skipped_groups=0) == state
    assert after.steps == state.steps + 1
    assert after.skipped_groups == len(lengths)
    numbers = SagcPolicy(CONFIG).describe(after)
    assert "straggler_rate" not in numbers
    assert numbers["clipped"] == 0.0
    assert numbers["empty_steps"] == 1.0


def test_groups_of_one_beside_others_are_left_out_and_counted() -> None:
    _, state = init(CONFIG)
    _, plain = update(CONFIG, state, Observation([[10] * 8, [10] * 7 + [90]]))
    _, beside = update(CONFIG, state, Observation([[10] * 8, [4000], [10] * 7 + [90], []]))
    assert beside == replace(plain, skipped_groups=2)


def test_bad_lengths_leave_the_state_as_it_was() -> None:
    _, state = init(CONFIG)
    copy = replace(state, posterior=dict(state.posterior))
    with pytest.raises(ObservationError, match="nan"):
        update(CONFIG, state, Observation([[1.0, float("nan")]]))
    assert state == copy


@pytest.mark.parametrize(
    ("worth", "present", "hysteresis", "max_notches", "expected"),
    [
        pytest.param([1.0, 2.0, 2.0, 0.0], 3, 0.0, None, 1, id="ties go to the smaller size"),
        pytest.param([1.0, 1.0, 1.0], 1, 0.0, None, 1, id="a tie with the present size changes nothing"),
        pytest.param([0.75, 0.5], 1, 0.25, None, 1, id="a gain of exactly the hysteresis is not above it"),
        pytest.param([0.7500001, 0.5], 1, 0.25, None, 0, id="a gain just above it is"),
        pytest.param([9.0, 0.0, 1.0, 0.0, 8.0], 2, 0.0, 1, 2, id="the best lies out of reach"),
        pytest.param([9.0, 2.0, 1.0, 3.0, 8.0], 2, 0.0, 1, 3, id="the best within one notch"),
        pytest.param([9.0, 2.0, 1.0, 3.0, 8.0], 2, 0.0, 2, 0, id="the best within two notches"),
        pytest.param([5.0, 0.0, 9.0], 0, 0.0, 1, 0, id="nothing below the smallest"),
        pytest.param([9.0, 1.0, 5.0], 2, 0.0, 1, 2, id="nothing above the largest"),
        pytest.param([1.0, 3.0], 0, 0.0, 7, 1, id="more notches than candidates"),
    ],
)
def test_best_candidate(
    worth: list[float], present: int, hysteresis: float, max_notches: int | None, expected: int
) -> None:
    assert best_candidate(worth, present, hysteresis, max_notches) == expected


def test_a_price_of_zero_wants_the_largest_size_one_notch_at_a_time_if_told_so() -> None:
    config = replace(CONFIG, initial_price=0.0, initial_group_size=4)
    assert [state.group_size for state in run(config, 3, CALM)] == [4, 16, 16, 16]
    assert [state.group_size for state in run(replace(config, max_notches=1), 3, CALM)] == [4, 8, 16, 16]


def test_min_dwell_counts_the_steps_run_at_a_size() -> None:
    config = replace(CONFIG, initial_price=0.0, initial_group_size=4, min_dwell=3, max_notches=1)
    states = run(config, 7, CALM)
    assert [state.group_size for state in states] == [4, 4, 4, 8, 8, 8, 16, 16]
    assert [state.dwell_steps for state in states] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_a_step_with_no_group_left_does_not_count_towards_the_dwell() -> None:
    config = replace(CONFIG, initial_price=0.0, initial_group_size=4, min_dwell=2)
    _, state = init(config)
    for lengths in (CALM[4], [], [], []):
        _, state = update(config, state, Observation(lengths))
    assert state.group_size == 4
    assert update(config, state, Observation(CALM[4]))[0].group_size == 16


def test_hysteresis_holds_the_present_size_up_to_its_own_width() -> None:
    posterior = {"hits": 0.0, "rollouts": 0.0}
    price = 0.9375
    worth = [u - price * p for u, p in zip((0.5, 0.75, 1.0), candidate_risks(CONFIG, posterior), strict=True)]
    gain = worth[0] - worth[2]
    assert gain < 0  # 16 is worth more than 4 here: moving up from 4 gains -gain
    at = replace(CONFIG, initial_group_size=4, hysteresis=max(worth) - worth[0])
    below = replace(at, hysteresis=math.nextafter(at.hysteresis, 0))
    assert next_group_size(at, posterior, price, 4, 1) == 4
    assert next_group_size(below, posterior, price, 4, 1) != 4


def test_budget_is_called_infeasible_after_twenty_rising_steps_at_the_smallest_size() -> None:
    config = replace(CONFIG, initial_group_size=4)
    states = run(config, 25, STALLED)
    assert all(state.group_size == 4 for state in states)
    assert [decide(config, state).budget_infeasible for state in states] == [False] * 20 + [True] * 6
    assert SagcPolicy(config).describe(states[20])["budget_infeasible"] == 1.0


def test_a_price_that_does_not_rise_clears_the_infeasible_flag() -> None:
    config = replace(CONFIG, initial_group_size=4, infeasible_patience=2)
    state = run(config, 5, STALLED)[-1]
    assert decide(config, state).budget_infeasible
    at_budget = Observation([[10] * 4] * 12 + [[10, 10, 10, 90]] * 4)  # Z = 4 / 16 = the budget: the price stays
    assert not update(config, state, at_budget)[0].budget_infeasible
    assert update(config, state, Observation([]))[
        0
    ].budget_infeasible  # no group left: nothing is known to have changed


def test_a_rising_price_above_the_smallest_size_is_not_infeasible() -> None:
    config = replace(CONFIG, infeasible_patience=1, min_dwell=100)
    assert not any(decide(config, state).budget_infeasible for state in run(config, 10, STALLED))


def test_describe_names_what_chose_the_group_size() -> None:
    policy = SagcPolicy(CONFIG)
    _, state = policy.init()
    assert policy.describe(state) == {
        "group_size": 8.0,
        "dual_variable": 1.0,
        "clipped": 0.0,
        "price_updates": 0.0,
        "empty_steps": 0.0,
        "skipped_groups": 0.0,
        "dwell_steps": 0.0,
        "budget_infeasible": 0.0,
        "risk_4": pytest.approx(1 - 0.95**4),
        "risk_8": pytest.approx(1 - 0.95**8),
        "risk_16": pytest.approx(1 - 0.95**16),
        "posterior_hits": 0.0,
        "posterior_rollouts": 0.0,
    }
    _, state = policy.update(state, Observation(STALLED[8]))
    numbers = policy.describe(state)
    assert numbers["straggler_rate"] == 1.0
    assert numbers["dual_variable"] == 1.375
    assert numbers["price_updates"] == 1.0
    assert all(type(value) is float for value in numbers.values())


def test_describe_reports_the_clipped_amount_of_the_step() -> None:
    policy = SagcPolicy(replace(CONFIG, initial_price=0.1))
    _, state = policy.update(policy.init()[1], Observation(CALM[8]))
    assert policy.describe(state)["clipped"] == pytest.approx(0.025)


def test_the_policy_is_the_two_functions() -> None:
    policy: Policy[SagcState] = SagcPolicy(CONFIG)
    assert policy.init() == init(CONFIG)
    observation = Observation(STALLED[8])
    assert policy.update(policy.init()[1], observation) == update(CONFIG, init(CONFIG)[1], observation)


def test_a_state_saved_under_another_config_is_refused() -> None:
    saved = SagcPolicy(CONFIG).to_json(init(CONFIG)[1])
    with pytest.raises(StateError, match="resume with the settings of the saved run"):
        SagcPolicy(replace(CONFIG, budget=0.3)).from_json(saved)
    with pytest.raises(StateError, match="saved by policy 'sagc', got 'static'"):
        SagcPolicy(CONFIG).from_json({"policy": "static", "group_size": 8})


@pytest.mark.parametrize(
    "change",
    [
        {"group_size": 6},
        {"group_size": "8"},
        {"group_size": 8.0},
        {"price": -1.0},
        {"price": float("nan")},
        {"price": None},
        {"posterior": {"hits": 1.0}},
        {"posterior": {"hits": 1.0, "rollouts": "x"}},
        {"posterior": None},
        {"dwell_steps": -1},
        {"steps": True},
        {"straggler_rate": 1.5},
        {"clipped": float("inf")},
        {"extra": 1},
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    policy = SagcPolicy(CONFIG)
    saved = json.loads(json.dumps(policy.to_json(run(CONFIG, 3, STALLED)[-1])))
    assert policy.from_json(saved) == run(CONFIG, 3, STALLED)[-1]
    with pytest.raises(StateError, match="damaged"):
        policy.from_json({**saved, **change})
    key = next(iter(change))
    if key in saved:
        with pytest.raises(StateError, match="damaged.*" + key):
            policy.from_json({name: value for name, value in saved.items() if name != key})


def test_what_is_no_object_is_no_state() -> None:
    with pytest.raises(StateError, match=r"got \[1, 2\]"):
        SagcPolicy(CONFIG).from_json([1, 2])
