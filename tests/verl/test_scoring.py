"""The scorer in a Ray actor, where verl calls it as the training reward, and with the antlr that hydra forces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)

import ray

from benchmarks.evaluation.pool import LIMIT_S
from benchmarks.evaluation.scoring import score

ITEMS = {
    ("integer", "70", r"so \boxed{070}"): (True, "answered"),
    ("integer", "70", r"so \boxed{71}"): (False, "answered"),
    ("latex", r"\frac{\sqrt{3}}{3}", r"\boxed{\frac{1}{\sqrt{3}}}"): (True, "answered"),  # math-verify decides
    ("latex", r"\sqrt{2}", "no box at all"): (False, "no_answer"),
    ("latex", "70", r"\boxed{9^{9^{9^{9}}}}"): (False, "timeout"),
}


@pytest.fixture(scope="module")
def actor() -> Iterator[Any]:
    class Scorer:
        def score(self, item: tuple[str, str, str]) -> tuple[bool, str]:
            verdict = score(*item)
            return verdict.right, verdict.status

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray.remote(Scorer).remote()
    ray.shutdown()


@pytest.mark.parametrize("item", ITEMS, ids=[f"{item[0]} {verdict[1]}" for item, verdict in ITEMS.items()])
def test_a_ray_actor_scores_as_any_process_does(actor: Any, item: tuple[str, str, str]) -> None:
    ray.get(actor.score.remote(next(iter(ITEMS))))  # it has started
    began = time.perf_counter()
    assert ray.get(actor.score.remote(item)) == ITEMS[item]
    # The worker of the scorer starts with the first answer that it must compare.
    assert time.perf_counter() - began < LIMIT_S + 30.0
