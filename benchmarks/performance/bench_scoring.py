r"""How fast outputs are scored, beside plain math-verify in the same run, and what many at once or a hanging one cost.

pytest benchmarks/performance/bench_scoring.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import math_verify  # type: ignore[import-untyped]
import pytest

from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.scoring import score_in_this_process

Item = tuple[str, str, str]
INTEGERS_PER_S = 50_000
ONE_PROCESS, TWO_WORKERS = 6.0, 9.0
"""At least these times the speed of plain math-verify."""
REASONING = r"We add \frac{1}{2} and x, then simplify step by step until nothing is left to do. " * 24
"""Two thousand characters: a short output; those of reasoning models are ten times as long."""


def integers(count: int, seed: int, reasoning: str = REASONING) -> list[Item]:
    """Integer answers, a quarter of them right, no two outputs equal."""
    rng = random.Random(seed)
    golds = [rng.randrange(1000) for _ in range(count)]
    answers = [gold if rng.random() < 0.25 else rng.randrange(1000) for gold in golds]
    return [
        ("integer", str(gold), rf"{number}. {reasoning} So the answer is $\boxed{{{answer}}}$.")
        for number, (gold, answer) in enumerate(zip(golds, answers, strict=True))
    ]


def latex(count: int, seed: int, reasoning: str = REASONING) -> list[Item]:
    """Fractions, roots, polynomials and pairs, a quarter of them right and written another way, no two equal."""
    rng = random.Random(seed)
    items = []
    for number in range(count):
        a, b = number + 2, rng.randrange(1000, 2000)
        gold, same = (
            (rf"\frac{{{a}}}{{{b}}}", rf"\frac{{{2 * a}}}{{{2 * b}}}"),
            (rf"{a}\sqrt{{{b}}}", rf"\sqrt{{{b}}}\cdot {a}"),
            (f"{a}x^2+{b}x", f"{b}x+{a}x^2"),
            (rf"\left({a}, \frac{{{a}}}{{{b}}}\right)", rf"({a}, \frac{{{2 * a}}}{{{2 * b}}})"),
        )[number % 4]
        answer = same if rng.random() < 0.25 else gold.replace(str(b), str(b + 1))
        items.append(("latex", gold, rf"{number}. {reasoning} So the answer is $\boxed{{{answer}}}$."))
    return items


def roots(count: int, seed: int) -> list[Item]:
    """Answers that only math-verify can decide, all of them right."""
    return [
        ("latex", rf"{n}\sqrt{{{seed + 2}}}", rf"\boxed{{\sqrt{{{seed + 2}}}\cdot {n}}}") for n in range(2, count + 2)
    ]


def mixed(count: int, seed: int, reasoning: str = REASONING) -> list[Item]:
    """90 % integers, 10 % LaTeX, shuffled."""
    items = integers(count - count // 10, seed, reasoning) + latex(count // 10, seed, reasoning)
    random.Random(seed).shuffle(items)
    return items


def plain(items: Sequence[Item]) -> list[bool]:
    """Scores as math-verify's own documentation has it."""
    return [
        bool(math_verify.verify(math_verify.parse(f"${gold}$"), math_verify.parse(text))) for _, gold, text in items
    ]


def ours(items: Sequence[Item]) -> list[bool]:
    return [score_in_this_process(*item).right for item in items]


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@pytest.fixture(scope="module")
def pool() -> Iterator[ScoringPool]:
    with ScoringPool(workers=2) as workers:
        workers.score_many(roots(20, seed=99) + latex(200, seed=99))  # both have loaded, and know the grammar
        yield workers


def test_integers_in_one_process(benchmark: Any) -> None:
    items = integers(5_000, seed=0)
    benchmark.pedantic(ours, args=(items,), rounds=20, warmup_rounds=2)
    rate = len(items) / benchmark.stats.stats.median
    benchmark.extra_info["items_per_s"] = rate
    assert rate >= INTEGERS_PER_S


@pytest.mark.parametrize("reasoning", [REASONING, ""], ids=["reasoning", "bare"])
def test_mixed_against_plain_math_verify(benchmark: Any, pool: ScoringPool, reasoning: str) -> None:
    """Interleaved, so that the machine's load meets all three alike; fresh items each round, so that no cache helps."""
    rounds, size = 5, 500
    plain(mixed(200, seed=98))
    ours(mixed(200, seed=97))
    times: dict[str, list[float]] = {"plain": [], "one": [], "two": []}
    for number in range(rounds):
        items = mixed(size, seed=number, reasoning=reasoning)
        verdicts: list[bool] = []
        times["plain"].append(seconds(lambda items=items: plain(items)))  # type: ignore[misc]
        times["one"].append(seconds(lambda items=items, to=verdicts: to.extend(ours(items))))  # type: ignore[misc]
        times["two"].append(seconds(lambda items=items: pool.score_many(items)))  # type: ignore[misc]
        assert verdicts == plain(items)  # faster, and the same
    one, two = (sum(times["plain"]) / sum(times[name]) for name in ("one", "two"))
    benchmark.extra_info.update(plain_items_per_s=rounds * size / sum(times["plain"]), one_process=one, two_workers=two)
    items = mixed(size, seed=rounds, reasoning=reasoning)
    benchmark.pedantic(pool.score_many, args=(items,), rounds=3)
    assert one >= ONE_PROCESS
    assert two >= TWO_WORKERS


def test_10000_answers_at_once_give_no_false_timeout(benchmark: Any, pool: ScoringPool) -> None:
    """All wait for the same two workers: a limit that began in the queue would stop most of them."""
    items = roots(10_000, seed=1)
    verdicts = benchmark.pedantic(pool.score_many, args=(items,), rounds=1)
    assert {verdict.status for verdict in verdicts} == {"answered"}


def test_a_hanging_answer_ends_at_its_limit(benchmark: Any) -> None:
    limit_s = 1.0
    with ScoringPool(workers=2, limit_s=limit_s) as pool:
        pool.score_many(roots(20, seed=99))
        hanging = [("latex", "70", r"\boxed{9^{9^{9^{9}}}}")]
        neighbours = roots(20, seed=2)
        verdicts = benchmark.pedantic(pool.score_many, args=(hanging + neighbours,), rounds=1)
        assert [verdict.status for verdict in verdicts] == ["timeout"] + ["answered"] * len(neighbours)
        assert benchmark.stats.stats.max < limit_s + 1
