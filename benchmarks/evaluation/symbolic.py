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
from sympy import Expr  # type: ignore[import-untyped]

logging.getLogger("math_verify").setLevel(logging.ERROR)  # else it warns once that its time-outs are off

# Its grammar for antlr 4.9 reads no percentage, the one for 4.13 takes 50% for 50 as well as for 0.5.
_PERCENTAGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s{0,9}\\?%")
CLEAR = 1e-3
"""Relative difference of constants that no rounding explains [ours]; math-verify rounds to six decimals."""
_BOX_FIRST = [LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False)]


def equivalent(gold: str, content: str) -> bool:
    """Whether the LaTeX `content` of a box means the same as the LaTeX `gold`; False where either cannot be read.

    ``50%`` is 0.5. The verdict is the same with antlr 4.9 and 4.13.
    """
    parsed = _parse_gold(gold), _parse(content)
    return not _clearly_different(*parsed) and bool(verify(*parsed, timeout_seconds=None))


def _clearly_different(gold: list[Any], answer: list[Any]) -> bool:
    """Whether both are real constants that differ in the first digits: `verify` would try to simplify them."""
    if not all(side and isinstance(side[0], Expr) and side[0].is_number for side in (gold, answer)):
        return False
    try:
        first, second = (float(side[0].evalf(15)) for side in (gold, answer))
    except (TypeError, ValueError, OverflowError):  # complex, undefined, or beyond a float
        return False
    return abs(first - second) > CLEAR * (abs(first) + abs(second) + 1)


def _parse(content: str) -> list[Any]:
    # Parsed objects are never printed or hashed: the text of a tower of powers alone can take for ever.
    plain = _PERCENTAGE.sub(r"\\frac{\1}{100}", content)
    return list(parse(r"\boxed{" + plain + "}", _BOX_FIRST, parsing_timeout=None))


_parse_gold = lru_cache(maxsize=256)(_parse)
