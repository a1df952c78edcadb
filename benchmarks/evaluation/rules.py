"""The rules by which an output is right or wrong, one row per answer type; nothing here can hang.

What the rules cannot decide they hand over as a `Comparison` for `math-verify`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from benchmarks.evaluation.extraction import LETTERS, last_box, letter
from benchmarks.evaluation.integers import is_not_a_plain_number, read_fraction, read_integer
from sagc.errors import unknown_name

MAX_CONTENT = 1000
"""Boxes with more characters are wrong without being parsed [ours]."""

_TUPLE = re.compile(r"\s*(?:\\left)?\(([^()\[\]]+?)(?:\\right)?\)\s*")
"""Numbers in round brackets, compared one by one: `math-verify` takes 70 ms for a pair."""

Status = Literal["answered", "no_answer", "timeout", "error"]
"""`timeout`: the scorer was stopped at its limit. `error`: it failed. Both are apart from a wrong answer."""


class Verdict(NamedTuple):
    """What one output is worth."""

    right: bool
    status: Status
    answer: str | None = None
    """What votes in maj@k: equal right answers are equal here. None without an answer."""
    detail: str = ""
    """Why there is no answer, or what went wrong."""


class Comparison(NamedTuple):
    """Two LaTeX answers that `math-verify` must compare."""

    gold: str
    content: str

    def verdict(self, right: bool) -> Verdict:
        """The verdict once the two are compared."""
        return Verdict(right, "answered", self.gold if right else " ".join(self.content.split()))


def decide(answer_type: str, gold: str, text: str) -> Verdict | Comparison:
    """The verdict on `text`, or what `math-verify` must compare to reach it.

    Args:
        answer_type: a row of `ANSWER_TYPES`.
        gold: the right answer. One that the type cannot read gives the status `error`, never `wrong`.
        text: the whole output of the model.

    Raises:
        ConfigError: on an unknown answer type.
    """
    if answer_type not in ANSWER_TYPES:
        raise unknown_name("answer_type", answer_type, ANSWER_TYPES)
    return ANSWER_TYPES[answer_type].rule(gold, text)


def _integer(gold: str, text: str) -> Verdict | Comparison:
    value = _integer_gold(gold)
    if value is None:
        return Verdict(False, "error", detail=f"gold must be an integer, got {gold!r}")
    return _mathematics(gold, value, text)


def _latex(gold: str, text: str) -> Verdict | Comparison:
    if not gold.strip():
        return Verdict(False, "error", detail="gold must not be empty")
    return _mathematics(gold, _integer_gold(gold), text)


def _mathematics(gold: str, value: int | None, text: str) -> Verdict | Comparison:
    content, reason = last_box(text)
    if content is None:
        return Verdict(False, "no_answer", detail=reason)
    if len(content) > MAX_CONTENT:
        return Verdict(False, "answered", content[:MAX_CONTENT], f"the box holds over {MAX_CONTENT} characters")
    return _decide_value(gold, content) if value is None else _decide_integer(value, content)


def _decide_integer(value: int, content: str) -> Verdict | Comparison:
    answer = read_integer(content)
    if answer is not None:
        return Verdict(answer == value, "answered", str(answer))
    comparison = Comparison(str(value), content)
    return comparison.verdict(right=False) if is_not_a_plain_number(content) else _decide_fraction(comparison)


def _decide_value(gold: str, content: str) -> Verdict | Comparison:
    comparison = Comparison(gold, content)
    if "".join(gold.split()) == "".join(content.split()):
        return comparison.verdict(right=True)
    pair = _TUPLE.fullmatch(gold), _TUPLE.fullmatch(content)
    if not (pair[0] and pair[1]):
        return _decide_fraction(comparison)
    golds, answers = (match[1].split(",") for match in pair if match)
    if len(golds) != len(answers) or len(golds) < 2:
        return comparison
    parts = [_decide_fraction(Comparison(*part)) for part in zip(golds, answers, strict=True)]
    decided = [part.right for part in parts if isinstance(part, Verdict)]
    return comparison.verdict(all(decided)) if not all(decided) or len(decided) == len(parts) else comparison


def _decide_fraction(comparison: Comparison) -> Verdict | Comparison:
    """Rational numbers are compared as such, unless one is a decimal that may stand for the other."""
    gold, answer = read_fraction(comparison.gold), read_fraction(comparison.content)
    if gold is None or answer is None:
        return comparison
    equal, exact = gold[0] == answer[0], gold[1] and answer[1]
    return comparison.verdict(equal) if equal or exact else comparison


def _choice(gold: str, text: str) -> Verdict:
    if gold not in tuple(LETTERS):
        return Verdict(False, "error", detail=f"gold must be a letter of {LETTERS}, got {gold!r}")
    option, reason = letter(text)
    if option is None:
        return Verdict(False, "no_answer", detail=reason)
    return Verdict(option == gold, "answered", option)


def _chain(gold: str, text: str) -> Verdict:
    """The modular chain of the training tasks ends in ``# value``."""
    result = _CHAIN_RESULT.search(text)
    return (
        Verdict(result[1] == gold, "answered", result[1]) if result else Verdict(False, "no_answer", detail="no result")
    )


_integer_gold = lru_cache(maxsize=1024)(read_integer)
_CHAIN_RESULT = re.compile(r"# ?([0-9])\s*$")


class AnswerType(NamedTuple):
    """A form of answer."""

    rule: Callable[[str, str], Verdict | Comparison]
    """From gold and output to a verdict."""
    write: Callable[[str], str]
    """From a gold to an output that gives it; a gold whose own output is wrong cannot be read."""


def _in_a_box(gold: str) -> str:
    return rf"\boxed{{{gold}}}"


ANSWER_TYPES: dict[str, AnswerType] = {
    "integer": AnswerType(_integer, _in_a_box),
    "latex": AnswerType(_latex, _in_a_box),
    "choice": AnswerType(_choice, _in_a_box),
    "chain": AnswerType(_chain, lambda gold: f"# {gold}"),
}
"""Name -> form of answer. Add a row for a task with a form of its own."""
