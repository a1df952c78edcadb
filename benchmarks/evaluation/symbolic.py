"""Equality of two LaTeX answers by `math-verify`. This module alone imports it.

It may run for ever: whoever calls `equivalent` outside a worker of `pool` has no protection. Its own time-outs are
off, because they work by SIGALRM: off the main thread they raise, and on it they cancel the caller's alarm.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]
from sympy import Expr, Float, Symbol  # type: ignore[import-untyped]

logging.getLogger("math_verify").setLevel(logging.ERROR)  # else it warns once that its time-outs are off

# Its grammar for antlr 4.9 reads no percentage, the one for 4.13 takes 50% for 50 as well as for 0.5.
_PERCENTAGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s{0,9}\\?%")
CLEAR = 1e-5
"""Absolute difference that no rounding explains [ours]: math-verify rounds to six decimals,"""
CLEAR_OF_LARGE = 1e-9
"""and relative difference, of numbers evaluated to 15 digits."""
POINT, STEP = 0.7310585786, 0.4142135624
"""Values of the first variable and from one to the next [ours]; arbitrary, positive."""
_NO_VALUE = (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""What evaluating raises where an expression is undefined, or no number at all."""
_BOX_FIRST = [LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False)]


def equivalent(gold: str, content: str) -> bool:
    """Whether the LaTeX `content` of a box means the same as the LaTeX `gold`; False where either cannot be read.

    ``50%`` is 0.5. The verdict is the same with antlr 4.9 and 4.13.
    """
    parsed = _parse_gold(gold), _parse(content)
    return not _clearly_different(*parsed) and bool(verify(*parsed, timeout_seconds=None))


def _clearly_different(gold: list[Any], answer: list[Any]) -> bool:
    """Whether both are expressions whose values at one point differ clearly: no simplifying makes them equal.

    `verify` would try all the same, which takes most of its time on wrong answers.
    """
    pair = [side[0] for side in (gold, answer) if side]
    # A symbol may be a word, which `verify` compares as text.
    if len(pair) < 2 or any(not isinstance(side, Expr) or isinstance(side, Symbol) for side in pair):
        return False
    names = sorted({symbol for side in pair for symbol in side.free_symbols}, key=str)
    point = {symbol: Float(POINT + number * STEP) for number, symbol in enumerate(names)}
    try:
        first, second = (complex(side.evalf(15, subs=point)) for side in pair)
    except _NO_VALUE:
        return False
    return abs(first - second) > CLEAR + CLEAR_OF_LARGE * (abs(first) + abs(second))


def _parse(content: str) -> list[Any]:
    # Parsed objects are never printed or hashed: the text of a tower of powers alone can take for ever.
    plain = _PERCENTAGE.sub(r"\\frac{\1}{100}", content)
    return list(parse(r"\boxed{" + plain + "}", _BOX_FIRST, parsing_timeout=None))


_parse_gold = lru_cache(maxsize=256)(_parse)
