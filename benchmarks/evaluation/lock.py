"""The lock file: which revision of each source is used, and the hash of its statements.

What nobody has published is null and shown as ``unpinned`` until `pin` fills it in from the Hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.evaluation.hub import full_revision
from benchmarks.evaluation.problems import (
    EvaluationSet,
    LoadOptions,
    Lock,
    Problem,
    SetError,
    load_problems,
    statements_hash,
)
from benchmarks.store import read_json, write_json

LOCK_FILE = Path(__file__).with_name("sets.lock.json")


def read_lock(path: Path = LOCK_FILE) -> dict[str, Lock]:
    """Set name -> what is fixed of it.

    Raises:
        RecordError: if the file is no JSON.
        SetError: if it is not a lock file.
    """
    data = read_json(path)
    try:
        return {name: Lock(**entry) for name, entry in data.items()}
    except (AttributeError, TypeError) as error:
        raise SetError(
            f"lock must be an object of revision and statements for each set, got {error} in {path}; restore the file"
        ) from error


def write_lock(lock: Mapping[str, Lock], path: Path = LOCK_FILE) -> None:
    """Write the lock file whole."""
    write_json(path, {name: asdict(entry) for name, entry in lock.items()})


def pin(
    rows: Iterable[EvaluationSet],
    lock: Mapping[str, Lock],
    resolve: Callable[[EvaluationSet, str | None], str] = full_revision,
    load: Callable[[EvaluationSet, LoadOptions], list[Problem]] = load_problems,
) -> tuple[dict[str, Lock], list[SetError]]:
    """Fix every set that the Hub hands out.

    Args:
        rows: the sets; those without a source are passed over.
        lock: what is fixed already; a set is loaded at its locked revision.
        resolve: from a set and a revision to the full revision.
        load: from a set to its checked problems; it refuses statements that differ from the lock.

    Returns:
        The new lock, and why each of the other sets could not be fixed or was refused; those keep their entries.
    """
    fixed, failed = dict(lock), []
    for row in rows:
        if row.source is None:
            continue
        entry = lock.get(row.name, Lock())
        try:
            revision = resolve(row, entry.revision)
            at_revision = {row.name: Lock(revision, entry.statements)}
            problems = load(row, LoadOptions(lock=at_revision))
        except SetError as error:
            failed.append(error)
        else:
            fixed[row.name] = Lock(revision, statements_hash(problems))
    return fixed, failed
