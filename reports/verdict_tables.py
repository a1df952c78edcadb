"""The tables of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from reports.claims import BUDGET_AXES, CLAIMS, WHOLE_RUN
from reports.markdown import NONE, interval, table
from reports.statistics import PERCENT, Estimate
from reports.verdicts import Verdict

SHORT = {
    "prompts": "prompts",
    "rollouts": "rollouts",
    "tokens": "tokens",
    "modelled_s": "modelled time",
    "cpu_s": "CPU time",
    "updates": "updates",
    WHOLE_RUN: WHOLE_RUN,
}
"""Axis -> column title."""


def place(verdict: Verdict, engines: int) -> str:
    """`task algorithm`, with the engine where there are several."""
    name = f"{verdict.task} {verdict.algorithm}"
    return f"{name} {verdict.engine}" if engines > 1 else name


def titles() -> str:
    """What each claim says, and the quantity that decides it."""
    rows = [[name, row.title, row.quantity] for name, row in CLAIMS.items()]
    return table(["claim", "says", "quantity"], rows, left=3)


def glance(verdicts: Sequence[Verdict]) -> str:
    """One row a claim and comparison, one column an axis, one word a verdict."""
    engines = len({verdict.engine for verdict in verdicts})
    columns = (*BUDGET_AXES, "updates", WHOLE_RUN)
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in verdicts:
        rows.setdefault((verdict.claim, place(verdict, engines)), {})[verdict.axis] = verdict.verdict
    return table(
        ["claim", "where", *(SHORT[axis] for axis in columns)],
        [[*key, *(cells.get(axis, "") for axis in columns)] for key, cells in rows.items()],
        left=8,
    )


def numbers(verdicts: Sequence[Verdict]) -> str:
    """Every decided verdict with its interval, number of seeds, clustered error and margin."""
    engines = len({verdict.engine for verdict in verdicts})
    rows = [
        [
            verdict.claim,
            place(verdict, engines),
            SHORT[verdict.axis],
            each.label,
            written(verdict.claim, each),
            str(each.n),
            f"{each.clustered_se:.4f}" if each.clustered_se is not None else NONE,
            f"{verdict.margin:g}",
            verdict.verdict,
        ]
        for verdict in verdicts
        for each in verdict.estimates
    ]
    headers = [
        "claim",
        "where",
        "axis",
        "quantity",
        f"estimate [{PERCENT}]",
        "seeds",
        "SE by problem",
        "margin",
        "verdict",
    ]
    return table(headers, rows, left=4)


def written(claim: str, each: Estimate) -> str:
    """An estimate in the unit of its claim."""
    return interval(each, digits=2 if claim == "C1" else 3, signed=claim != "C1")


def notes(verdicts: Sequence[Verdict]) -> str:
    """What stands beside the verdicts: measured time, coverage, the static arm that was chosen, bootstrap."""
    engines = len({verdict.engine for verdict in verdicts})
    lines = []
    for verdict in verdicts:
        parts = [f"{each.label}: {written(verdict.claim, each)}" for each in verdict.beside]
        parts += [verdict.note] if verdict.note else []
        parts += [
            f"bootstrap over seeds [{each.bootstrap[0]:.3f}, {each.bootstrap[1]:.3f}]"
            for each in verdict.estimates
            if each.bootstrap
        ]
        if parts:
            lines.append(f"- {verdict.claim}, {place(verdict, engines)}, {SHORT[verdict.axis]}: {'; '.join(parts)}\n")
    return "".join(lines) or "(none)\n"


def undecided(verdicts: Sequence[Verdict]) -> str:
    """The claims that the records do not decide, by reason."""
    engines = len({verdict.engine for verdict in verdicts})
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.verdict == "not decidable":
            key = (verdict.claim, place(verdict, engines), verdict.reason)
            reasons.setdefault(key, []).append(SHORT[verdict.axis])
    rows = [[claim, where, ", ".join(axes), reason] for (claim, where, reason), axes in reasons.items()]
    return table(["claim", "where", "axis", "reason"], rows, left=4)
