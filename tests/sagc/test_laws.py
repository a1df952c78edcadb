"""Laws of the controller on 1,000 random configs and traces each; nothing here knows a group size in advance."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagc.config import SagcConfig
from sagc.controller import SagcPolicy, init, update
from sagc.risk import RISK_MODELS
from sagc.state import SagcState
from sagc.types import Decision, Observation
from sagc.utility import UTILITIES

thousand = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def configs(draw: st.DrawFn) -> SagcConfig:
    candidates = draw(st.lists(st.integers(2, 40), min_size=2, max_size=6, unique=True))
    threshold = draw(st.floats(1.01, 6))
    reference = draw(st.sampled_from(["group", "step"]))
    if 2 in candidates and threshold >= 2:
        reference = "step"
    return SagcConfig.from_mapping(
        {
            "candidates": candidates,
            "budget": draw(st.floats(0.001, 0.999)),
            "threshold": threshold,
            "reference": reference,
            "risk_model": draw(st.sampled_from(list(RISK_MODELS))),
            "utility": draw(st.sampled_from(list(UTILITIES))),
            "prior_hits": draw(st.floats(0.01, 5)),
            "prior_rollouts": draw(st.floats(6, 100)),
            "forgetting": draw(st.floats(0, 1)),
            "dual_step_size": draw(st.floats(0.01, 5)),
            "initial_price": draw(st.floats(0, 10)),
            "initial_group_size": draw(st.sampled_from(candidates)),
            "hysteresis": draw(st.sampled_from([0.0, 0.05, 0.3])),
            "min_dwell": draw(st.integers(1, 4)),
            "max_notches": draw(st.sampled_from([None, 1, 2])),
            "infeasible_patience": draw(st.integers(1, 5)),
        }
    )


class World:
    """Rollout lengths of each step as a function of the step and G: a heavy tail that comes and goes."""

    def __init__(self, seed: int, tails: list[float | None], ragged: bool) -> None:
        self.seed, self.tails, self.ragged = seed, tails, ragged

    def __repr__(self) -> str:
        return f"World({self.seed}, {self.tails}, {self.ragged})"

    def lengths(self, step: int, group_size: int) -> Any:
        tail = self.tails[step]
        if tail is None:  # nothing came back
            return []
        random = np.random.default_rng([self.seed, step])
        groups = max(1, 48 // group_size)
        table = random.integers(0, 12, (groups, group_size))
        table[random.random(table.shape) < tail] += 60
        if not self.ragged:
            return table
        kept = random.integers(0, group_size + 1, groups)  # rollouts that failed leave smaller groups
        return [row[:size].tolist() for row, size in zip(table, kept, strict=True)]


worlds = st.builds(
    World,
    st.integers(0, 2**32 - 1),
    st.lists(st.one_of(st.sampled_from([0.0, 0.02, 0.1, 0.5]), st.none()), min_size=1, max_size=15),
    st.booleans(),
)


def trace(config: SagcConfig, world: World) -> list[tuple[Decision, SagcState]]:
    decision, state = init(config)
    steps = [(decision, state)]
    for step in range(len(world.tails)):
        lengths = world.lengths(step, decision.group_size)
        decision, state = update(config, state, Observation(lengths))
        steps.append((decision, state))
    return steps


@thousand
@given(configs(), worlds)
def test_price_size_and_move_keep_their_bounds_and_the_identity_holds(config: SagcConfig, world: World) -> None:
    steps = trace(config, world)
    rates, clipped = [], 0.0
    for (decision, before), (following, after) in itertools.pairwise(steps):
        assert after.price >= 0
        assert following.group_size == after.group_size
        moved = config.candidates.index(following.group_size) - config.candidates.index(decision.group_size)
        assert abs(moved) <= (config.max_notches or len(config.candidates))
        if after.price_updates == before.price_updates:
            assert (after.price, after.group_size, after.posterior) == (
                before.price,
                before.group_size,
                before.posterior,
            )
            continue
        assert after.straggler_rate is not None
        if after.straggler_rate >= config.budget:
            assert after.price >= before.price
        if after.straggler_rate <= config.budget:
            assert after.price <= before.price
        if moved:
            assert before.dwell_steps + 1 >= config.min_dwell
        rates.append(after.straggler_rate)
        clipped += SagcPolicy(config).describe(after)["clipped"]
    final = steps[-1][1]
    assert final.price_updates == len(rates)
    if rates:
        bound = (final.price - config.initial_price - clipped) / (config.dual_step_size * len(rates))
        assert sum(rates) / len(rates) - config.budget == pytest.approx(bound, abs=1e-9)


@thousand
@given(configs(), worlds)
def test_restoring_at_any_step_changes_nothing_later(config: SagcConfig, world: World) -> None:
    expected = trace(config, world)
    policy = SagcPolicy(SagcConfig.from_mapping(json.loads(json.dumps(config.to_json()))))
    state = init(config)[1]
    for step in range(len(world.tails)):  # restored before every step, so at any of them
        state = policy.from_json(json.loads(json.dumps(policy.to_json(state))))
        assert state == expected[step][1]
        decision, state = policy.update(state, Observation(world.lengths(step, state.group_size)))
        assert (decision, state) == expected[step + 1]


@thousand
@given(configs(), worlds, st.integers(0, 2**32 - 1))
def test_permuting_prompts_and_their_rollouts_changes_nothing(config: SagcConfig, world: World, seed: int) -> None:
    random, state = Random(seed), init(config)[1]
    for step in range(len(world.tails)):
        lengths = [list(map(int, group)) for group in world.lengths(step, state.group_size)]
        shuffled = [random.sample(group, len(group)) for group in random.sample(lengths, len(lengths))]
        expected = update(config, state, Observation(lengths))
        assert update(config, state, Observation(shuffled)) == expected
        state = expected[1]


def reference_step(config: SagcConfig, state: dict[str, Any], lengths: list[list[int]]) -> None:
    """Design 2.1 to 2.4 for the default risk model and utility, written out again with loops and no numpy."""
    every = [length for group in lengths for length in group]
    events, hits, rollouts = [], 0, 0
    for group in (group for group in lengths if len(group) > 1):
        median = statistics.median(group if config.reference == "group" else every)
        over = [length for length in group if length > 0 and length >= config.threshold * median]
        events.append(bool(over))
        hits, rollouts = hits + len(over), rollouts + len(group)
    if not events:
        return
    state["s"] = config.forgetting * state["s"] + hits
    state["n"] = config.forgetting * state["n"] + rollouts
    state["price"] = max(0.0, state["price"] + config.dual_step_size * (sum(events) / len(events) - config.budget))
    q = (state["s"] + config.prior_hits) / (state["n"] + config.prior_rollouts)
    state["dwell"] += 1
    if state["dwell"] < config.min_dwell:
        return
    sizes = config.candidates
    worth = {g: math.log(g) / math.log(sizes[-1]) - state["price"] * (1 - (1 - q) ** g) for g in sizes}
    reach = config.max_notches or len(sizes)
    near = [g for g in sizes if abs(sizes.index(g) - sizes.index(state["G"])) <= reach]
    best = min(near, key=lambda g: (-worth[g], g))
    if worth[best] - worth[state["G"]] > config.hysteresis:
        state["G"], state["dwell"] = best, 0


@thousand
@given(configs(), worlds)
def test_decisions_equal_a_second_writing_of_the_equations(config: SagcConfig, world: World) -> None:
    config = SagcConfig.from_mapping({**config.to_json(), "risk_model": "per_rollout", "utility": "log"})
    second: dict[str, Any] = {
        "G": config.initial_group_size,
        "price": config.initial_price,
        "s": 0.0,
        "n": 0.0,
        "dwell": 0,
    }
    state = init(config)[1]
    for step in range(len(world.tails)):
        lengths = [list(map(int, group)) for group in world.lengths(step, state.group_size)]
        reference_step(config, second, lengths)
        decision, state = update(config, state, Observation(lengths))
        assert decision.group_size == second["G"]
        assert state.price == pytest.approx(second["price"], abs=1e-12)
