"""Checks of single settings; each returns the canonical value or says what is wrong and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np

from sagc.errors import ConfigError, unknown_name

MAX_WHOLE = 2**53
"""Beyond it JSON readers that hold numbers as doubles would change a whole number."""


def real(name: str, value: object, rule: str, holds: Callable[[float], bool]) -> float:
    """`value` as a float.

    Args:
        name: of the setting.
        value: as given.
        rule: what it must be, in words.
        holds: the same rule.

    Raises:
        ConfigError: if it is no number (a bool or text is none), NaN, infinite, or breaks the rule.
    """
    number = _float(value)
    if not math.isfinite(number) or not holds(number):
        raise ConfigError(f"{name} must be a finite number {rule}, got {value!r}; set it to such a number")
    return number


def whole(name: str, value: object, at_least: int = 1) -> int:
    """`value` as an int.

    Raises:
        ConfigError: if it is no whole number (a bool, text or 8.0 is none), below `at_least`, or above 2**53.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not at_least <= value <= MAX_WHOLE:
        raise ConfigError(
            f"{name} must be a whole number from {at_least} to 2**53, got {value!r}; set it to such a number"
        )
    return int(value)


def known_name(kind: str, value: object, known: Collection[str]) -> None:
    """Check that `value` is one of `known`.

    Raises:
        ConfigError: if it is not; the nearest one is offered.
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(kind, value, known)


def _float(value: object) -> float:
    """`value` as a float; NaN for what is no number, or is too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
