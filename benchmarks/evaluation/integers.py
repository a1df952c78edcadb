r"""Integers as models and data sets write them: ``033``, ``1{,}625``, ``3\,159``, ``\text{The answer is }70``.

Every mathematics set here has integer golds, so integers are compared as integers and `math-verify` sees only
what this module cannot read. It reads nothing that could be something else: ``(1,625)`` is a pair, ``70 71`` two
numbers, ``1.625`` a fraction.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_DIGITS = 1000
"""Longer numbers are not read [ours]; Python refuses to convert more than 4,300 digits."""

_PLAIN = re.compile(rf"[-+]?[0-9]{{1,{MAX_DIGITS}}}")
_INVISIBLE = re.compile(r"[\u200b-\u200d\u2060\ufeff]|\\!|\\displaystyle|\\left|\\right")
_BLANK = re.compile(r"\\[,;: ]|\\quad|[~\s\u00a0\u2009\u202f]+")
_WRAPPED = re.compile(
    r"\\(?:text(?:bf|rm|it|sf|tt|normal)?|math(?:bf|rm|it|sf|tt)|mbox|boldsymbol|bm|boxed|fbox)\s?\{([^{}]*)\}"
    r"|\{([^{}]*)\}|\$([^$]*)\$"
    r"|\(\s?([-+]?[0-9]+)\s?\)|\[\s?([-+]?[0-9]+)\s?\]"  # plain digits only: (1,625) is a pair, not a number
)
_LABEL = re.compile(  # an option's letter, or the words "the answer is", before the number
    r"(?:\\(?:text|math)\w*\s?\{\s?\(?[A-E]\)\s?\}|\([A-E]\)"
    r"|(?:\\text\w*\s?\{\s?)?(?:the )?(?:final )?answer(?: is)?\s?[:=]?\s?\}?)\s?",
    re.IGNORECASE,
)
_RESIDUE = re.compile(r"(.*?)\s?\(?\s?\\[bp]?mod\s?(?:\{\s?([0-9]{1,18})\s?\}|([0-9]{1,18}))\s?\)?")
_BASED = re.compile(r"([0-9][0-9 ]*)_(?:\{\s?([0-9]{1,2})\s?\}|([0-9]))")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,30}\.[0-9]{1,30}")
_FRACTION = re.compile(
    r"([-+]?)\s?(?:\\[dtc]?frac\s?\{\s?([-+]?[0-9]{1,300})\s?\}\s?\{\s?([0-9]{1,300})\s?\}"
    r"|\\[dtc]?frac\s?([0-9])([0-9])|([0-9]{1,300})\s?/\s?([0-9]{1,300}))"
)
_NUMBER = re.compile(
    rf"([-+]?(?:[0-9]{{1,{MAX_DIGITS}}}|[0-9]{{1,3}}([ ,])[0-9]{{3}}(?:\2[0-9]{{3}}){{0,{MAX_DIGITS // 4}}}))(?:\.0*)?"
)


def read_integer(text: str) -> int | None:
    r"""The integer that `text` writes, or None.

    ``27.0`` and ``70.`` are integers, ``27.5`` is not. ``70 \pmod{1000}`` is 70, being the residue itself;
    ``1070 \pmod{1000}`` is None. ``1000110_2`` is 70: a subscript is a base.
    """
    plain = text.strip()
    if _PLAIN.fullmatch(plain):
        return int(plain)
    if len(plain) > 4 * MAX_DIGITS:
        return None
    bare = _unwrap(plain)
    if residue := _RESIDUE.fullmatch(bare):
        value = _number(residue[1])
        return value if value is not None and 0 <= value < int(residue[2] or residue[3]) else None
    if based := _BASED.fullmatch(bare):
        return _in_base(based[1].replace(" ", ""), int(based[2] or based[3]))
    return _number(bare)


def read_fraction(text: str) -> tuple[Fraction, bool] | None:
    r"""The rational number that `text` writes, and whether it is exact; None if it writes none.

    ``\frac{1}{2}``, ``\frac12``, ``1/2`` and integers are exact; a decimal, 0.3333, may be a rounded number.
    """
    bare = _unwrap(text.strip()) if len(text) <= MAX_DIGITS else ""
    if decimal := _DECIMAL.fullmatch(bare):
        return Fraction(decimal[0]), False
    if match := _FRACTION.fullmatch(bare):
        sign, *parts = match.groups()
        numerator, denominator = (int(part) for part in parts if part is not None)
        return (Fraction(-numerator if sign == "-" else numerator, denominator), True) if denominator else None
    value = read_integer(text)
    return None if value is None else (Fraction(value), True)


def is_not_a_plain_number(text: str) -> bool:
    """Whether `text` holds a percentage or a number with an impossible base: neither can equal an integer gold.

    `math-verify` would take ``7000%`` for 70 and drop the base of ``70_2``.
    """
    return "%" in text or _BASED.fullmatch(_unwrap(text.strip())) is not None


def _unwrap(text: str) -> str:
    """`text` without invisible marks, and without the braces, styles, brackets and labels around its number."""
    text = _BLANK.sub(" ", _INVISIBLE.sub("", text)).replace("\u2212", "-").replace("{,}", ",").strip()
    for _ in range(8):  # deeper nesting is no answer that anybody writes
        before = text
        if wrapped := _WRAPPED.fullmatch(text):
            text = next(inner for inner in wrapped.groups() if inner is not None).strip()
        elif label := _LABEL.match(text):
            text = text[label.end() :].strip()
        text = text.removeprefix("\\$").strip()
        if text == before:
            break
    return text


def _number(text: str) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    return int(match[1].replace(",", "").replace(" ", "")) if match else None


def _in_base(digits: str, base: int) -> int | None:
    try:
        return int(digits, base) if base >= 2 else None
    except ValueError:  # a digit that the base does not have
        return None
