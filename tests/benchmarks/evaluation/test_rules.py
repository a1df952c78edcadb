"""What is decided without math-verify must be what math-verify would say."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evaluation.extraction import last_box
from benchmarks.evaluation.integers import read_fraction, read_integer
from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.rules import Comparison, Verdict, decide

INTEGERS = st.integers(-(10**12), 10**12)


@given(
    INTEGERS,
    st.sampled_from(["{}", " {} ", "${}$", r"\text{{{}}}", "({})", r"\left[{}\right]", "{}.", "{}.00", "{{{}}}"]),
)
def test_an_integer_is_read_back_however_it_is_dressed(value: int, dress: str) -> None:
    assert read_integer(dress.format(value)) == value


@given(st.integers(1000, 10**15), st.sampled_from([",", "{,}", r"\,", " ", "\u00a0", r",\!"]))
def test_thousands_may_be_separated(value: int, separator: str) -> None:
    assert read_integer(f"{value:,}".replace(",", separator)) == value


@given(st.text(max_size=40))
def test_a_text_is_an_integer_or_none(text: str) -> None:
    assert read_integer(text) is None or isinstance(read_integer(text), int)


@pytest.mark.parametrize(
    "text", ["1,62", "1,6255", "1 625,000", "12.5", "7/2", "x", "", "--7", "7-", "1e3", "0x10", "9" * 1001]
)
def test_what_could_be_something_else_is_no_integer(text: str) -> None:
    assert read_integer(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\frac{1}{2}", (Fraction(1, 2), True)),
        (r"-\dfrac{1}{2}", (Fraction(-1, 2), True)),
        (r"\frac{-1}{2}", (Fraction(-1, 2), True)),
        (r"\frac12", (Fraction(1, 2), True)),
        ("-3/6", (Fraction(-1, 2), True)),
        ("0.50", (Fraction(1, 2), False)),
        ("7", (Fraction(7), True)),
        (r"\frac{1}{0}", None),
        (r"3\frac{1}{2}", None),
        (r"\frac{\pi}{2}", None),
        ("1/2/3", None),
        (r"\frac123", None),
    ],
)
def test_fractions(text: str, value: tuple[Fraction, bool] | None) -> None:
    assert read_fraction(text) == value


DECIDED = [
    (r"\frac{1}{2}", "0.5", True),
    (r"\frac{1}{2}", r"\frac{3}{6}", True),
    (r"\frac{1}{2}", r"\frac{2}{3}", False),
    ("70", r"\frac{140}{2}", True),
    ("(1, 2)", r"\left( 1,\frac{4}{2} \right)", True),
    (r"(3, \frac{\pi}{2})", "(4, x)", False),
    ("(1, 2)", "(2, 1)", False),
    ("x +1", "x+ 1", True),
]
LEFT_TO_MATH_VERIFY = [
    (r"\frac{1}{3}", "0.333333"),  # rounded
    (r"(3, \frac{\pi}{2})", r"(3, \frac{2\pi}{4})"),
    ("(1, 2)", "(1, 2, 3)"),
    ("(1, 2)", "[1, 2]"),
    (r"\{1, 2\}", r"\{2, 1\}"),
    ("x+1", "1+x"),
]


@pytest.mark.parametrize(("gold", "content", "right"), DECIDED)
def test_exact_numbers_are_decided_as_math_verify_would(
    gold: str, content: str, right: bool, pool: ScoringPool
) -> None:
    decided = decide("latex", gold, rf"\boxed{{{content}}}")
    assert isinstance(decided, Verdict)
    assert decided.right is right
    assert pool.compare(Comparison(gold, content)).right is right


@pytest.mark.parametrize(("gold", "content"), LEFT_TO_MATH_VERIFY)
def test_the_rest_is_left_to_math_verify(gold: str, content: str) -> None:
    assert decide("latex", gold, rf"\boxed{{{content}}}") == Comparison(gold, content)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("4 a +3 7 # 7", "7"),
        ("4 a +3 7 # 8", "8"),
        ("#7 ", "7"),
        ("# 7 b", None),
        ("7", None),
        ("", None),
        ("# 1 2", None),
    ],
)
def test_a_chain_ends_in_its_result(text: str, answer: str | None) -> None:
    verdict = decide("chain", "7", text)
    assert isinstance(verdict, Verdict)
    assert (verdict.right, verdict.answer) == (answer == "7", answer)


FORMS = st.builds(
    lambda form, a, b: form.format(a=a, b=b, c=2 * a, d=2 * b),
    st.sampled_from(
        [r"\frac{{{a}}}{{{b}}}", r"\frac{{{c}}}{{{d}}}", "{a}/{b}", "{a}", r"\frac{{-{a}}}{{{b}}}", "({a}, {b})"]
    ),
    st.integers(1, 30),
    st.integers(1, 30),
)


@given(gold=FORMS, content=FORMS)
def test_no_decision_differs_from_math_verify(gold: str, content: str) -> None:
    from benchmarks.evaluation.symbolic import equivalent

    decided = decide("latex", gold, rf"\boxed{{{content}}}")
    if isinstance(decided, Verdict):
        assert decided.right is equivalent(gold, content)


@pytest.mark.parametrize(
    ("text", "content", "reason"),
    [
        (r"\boxed{3 + \boxed{67}}", "3 + {67}", ""),  # the outermost
        (r"\boxed{a} \boxed{b {c} d}", "b {c} d", ""),
        (r"never closed \boxed{ and then \boxed{70}", "70", ""),
        (r"\boxed{\{70\}}", r"\{70\}", ""),
        (r"\boxed {70}", "70", ""),
        (r"\boxed{70}. I put it in \boxed as asked.", "70", ""),
        (r"\boxed{70}. So finally \boxed", None, "the last box is unterminated"),
        (r"\boxed{70}. So finally \fbox{", None, "the last box is unterminated"),
        (r"\boxed{70} \boxed{ }", None, "the last box is empty"),
        ("70", None, "no box"),
        (r"</think>\boxed{1}</think>\boxed{2}", "2", ""),
        (r"\boxed{1}<think>\boxed{2}", None, "thinking was opened and not closed"),
        (r"\boxed{33}" + " " * 120, "33", ""),  # verl#7440
        (r"\boxedtext{1}", None, "no box"),
    ],
)
def test_the_last_box(text: str, content: str | None, reason: str) -> None:
    assert last_box(text) == (content, reason)
