"""A verdict, and the one rule that gives it: an interval against a margin."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from reports.statistics import Estimate
from reports.undecidable import NotDecidable

MARGINS = Path(__file__).with_name("margins.toml")
Word = Literal["supported", "contradicted", "inconclusive", "not decidable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim on one axis of one comparison."""

    claim: str
    engine: str
    task: str
    algorithm: str
    axis: str
    margin: float
    verdict: Word = "not decidable"
    reason: str = ""
    """Why it is not decidable; empty otherwise."""
    estimates: tuple[Estimate, ...] = ()
    """What the verdict was decided from."""
    beside: tuple[Estimate, ...] = ()
    """The same from the clock; decides nothing."""
    note: str = ""
    run_ids: tuple[str, ...] = ()
    """Every run that was used."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a claim is decided from."""

    estimates: tuple[Estimate, ...]
    run_ids: tuple[str, ...]
    beside: tuple[Estimate, ...] = ()
    note: str = ""


@cache
def margins() -> dict[str, Any]:
    """The margins, as `margins.toml` has them."""
    with MARGINS.open("rb") as file:
        return tomllib.load(file)


def judge(place: Verdict, claimed_above: bool, evidence: Callable[[], Evidence]) -> Verdict:
    """Fill in a verdict.

    Args:
        place: claim, comparison, axis and margin.
        claimed_above: whether the claim puts the quantity above the margin.
        evidence: gives the intervals; its `NotDecidable` becomes the reason.
    """
    try:
        found = evidence()
    except NotDecidable as error:
        return replace(place, reason=str(error))
    word = decide(found.estimates, place.margin, claimed_above)
    return replace(
        place,
        verdict=word,
        reason="one seed gives no interval" if word == "not decidable" else "",
        estimates=found.estimates,
        beside=found.beside,
        note=found.note,
        run_ids=found.run_ids,
    )


def decide(estimates: Sequence[Estimate], margin: float, claimed_above: bool) -> Word:
    """The verdict of one or more intervals against a margin.

    `supported` if every interval lies wholly on the claimed side of the margin, `contradicted` if one lies wholly
    on the other side, `inconclusive` otherwise, `not decidable` if one is missing. An end on the margin is on
    neither side.
    """
    sign = 1 if claimed_above else -1
    distances = []
    for each in estimates:
        if each.low is None or each.high is None:
            return "not decidable"
        distances.append((sign * (each.low - margin), sign * (each.high - margin)))
    if any(max(ends) < 0 for ends in distances):
        return "contradicted"
    return "supported" if all(min(ends) > 0 for ends in distances) else "inconclusive"
