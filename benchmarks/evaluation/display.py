"""What the terminal shows of evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.evaluation.problems import EvaluationSet, Lock
from benchmarks.evaluation.results import Results

ESTIMATES = ("avg_at_", "pass_at_", "maj_at_")


def result_lines(results: Results) -> list[str]:
    """A table with a block of estimates and a line of rates for each set."""
    lines = []
    for name, numbers in results.metrics.items():
        lines.append(f"{name}: {numbers['problems']:.0f} problems")
        rows = [["", "value", "+- problems", "+- runs"]]
        rows += [
            [_label(key), _percent(value), _percent(numbers[f"{key}_se"]), _percent(numbers[f"{key}_run_sd"])]
            for key, value in numbers.items()
            if key.startswith(ESTIMATES) and not key.endswith(("_se", "_run_sd"))
        ]
        lines += table(rows)
        tokens = [f"{numbers[f'output_tokens_{what}']:.0f}" for what in ("mean", "median", "p95")]
        rates = [
            f"{what} {_percent(numbers[f'{what}_frac'])}" for what in ("truncated", "no_answer", "timeout", "error")
        ]
        lines += [
            f"  output tokens: mean {tokens[0]}, median {tokens[1]}, p95 {tokens[2]}",
            f"  {', '.join(rates)}",
            "",
        ]
    lines.append("+- problems: standard error over problems; +- runs: deviation from run to run; -: not measured")
    return lines


def set_lines(rows: Sequence[EvaluationSet], lock: Mapping[str, Lock]) -> list[str]:
    """A table of sets."""
    head = ["set", "rows", "answers", "source", "revision", "statements", "golds", "licence", "gate"]
    return table([head, *(_set_row(row, lock.get(row.name, Lock())) for row in rows)])


def _set_row(row: EvaluationSet, lock: Lock) -> list[str]:
    source = row.source.repository if row.source else "this repository"
    revision, statements = ("-", "-") if row.source is None else (lock.revision, lock.statements)
    return [
        row.name,
        str(row.rows),
        row.answer_type,
        source,
        (revision or "unpinned")[:12],
        statements or "unpinned",
        row.gold_hash or "-",
        row.licence,
        row.gate or "-",
    ]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, the first to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _label(key: str) -> str:
    return key.replace("_at_", "@")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
