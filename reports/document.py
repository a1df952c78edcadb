"""RESULTS.md, put together from the tables; the same records give the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from reports import provenance, tables, verdict_tables, wording
from reports.markdown import table
from reports.runs import Comparison, Reproduction
from reports.statistics import PERCENT
from reports.verdicts import Verdict

BY_ARM = (
    "Mean (standard deviation) over the finished seeds. `-`: not measured, or not to be had at the matched budget.\n\n"
)


def document(reproduction: Reproduction, verdicts: Sequence[Verdict], figures: Sequence[tuple[str, str]]) -> str:
    """The whole report as Markdown.

    Args:
        reproduction: the runs.
        verdicts: of every claim.
        figures: (file name, caption) of each figure beside the report.
    """
    sections = [
        ("Claims", _claims(verdicts)),
        ("What came out against the method", wording.against_the_method(verdicts)),
        ("Arms at matched budgets: accuracy", _each(reproduction, tables.arms_accuracy, intro=BY_ARM)),
        ("Arms at matched budgets: time", _each(reproduction, tables.arms_cost, intro=BY_ARM)),
        ("Figures", "".join(f"![{caption}]({name})\n\n{caption}\n\n" for name, caption in figures).rstrip() + "\n"),
        ("Hindsight", _each(reproduction, tables.hindsight, intro=HINDSIGHT)),
        ("Straggler rate against the budget", _each(reproduction, tables.budget_identity, intro=IDENTITY)),
        ("Stragglers, group sizes and idle time", _each(reproduction, tables.stragglers, intro=BY_ARM + STATIC_TWO)),
        ("Output length", _each(reproduction, tables.arms_length, intro=BY_ARM + LENGTHS)),
        ("Groups and barriers", _each(reproduction, tables.work, intro=BY_ARM)),
        ("What did not finish", _unfinished(reproduction)),
        ("How to read this", wording.how_to_read()),
        ("The matched budgets", _each(reproduction, tables.budgets)),
        ("Provenance", provenance.section(list(reproduction.runs.values()))),
    ]
    body = "\n".join(f"## {title}\n\n{text}" for title, text in sections)
    return f"# Results\n\n{_summary(reproduction, verdicts)}\n{body}"


HINDSIGHT = (
    "Chosen by someone who knew the results, at matched rollouts; straggler rates are those up to the matched "
    "rollouts. A mixture plays whole static runs in these shares, its rate at most SAGC's.\n\n"
)
LENGTHS = (
    "Output tokens of an evaluated response. DAPO's soft overlong penalty is a length penalty, so its lengths are "
    "shown and decide nothing.\n\n"
)
STATIC_TWO = "The straggler rate of static_2 is 0 by arithmetic at a threshold of 2 or more.\n\n"
IDENTITY = (
    "mean rate - budget = (last price - first price - clipped) / (step size x T), exactly, where T counts the steps "
    "that updated the price: the left side from recorded rates, the right side from recorded prices.\n\n"
)


def headline(reproduction: Reproduction, verdicts: Sequence[Verdict]) -> str:
    """The verdicts alone, for the description of a reproduction."""
    return f"{_summary(reproduction, verdicts)}\n{verdict_tables.glance(verdicts)}"


def _summary(reproduction: Reproduction, verdicts: Sequence[Verdict]) -> str:
    expected = {*reproduction.planned, *reproduction.runs}
    finished = len(expected) - len(reproduction.unfinished)
    words = Counter(verdict.verdict for verdict in verdicts)
    tally = ", ".join(
        f"{words[word]} {word}" for word in ("supported", "contradicted", "inconclusive", "not decidable")
    )
    where = "; ".join(
        f"{one.algorithm} on {one.task} ({one.engine}, {len(one.arms)} arms, seeds {', '.join(map(str, one.seeds))})"
        for one in reproduction.comparisons
    )
    return f"{finished} of {len(expected)} runs finished: {where}.\n\nVerdicts at level {PERCENT}: {tally}.\n"


def _claims(verdicts: Sequence[Verdict]) -> str:
    decided = [verdict for verdict in verdicts if verdict.estimates]
    return "\n".join(
        [
            verdict_tables.glance(verdicts),
            verdict_tables.titles(),
            "### The numbers\n",
            verdict_tables.numbers(decided),
            "### Beside the verdicts\n",
            verdict_tables.notes(decided),
            "### Not decidable\n",
            verdict_tables.undecided(verdicts),
        ]
    )


def _each(reproduction: Reproduction, make: Callable[[Comparison], str], intro: str = "") -> str:
    engines = len({one.engine for one in reproduction.comparisons})
    parts = []
    for one in reproduction.comparisons:
        name = f"{one.task}, {one.algorithm}" + (f", {one.engine}" if engines > 1 else "")
        parts.append(f"### {name}\n\n{make(one)}")
    return intro + "\n".join(parts)


def _unfinished(reproduction: Reproduction) -> str:
    rows = [
        [f"{key.task}/{key.algorithm}/{key.arm}/{key.engine}/s{key.seed}", status, reason]
        for key, status, reason in reproduction.unfinished
    ]
    return table(["run", "status", "reason"], rows, left=3) if rows else "Every planned run finished.\n"
