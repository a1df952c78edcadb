"""Outputs made to break a scorer: none may crash it, hang it, or leave a process behind."""

from __future__ import annotations

import time

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.evaluation.pool import ScoringPool

LIMIT_S = 0.5
AT_ONCE = 50
"""Strings of one hypothesis example."""

TOWERS = st.integers(2, 6).map(lambda n: "9^{" * n + "9" + "}" * n)
FRAGMENTS = (
    r"\frac{1}{2} \sqrt{ \text{ \left( \{ { } ^ _ ! % \% , $ x = 7 \boxed{ \boxed \fbox{ </think> <think> (10^9)! "
    r"\binom{999999}{5} \int_0^1 Answer:"
)
LATEX = st.sampled_from([*FRAGMENTS.split(), " ", "Answer: B"])
CONTROL = st.text(st.characters(min_codepoint=0, max_codepoint=31), max_size=8)
UNICODE = st.text(max_size=12)  # surrogates left out: the next strategy has one
SURROGATE = st.just("\ud800")
PIECES = st.lists(st.one_of(TOWERS, LATEX, CONTROL, UNICODE, SURROGATE), max_size=12).map("".join)
REPEATED = st.builds(
    lambda piece, size: piece * (size // max(len(piece), 1)), PIECES, st.sampled_from([10, 1000, 100_000])
)
OUTPUTS = st.one_of(
    PIECES,
    REPEATED,
    PIECES.map(lambda text: rf"\boxed{{{text}}}"),
    REPEATED.map(lambda text: rf"\boxed{{{text}}}"),
    PIECES.map(lambda text: rf"the answer is \boxed{{{text}"),
    st.integers(1, 20_000).map(lambda n: r"\boxed{" + "{" * n + "70" + "}" * n + "}"),
)
ITEMS = st.tuples(st.sampled_from([("integer", "70"), ("latex", r"\frac{7}{2}"), ("choice", "B")]), OUTPUTS)


def check(examples: int) -> None:
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    with ScoringPool(workers=2, limit_s=LIMIT_S) as pool:

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(ITEMS, min_size=AT_ONCE, max_size=AT_ONCE))
        def score_them(drawn: list[tuple[tuple[str, str], str]]) -> None:
            items = [(kind, gold, output) for (kind, gold), output in drawn]
            pool.score_many(
                [("latex", rf"\sqrt{{{n}}}", rf"\boxed{{{n}^{{1/2}}}}") for n in range(2, 12)]
            )  # both are up
            began = time.monotonic()
            verdicts = pool.score_many(items)
            timeouts = sum(verdict.status == "timeout" for verdict in verdicts)
            assert {verdict.status for verdict in verdicts} <= {"answered", "no_answer", "timeout"}
            assert time.monotonic() - began < 30 + timeouts * (LIMIT_S + 5)  # a new worker takes a second or two

        score_them()
    assert {child.pid for child in psutil.Process().children(recursive=True)} == children


def test_500_adversarial_outputs() -> None:
    check(500 // AT_ONCE)


@pytest.mark.soak  # minutes: each tower runs into its limit
def test_10000_adversarial_outputs() -> None:
    check(10_000 // AT_ONCE)
