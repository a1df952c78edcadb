"""What an evaluation set consists of, and the checks that every set passes before a model sees it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.evaluation.scoring import ANSWER_TYPES, score
from sagc.errors import SagcError

GOLD_FORMATS: dict[str, tuple[re.Pattern[str], str]] = {
    "integer": (re.compile(r"-?(?:0|[1-9][0-9]*)"), "an integer without leading zeros or decimals"),
    "padded": (re.compile(r"-?[0-9]+"), "an integer, zeros in front allowed"),
    "float": (re.compile(r"-?[0-9]+(?:\.0*)?"), "a number without a fraction"),
}
"""How a source writes its integers -> what it may hold. ``033`` and ``27.0`` are read only where a source says so."""


class SetError(SagcError, ValueError):
    """A set that cannot be used; the text names set, row, value and cure."""


class Problem(NamedTuple):
    """One problem of a set."""

    id: str
    statement: str
    gold: str
    """The right answer; for multiple choice the text of the right option."""
    options: tuple[str, ...] = ()
    """Multiple choice only, the right one first, as they are in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a set lies on the Hub and how it is written there."""

    repository: str
    split: str
    config: str | None = None
    gold_format: str = "integer"
    year: int | None = None
    """The set is the rows of this year; None takes all."""


@dataclass(frozen=True, slots=True)
class Lock:
    """What of a set's source is fixed; None is not fixed yet."""

    revision: str | None = None
    statements: str | None = None
    """`statements_hash` of the set at that revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Where the user wants sets to come from."""

    data: Path | None = None
    """A folder with a file per set; None loads from the Hub."""
    gold_format: str = "integer"
    """How the files in `data` write integers."""
    lock: Mapping[str, Lock] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """A row of the table of sets."""

    name: str
    summary: str
    rows: int
    answer_type: str
    """A row of `scoring.ANSWER_TYPES`."""
    load: Loader
    prompt: str
    """A row of `prompts.PROMPTS`."""
    examples: tuple[str, ...] = ()
    """Turns shown before every question: a question, its answer, and so on."""
    protocol: str
    """The row of `protocols.PROTOCOLS` that it is sampled by unless the user says otherwise."""
    licence: str
    gate: str = ""
    """What to accept before the Hub hands it out; empty for nothing."""
    source: Source | None = None
    gold_hash: str | None = None
    """`integer_gold_hash` of the golds; None where nobody has published it."""


Loader = Callable[[EvaluationSet, LoadOptions], list[Problem]]
"""Gets the problems of a set, unchecked."""


def load_problems(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
    """The problems of a set, checked.

    Raises:
        SetError: if it cannot be had, or is not the set that its row describes.
    """
    problems = row.load(row, options)
    check_problems(row, problems)
    locked = options.lock.get(row.name, Lock()).statements
    if options.data is None and locked not in (None, statements_hash(problems)):
        raise SetError(
            f"{row.name}: statements must have the hash {locked} of the lock file, got {statements_hash(problems)}; "
            "the source has changed: compare it with an older copy before you pin it anew"
        )
    return problems


def check_problems(row: EvaluationSet, problems: Sequence[Problem]) -> None:
    """Refuse empty fields, duplicates, a wrong number of rows, golds that do not parse and wrong golds.

    Raises:
        SetError: on the first fault.
    """
    for number, problem in enumerate(problems, start=1):
        for name, text in {"id": problem.id, "statement": problem.statement, "gold": problem.gold}.items():
            if not text.strip():
                raise SetError(f"{row.name}, row {number}: {name} must not be empty, got {text!r}; fill it in")
        if row.answer_type != "choice" and not _parses(row.answer_type, problem.gold):
            raise SetError(
                f"{row.name}, row {number}: gold must be an answer of type {row.answer_type}, got {problem.gold!r}; "
                "correct it: an answer that cannot be read would score 0 for everybody"
            )
    different = len({normalised(problem.statement) for problem in problems})
    if len(problems) != row.rows:
        raise SetError(
            f"{row.name}: rows must be {row.rows}, got {len(problems)} with {different} different statements; "
            "take the set that the name says, each problem once"
        )
    for what, values in {
        "id": [problem.id for problem in problems],
        "statement": [normalised(problem.statement) for problem in problems],
    }.items():
        _refuse_duplicates(row.name, what, values)
    if row.gold_hash not in (None, integer_gold_hash(problems) if row.gold_hash else None):
        raise SetError(
            f"{row.name}: golds must have the hash {row.gold_hash}, got {integer_gold_hash(problems)} (sum "
            f"{sum(int(problem.gold) for problem in problems)}); a wrong answer or another set: compare with the source"
        )


def _refuse_duplicates(name: str, what: str, values: Sequence[str]) -> None:
    value, count = Counter(values).most_common(1)[0]
    if count > 1:
        rows = [number for number, other in enumerate(values, start=1) if other == value][:2]
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        raise SetError(
            f"{name}, row {rows[1]}: {what} must be unique, got {shown!r} again (first in row {rows[0]}); remove one"
        )


def _parses(answer_type: str, gold: str) -> bool:
    """A gold that can be read is right when given as the answer."""
    return score(answer_type, gold, ANSWER_TYPES[answer_type].write(gold)).right


def normalised(statement: str) -> str:
    """`statement` with every run of blanks made one: copies of a set differ in these."""
    return " ".join(statement.split())


def statements_hash(problems: Sequence[Problem]) -> str:
    """16 hex digits over the statements and options, whatever their order."""
    texts = sorted("\x1f".join(map(normalised, (problem.statement, *problem.options))) for problem in problems)
    return _digest("\x1e".join(texts))


def integer_gold_hash(problems: Sequence[Problem]) -> str:
    """16 hex digits over the sorted integer golds, joined by commas."""
    return _digest(",".join(map(str, sorted(int(problem.gold) for problem in problems))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
