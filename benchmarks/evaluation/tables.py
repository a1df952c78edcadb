"""Sets as tables: rows from a file or the Hub, whatever their publishers call the columns, made into problems."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluation.extraction import last_box
from benchmarks.evaluation.hub import load_rows
from benchmarks.evaluation.problems import GOLD_FORMATS, EvaluationSet, LoadOptions, Lock, Problem, SetError, normalised

Row = Mapping[str, Any]

STATEMENT = ("problem", "Problem", "question", "Question", "extra_info.raw_problem")
ANSWER = ("answer", "Answer", "expected_answer", "reward_model.ground_truth")
BOXED_ANSWER = ("solution", "Solution")
"""Where a source has no column for the answer, it is the last box of the solution."""
IDENTIFIER = ("Record ID", "id", "ID", "problem_idx", "extra_info.index")
YEAR = ("Year", "year")
RIGHT_OPTION, WRONG_OPTIONS = "Correct Answer", tuple(f"Incorrect Answer {number}" for number in (1, 2, 3))


def load_table(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
    """The problems of a set that is a table, from `options.data` or the Hub; unchecked.

    Raises:
        SetError: if it cannot be had or lacks a column.
    """
    assert row.source is not None
    if options.data is None:
        rows = load_rows(row, options.lock.get(row.name, Lock()).revision)
        return _problems(row, rows, row.source.gold_format)
    if options.gold_format not in GOLD_FORMATS:
        raise SetError(
            f"gold_format must be one of {', '.join(GOLD_FORMATS)}, got {options.gold_format!r}; see `evaluate --help`"
        )
    return _problems(row, read_file(row.name, _file_of(row.name, options.data)), options.gold_format)


def _file_of(name: str, folder: Path) -> Path:
    """The one file of the set `name` in `folder`."""
    wanted = [folder / f"{name}.{suffix}" for suffix in READERS]
    found = [path for path in wanted if path.exists()]
    if len(found) != 1:
        got = " and ".join(path.name for path in found) or "none of them"
        raise SetError(
            f"{name}: {folder} must hold one of {', '.join(path.name for path in wanted)}, got {got}; "
            "rename or remove files"
        )
    return found[0]


def read_file(name: str, path: Path) -> list[Row]:
    """The rows of a .jsonl, .json, .csv or .parquet file of the set `name`.

    Raises:
        SetError: if it cannot be opened, is not UTF-8, not of its format, or empty.
    """
    try:
        rows = READERS[path.suffix.removeprefix(".")](path)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise SetError(
            f"{name}: {path} must be UTF-8, got byte 0x{byte:02x} at {error.start}; convert it, "
            "e.g. with `iconv -t UTF-8`"
        ) from error
    except OSError as error:
        raise SetError(
            f"{name}: {path} must be readable, got {error.strerror or error}; check its permissions"
        ) from error
    except (ValueError, csv.Error) as error:  # pyarrow's errors are ValueErrors too
        raise SetError(f"{name}: {path} must be a {path.suffix} table, got {error}; repair or replace it") from error
    if not rows:
        raise SetError(f"{name}: {path} must hold rows, got an empty file; copy it again")
    if not all(isinstance(entry, dict) for entry in rows):
        raise SetError(f"{name}: every row of {path} must be an object with named columns; convert it")
    return rows


def _read_jsonl(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{error} in line {number} of the file") from error
    return rows


def _read_json(path: Path) -> list[Row]:
    text = path.read_text(encoding="utf-8-sig")
    rows = json.loads(text) if text.strip() else []
    if not isinstance(rows, list):
        raise ValueError(f"a {type(rows).__name__} instead of a list of rows")
    return rows


def _read_csv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def _read_parquet(path: Path) -> list[Row]:
    import pyarrow.parquet  # only those who have such files need it

    with path.open("rb") as file:
        if not file.read(1):
            return []
    rows: list[Row] = pyarrow.parquet.read_table(path).to_pylist()
    return rows


READERS: dict[str, Callable[[Path], list[Row]]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
    "parquet": _read_parquet,
}
"""File suffix -> reader."""


def _problems(row: EvaluationSet, rows: Sequence[Row], gold_format: str) -> list[Problem]:
    build = _choice if row.answer_type == "choice" else _integer
    of_year = [(number, entry) for number, entry in enumerate(rows, start=1) if _of_year(row, entry)]
    return [build(row.name, number, entry, gold_format) for number, entry in of_year]


def _of_year(row: EvaluationSet, entry: Row) -> bool:
    year = row.source.year if row.source else None
    if year is None:
        return True
    if entry.get("url"):
        return f"/{year}_" in entry["url"]  # .../2023_AIME_I_Problems/Problem_1
    stated = _first(entry, YEAR)
    return stated is None or str(stated) == str(year)


def _integer(name: str, number: int, entry: Row, gold_format: str) -> Problem:
    statement = _text(name, number, entry, STATEMENT)
    return Problem(_identifier(entry, statement), statement, _integer_gold(name, number, entry, gold_format))


def _choice(name: str, number: int, entry: Row, gold_format: str) -> Problem:
    statement = _text(name, number, entry, STATEMENT)
    options = tuple(_text(name, number, entry, (column,)) for column in (RIGHT_OPTION, *WRONG_OPTIONS))
    return Problem(_identifier(entry, statement), statement, options[0], options)


def _identifier(entry: Row, statement: str) -> str:
    """The row's own id, or one made of its statement: never its place, which moves when rows are removed."""
    own = _first(entry, IDENTIFIER)
    return str(own) if own is not None else hashlib.sha256(normalised(statement).encode()).hexdigest()[:12]


def _integer_gold(name: str, number: int, entry: Row, gold_format: str) -> str:
    if any(_look_up(entry, column)[0] for column in ANSWER):
        value, column = _value(name, number, entry, ANSWER)
    else:
        solution, column = _value(name, number, entry, (*ANSWER, *BOXED_ANSWER))
        value = last_box(str(solution)).content
    pattern, rule = GOLD_FORMATS[gold_format]
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    if not pattern.fullmatch(text):
        other = next((fmt for fmt, (fits, _) in GOLD_FORMATS.items() if fits.fullmatch(text)), None)
        cure = f"pass --gold-format {other} if this source writes its answers so" if other else "correct the row"
        raise SetError(f"{name}, row {number}, column {column!r}: gold must be {rule}, got {value!r}; {cure}")
    return str(int(text.partition(".")[0]))


def _text(name: str, number: int, entry: Row, columns: Sequence[str]) -> str:
    value, column = _value(name, number, entry, columns)
    if not isinstance(value, str) or not value.strip():
        raise SetError(f"{name}, row {number}, column {column!r}: text must not be empty, got {value!r}; fill it in")
    return value


def _value(name: str, number: int, entry: Row, columns: Sequence[str]) -> tuple[Any, str]:
    """The value of the first of `columns` that the row has, and the column's name."""
    for column in columns:
        found, value = _look_up(entry, column)
        if found:
            return value, column
    raise SetError(
        f"{name}, row {number}: columns must include one of {', '.join(columns)}, got {', '.join(map(str, entry))}; "
        "rename a column"
    )


def _first(entry: Row, columns: Sequence[str]) -> Any:
    """The first of `columns` that holds something; None if none does."""
    values = (_look_up(entry, column)[1] for column in columns)
    return next((value for value in values if value is not None), None)


def _look_up(entry: Row, column: str) -> tuple[bool, Any]:
    """Whether the row has `column`, a dot going into a nested one, and its value."""
    value: Any = entry
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value
