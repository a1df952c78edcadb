"""Advantages, masks and losses cost in proportion to the tokens: four times the rows, about four times the time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from baselines.algorithms import ALGORITHMS
from benchmarks.advantages import group_advantages
from benchmarks.engines.torch_cpu.losses import Denominators, policy_loss
from benchmarks.engines.torch_cpu.update import token_batch

ROWS, TIMES = 2048, 4
MOST = 1.6 * TIMES
"""Four times the work, with room for caches; quadratic cost would be 16 times."""
ROUNDS = 15


def advantages(rows: int) -> Callable[[], object]:
    rewards = np.random.default_rng(0).integers(0, 2, rows).astype(float)
    groups = np.repeat(np.arange(rows // 8), 8)
    return lambda: group_advantages(rewards, groups)


def masks(rows: int) -> Callable[[], object]:
    lengths = np.random.default_rng(0).integers(8, 64, rows)
    responses = [np.zeros(length, dtype=np.int64) for length in lengths]
    return lambda: token_batch([(1, 2, 3)] * rows, responses, 0)


def losses(algorithm: str) -> Callable[[int], Callable[[], object]]:
    def make(rows: int) -> Callable[[], object]:
        generator = torch.Generator().manual_seed(0)
        log_ratios = torch.randn(rows, 64, generator=generator) / 10
        mask = torch.rand(rows, 64, generator=generator) < 0.5
        sizes = Denominators(rollouts=rows, tokens=int(mask.sum()))
        weights = torch.randn(rows, generator=generator)
        return lambda: policy_loss(log_ratios, weights, mask, ALGORITHMS[algorithm], sizes)

    return make


@pytest.mark.parametrize(
    "make",
    [advantages, masks, losses("grpo"), losses("dapo")],
    ids=["advantages", "masks", "grpo loss", "dapo loss"],
)
def test_cost_is_linear_in_tokens(benchmark: BenchmarkFixture, make: Callable[[int], Callable[[], object]]) -> None:
    torch.set_num_threads(1)
    few, many = make(ROWS), make(TIMES * ROWS)
    seconds: dict[str, list[float]] = {"few": [], "many": []}

    def pair() -> None:
        for name, work in (("few", few), ("many", many)):  # interleaved, so that both meet the same machine
            begun = time.process_time()
            work()
            seconds[name].append(time.process_time() - begun)

    benchmark.pedantic(pair, rounds=ROUNDS, warmup_rounds=2)  # type: ignore[no-untyped-call]
    ratio = min(seconds["many"]) / min(seconds["few"])
    benchmark.extra_info["ratio"] = ratio
    print(f"{TIMES} times the rows take {ratio:.2f} times the time")
    assert ratio < MOST
