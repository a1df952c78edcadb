"""The results in README.md: generated from a committed reproduction, between two markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports import tables, verdict_tables
from reports.provenance import one_line
from reports.runs import Reproduction
from reports.verdicts import Verdict
from sagc.errors import ConfigError

READING = """\
A column is what the arms are matched on. At matched *prompts* a large static group draws more rollouts, so C1 is
arithmetic there and C2 compares unequal work; at matched rollouts, tokens or time the work is the same. *Not decidable*
on `growing`: the profile runs four arms there, which decide C4 and C5.
"""
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def results(reproduction: Reproduction, verdicts: Sequence[Verdict], link: str) -> str:
    """The block between the markers.

    Args:
        reproduction: the runs.
        verdicts: of every claim.
        link: to the whole report, from README.md.
    """
    arms = "\n".join(
        f"{one.task}, {one.algorithm}: accuracy, mean (standard deviation) over seeds\n\n{tables.arms_accuracy(one)}"
        for one in reproduction.comparisons
    )
    source = one_line(list(reproduction.runs.values()))
    return (
        f"{source} [The whole report]({link}) has the numbers, their intervals and what came out against the "
        "method.\n\n"
        f"{verdict_tables.titles()}\n{READING}\n{verdict_tables.glance(verdicts)}\n{arms}"
    )


def with_results(readme: str, block: str) -> str:
    """`readme` with the block between its markers.

    Raises:
        ConfigError: if the markers are not there, each once and in order.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ConfigError(f"README must hold {BEGIN} and then {END}, got neither or one; put them back")
    return f"{before}{BEGIN}\n{block.rstrip()}\n{END}{after}"


def update_readme(path: Path, block: str) -> None:
    """Write the block into the file."""
    path.write_text(with_results(path.read_text(encoding="utf-8"), block), encoding="utf-8")
