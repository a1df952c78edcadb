"""Markdown that reads well as plain text: padded tables and one way to write a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.statistics import Estimate

NONE = "-"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table, padded so that it can be read in a terminal.

    Args:
        headers: one a column.
        rows: cells, as many as there are headers; a `|` is escaped.
        left: the first `left` columns are set to the left, the rest to the right.

    Degenerate cases: no rows give a line that says so.
    """
    if not rows:
        return "(none)\n"
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in [list(headers), *rows]]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(headers))]
    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(cells[0]), line(rule), *map(line, cells[1:])]) + "\n"


def spread(values: Sequence[float], digits: int = 3) -> str:
    """`mean (sd)` over seeds; the mean alone for one, `-` for none."""
    if not values:
        return NONE
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({np.std(values, ddof=1):.{digits}f})"


def interval(estimate: Estimate, digits: int = 3, signed: bool = True) -> str:
    """`value [low, high]`, with the sign where it is a difference."""
    form = f"{'+' if signed else ''}.{digits}f"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:{form}} (no interval)"
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def thousands(value: float) -> str:
    """A whole number with separators."""
    return f"{value:,.0f}"
