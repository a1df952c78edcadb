"""Cost of one controller `update`: under 200 us for a (1,024 x 8) array, under 1 ms for ragged lists of that size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sagc import Observation, SagcConfig, init, update

# Process time and the fastest round: what others do to a shared core is no cost of the controller.
pytestmark = pytest.mark.benchmark(timer=time.process_time)
ARRAY_LIMIT_S = 200e-6
LISTS_LIMIT_S = 1e-3


def _table() -> Any:
    return np.random.default_rng(0).lognormal(5, 0.6, (1024, 8)).astype(np.int64)


def _ragged() -> list[list[int]]:
    """1,024 groups of 5 to 11 rollouts, 8 on average, as lists."""
    random = np.random.default_rng(1)
    return [random.lognormal(5, 0.6, size).astype(int).tolist() for size in random.integers(5, 12, 1024)]


def _fastest_s(benchmark: BenchmarkFixture, lengths: Any, reference: str) -> float:
    config = SagcConfig.from_mapping(
        {"candidates": [4, 8, 16, 32], "budget": 0.25, "threshold": 2.0, "reference": reference}
    )
    _, state = init(config)
    decision, _ = benchmark(update, config, state, Observation(lengths))
    assert decision.group_size in config.candidates
    assert benchmark.stats is not None, "the limits need the measurement: run without --benchmark-disable"
    fastest: float = benchmark.stats.stats.min
    return fastest


@pytest.mark.parametrize("reference", ["group", "step"])
def test_update_with_an_array(benchmark: BenchmarkFixture, reference: str) -> None:
    assert _fastest_s(benchmark, _table(), reference) < ARRAY_LIMIT_S


@pytest.mark.parametrize("reference", ["group", "step"])
def test_update_with_lists_of_one_size(benchmark: BenchmarkFixture, reference: str) -> None:
    assert _fastest_s(benchmark, _table().tolist(), reference) < LISTS_LIMIT_S


@pytest.mark.parametrize("reference", ["group", "step"])
def test_update_with_ragged_lists(benchmark: BenchmarkFixture, reference: str) -> None:
    assert _fastest_s(benchmark, _ragged(), reference) < LISTS_LIMIT_S
