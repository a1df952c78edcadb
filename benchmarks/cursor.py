"""How much of a run an MLflow store has; JSON outside the run folder, one file per store and run."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import FILES
from benchmarks.store import RecordError, read_json, write_json
from benchmarks.typed import from_json


@dataclass(slots=True)
class Cursor:
    """Everything that a later command must know, whenever this one dies."""

    store: str
    """See `Tracker.store`."""
    opening: str | None = None
    """A name of its own, tagged on the MLflow run and kept here before that is created: a process that dies in
    between finds the run again."""
    mlflow_run: str | None = None
    superseded: list[str] = field(default_factory=list)
    """MLflow runs of earlier starts that never said how they ended, and are to be closed as killed."""
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FILES, 0))
    """Lines of each file: a run that went back to a checkpoint writes the same ones again, and they are not resent."""
    sending: dict[str, int] | None = None
    """Up to which line the present batch goes: after a failure exactly that batch is sent again,"""
    timestamp_ms: int = 0
    """with its old time, so that what did arrive is stored once."""
    config_sent: bool = False
    closed: bool = False

    def anew(self) -> Cursor:
        """The cursor of the same run when it begins again at its beginning: in another MLflow run, if it had one."""
        if self.mlflow_run is None:
            return Cursor(self.store, opening=self.opening, superseded=self.superseded)
        left_open = [] if self.closed else [self.mlflow_run]
        return Cursor(self.store, superseded=[*self.superseded, *left_open])


def cursor_path(folder: RunsFolder, store: str, name: str) -> Path:
    """The file of a run's or a reproduction's cursor."""
    return _store_folder(folder, store) / f"{name}.json"


def read_cursor(folder: RunsFolder, store: str, name: str) -> Cursor:
    """The cursor of a run; a new one if there is none.

    Degenerate cases: one that cannot be read is as good as none. The run is then delivered again, as another one.
    """
    path = cursor_path(folder, store, name)
    if not path.exists():
        return Cursor(store)
    try:
        cursor = from_json(Cursor, read_json(path))
    except (RecordError, ValueError):
        return Cursor(store)
    return cursor if cursor.store == store and cursor.sent.keys() == FILES.keys() else Cursor(store)


def write_cursor(folder: RunsFolder, name: str, cursor: Cursor) -> None:
    """Keep a cursor."""
    path = cursor_path(folder, cursor.store, name)
    path.parent.mkdir(exist_ok=True)
    write_json(path, asdict(cursor))


def open_cursors(folder: RunsFolder, store: str) -> list[str]:
    """Names of the runs whose MLflow run was opened and not closed, reproductions included."""
    names = [path.stem for path in sorted(_store_folder(folder, store).glob("*.json"))]
    cursors = {name: read_cursor(folder, store, name) for name in names}
    return [name for name, cursor in cursors.items() if not cursor.closed]


def _store_folder(folder: RunsFolder, store: str) -> Path:
    return folder.cursors / hashlib.sha256(store.encode()).hexdigest()[:12]
