from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from sagc.config import SagcConfig
from sagc.errors import ConfigError

TASK: dict[str, Any] = {"candidates": [4, 8, 16, 32], "budget": 0.25, "threshold": 2.0}


def test_defaults_are_those_of_the_design() -> None:
    config = SagcConfig.from_mapping(TASK)
    assert config.to_json() == {
        "candidates": [4, 8, 16, 32],
        "budget": 0.25,
        "threshold": 2.0,
        "reference": "group",
        "risk_model": "per_rollout",
        "prior_hits": 2.0,
        "prior_rollouts": 40.0,
        "forgetting": 0.9,
        "utility": "log",
        "dual_step_size": 0.5,
        "initial_price": 1.0,
        "initial_group_size": 8,
        "hysteresis": 0.05,
        "min_dwell": 1,
        "max_notches": None,
        "infeasible_patience": 20,
        "rollouts_per_step": None,
    }


def test_json_round_trip_gives_an_equal_config() -> None:
    config = SagcConfig.from_mapping({**TASK, "max_notches": 1, "utility": "sqrt", "rollouts_per_step": 64})
    assert SagcConfig.from_mapping(json.loads(json.dumps(config.to_json()))) == config


def test_candidates_are_stored_sorted_whatever_their_order() -> None:
    assert SagcConfig(candidates=(16, 4, 8), budget=0.25, threshold=2.0).candidates == (4, 8, 16)


def test_numpy_numbers_become_plain_ones() -> None:
    sizes: Any = [np.int64(8), np.int32(4)]
    config = SagcConfig(candidates=sizes, budget=np.float64(0.5), threshold=2)
    assert json.loads(json.dumps(config.to_json()))["candidates"] == [4, 8]
    assert type(config.budget) is float
    assert type(config.threshold) is float
    assert type(config.candidates[0]) is int


@pytest.mark.parametrize("budget", [1e-12, 1 - 1e-12])
def test_budgets_near_the_ends_are_accepted(budget: float) -> None:
    assert SagcConfig.from_mapping({**TASK, "budget": budget}).budget == budget


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": 0}, r"budget must be a finite number inside \(0, 1\), got 0; "),
        ({"budget": 1}, "budget must be"),
        ({"budget": float("nan")}, "budget must be .* got nan"),
        ({"budget": True}, "budget must be .* got True"),
        ({"budget": "0.25"}, "budget must be .* got '0.25'"),
        ({"budget": None}, "budget must be .* got None"),
        ({"budget": 10**400}, "budget must be"),
        ({"threshold": 1}, "threshold must be a finite number above 1, got 1"),
        ({"threshold": float("inf")}, "threshold must be .* got inf"),
        ({"candidates": []}, "at least two group sizes"),
        ({"candidates": [8]}, "at least two group sizes, got .* StaticPolicy"),
        ({"candidates": [4, 8, 8]}, "candidates must be distinct"),
        ({"candidates": [1, 8]}, "no advantage to learn from"),  # known fault B01: a group of one
        ({"candidates": [0, 8]}, "each candidate must be a whole number from 1"),
        ({"candidates": [-4, 8]}, "each candidate"),
        ({"candidates": [4, True]}, "each candidate .* got True"),
        ({"candidates": [4, 8.0]}, "each candidate .* got 8.0"),
        ({"candidates": "48"}, "candidates must be a list"),
        ({"candidates": 8}, "candidates must be a list"),
        ({"initial_group_size": 6}, r"one of the candidates \(4, 8, 16, 32\), got 6"),
        ({"initial_group_size": True}, "initial_group_size must be a whole number"),
        ({"reference": "groups"}, "did you mean 'group'"),
        ({"reference": ["group"]}, "reference must be a known name"),
        ({"risk_model": "per_rolout"}, "did you mean 'per_rollout'.*known: per_rollout, pooled, beta_per_size"),
        ({"utility": "logg"}, "did you mean 'log'.*known: log, inverse, sqrt, inverse_sqrt"),
        ({"utility": None}, "utility must be a known name"),
        ({"prior_hits": 0}, "prior_hits must be"),
        ({"prior_hits": 40}, r"prior_rollouts must be above prior_hits \(40.0\)"),
        ({"forgetting": 1.01}, r"forgetting must be a finite number in \[0, 1\]"),
        ({"dual_step_size": 0}, "dual_step_size must be"),
        ({"dual_step_size": "0.5"}, "dual_step_size must be"),
        ({"initial_price": -0.1}, "initial_price must be"),
        ({"hysteresis": float("nan")}, "hysteresis must be"),
        ({"min_dwell": 0}, "min_dwell must be"),
        ({"max_notches": 0}, "max_notches must be"),
        ({"infeasible_patience": 1.5}, "infeasible_patience must be"),
        ({"rollouts_per_step": False}, "rollouts_per_step must be"),
        ({"bugdet": 0.2}, "setting must be a known name, got 'bugdet'; did you mean 'budget'"),
    ],
)
def test_bad_settings_are_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SagcConfig.from_mapping({**TASK, **changes})


def test_missing_task_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="settings must include candidates, threshold, got budget"):
        SagcConfig.from_mapping({"budget": 0.25})


def test_a_candidate_of_two_needs_a_low_threshold_or_the_step_reference() -> None:
    two = {**TASK, "candidates": [2, 8]}
    with pytest.raises(ConfigError, match="a group of two can never straggle"):
        SagcConfig.from_mapping(two)
    with pytest.raises(ConfigError, match="a group of two can never straggle"):
        SagcConfig.from_mapping({**two, "threshold": 3.0})
    assert SagcConfig.from_mapping({**two, "threshold": 1.99}).candidates == (2, 8)
    assert SagcConfig.from_mapping({**two, "reference": "step"}).candidates == (2, 8)


def test_candidates_that_do_not_divide_the_rollouts_are_named_with_a_cure_that_works() -> None:
    with pytest.raises(ConfigError, match=r"rollouts_per_step \(60\), got \[8, 16, 32\].*rollouts_per_step to 64"):
        SagcConfig.from_mapping({**TASK, "rollouts_per_step": 60})
    assert SagcConfig.from_mapping({**TASK, "rollouts_per_step": 64}).rollouts_per_step == 64


def test_every_setting_changes_the_fingerprint() -> None:
    other = {
        "candidates": [8, 16],
        "budget": 0.3,
        "threshold": 3.0,
        "reference": "step",
        "risk_model": "pooled",
        "prior_hits": 1.0,
        "prior_rollouts": 20.0,
        "forgetting": 0.8,
        "utility": "sqrt",
        "dual_step_size": 0.1,
        "initial_price": 0.0,
        "initial_group_size": 16,
        "hysteresis": 0.0,
        "min_dwell": 2,
        "max_notches": 1,
        "infeasible_patience": 5,
        "rollouts_per_step": 64,
    }
    assert other.keys() == {field.name for field in dataclasses.fields(SagcConfig)}
    prints = {SagcConfig.from_mapping({**TASK, name: value}).fingerprint for name, value in other.items()}
    assert len(prints | {SagcConfig.from_mapping(TASK).fingerprint}) == len(other) + 1
    assert SagcConfig.from_mapping(TASK).fingerprint == SagcConfig.from_mapping({**TASK, "budget": 0.25}).fingerprint
