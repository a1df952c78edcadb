from __future__ import annotations

import doctest
import json
from dataclasses import replace

import numpy as np
import pytest

import sagc.group_size
from sagc.config import SagcConfig
from sagc.controller import SagcPolicy
from sagc.errors import ObservationError, StateError
from sagc.group_size import GroupSizeController
from sagc.types import Observation

CONFIG = SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=2.0)


def lengths(step: int, group_size: int) -> list[list[int]]:
    tail = 0.02 if step < 15 else 0.2
    random = np.random.default_rng(step)
    table = random.integers(8, 12, (64 // group_size, group_size))
    table[random.random(table.shape) < tail] += 50
    listed: list[list[int]] = table.tolist()
    return listed


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(sagc.group_size) == doctest.TestResults(failed=0, attempted=5)


def test_the_wrapper_decides_as_the_policy_does() -> None:
    controller, policy = GroupSizeController(CONFIG), SagcPolicy(CONFIG)
    decision, state = policy.init()
    sizes = []
    for step in range(30):
        assert controller.decision == decision
        assert controller.group_size == decision.group_size
        assert controller.describe() == policy.describe(state)
        seen = lengths(step, decision.group_size)
        decision, state = policy.update(state, Observation(seen))
        assert controller.observe(seen) == decision
        sizes.append(decision.group_size)
    assert len(set(sizes)) >= 3  # the trace is not a trivial one


def test_a_restored_wrapper_goes_on_as_if_never_stopped() -> None:
    original = GroupSizeController(CONFIG)
    for step in range(30):
        restored = GroupSizeController(CONFIG)
        restored.load_state_dict(json.loads(json.dumps(original.state_dict())))
        assert restored.decision == original.decision
        for later in range(step, 30):
            restored.observe(lengths(later, restored.group_size))
        original.observe(lengths(step, original.group_size))
        if step == 0:
            final = restored.state_dict()
        assert restored.state_dict() == final
    assert original.state_dict() == final


def test_a_restored_wrapper_still_says_that_the_budget_is_infeasible() -> None:
    config = replace(CONFIG, initial_group_size=4, infeasible_patience=1)
    original, restored = GroupSizeController(config), GroupSizeController(config)
    assert original.observe([[10, 10, 10, 90]] * 16).budget_infeasible
    restored.load_state_dict(original.state_dict())
    assert restored.decision.budget_infeasible


def test_refused_input_leaves_the_wrapper_as_it_was() -> None:
    controller = GroupSizeController(CONFIG)
    controller.observe(lengths(0, controller.group_size))
    before = controller.state_dict()
    with pytest.raises(ObservationError):
        controller.observe([[1, -1]])
    with pytest.raises(StateError):
        controller.load_state_dict(GroupSizeController(replace(CONFIG, budget=0.5)).state_dict())
    assert controller.state_dict() == before
    assert controller.config is CONFIG
