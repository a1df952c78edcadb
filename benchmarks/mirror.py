"""Shows runs in MLflow while they happen, by following their record files.

The files are the queue: a cursor per run says how much of them MLflow has, so nothing is lost when MLflow is away,
nothing is sent twice, and delivering later is following again. MLflow never stops or delays a run.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import get_args

from benchmarks.record import Status
from benchmarks.runner import Run
from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import FILES, read_values, run_params, run_tags
from benchmarks.store import CONFIG, OUTCOME, read_json, read_outcome, write_json
from benchmarks.tracking import DESCRIPTION, Tracker, mlflow_status

PERIOD_S = 2.0
"""How often new records are sent."""
LAST_TRIES_S = 60.0
"""How long the end of a command waits for a store that does not answer [ours]."""


@dataclass(slots=True)
class Cursor:
    """How much of one run MLflow has; JSON, kept outside the run folder."""

    store: str
    """See `Tracker.store`."""
    mlflow_run: str | None = None
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FILES, 0))
    """Lines of each file: a run that went back to a checkpoint writes the same ones again, and they are not resent."""
    sending: dict[str, int] | None = None
    """Up to which line the present batch goes: after a failure exactly that batch is sent again,"""
    timestamp_ms: int = 0
    """with its old time, so that what did arrive is stored once."""
    config_sent: bool = False
    closed: bool = False


@dataclass(slots=True)
class _Followed:
    folder: Path
    cursor: Cursor
    superseded: str | None = None
    """MLflow run of an earlier start that never said how it ended."""
    reopened: bool = False
    """It was closed as killed, and goes on."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the mirror achieved."""

    undelivered: int
    """Runs of which MLflow lacks something."""
    errors: int
    last_error: str
    refused: dict[str, int]
    """Metric key -> numbers that MLflow cannot hold (NaN, infinite, or an illegal key)."""


def read_cursor(tracker: Tracker, folder: RunsFolder, name: str) -> Cursor:
    """The cursor of a run; a new one if there is none, or only one for another store."""
    path = folder.cursor(name)
    cursor = Cursor(**read_json(path)) if path.exists() else Cursor(tracker.store)
    return cursor if cursor.store == tracker.store else Cursor(tracker.store)


def attach_report(tracker: Tracker, folder: RunsFolder, parent: str, files: Sequence[Path], headline: str) -> None:
    """Attach a report to the parent run, with the verdicts as its description; raises whatever MLflow does.

    Degenerate cases: a reproduction that this store has never seen gets nothing.
    """
    cursor = read_cursor(tracker, folder, parent)
    if cursor.mlflow_run is None:
        return
    for file in files:
        tracker.artifact(cursor.mlflow_run, file)
    tracker.tag(cursor.mlflow_run, {DESCRIPTION: headline})


class Mirror:
    """Follows runs in a thread of its own.

    Args:
        tracker: where to.
        folder: the runs folder.
        parent: name of the parent run, e.g. ``reproduction-cpu``; None: runs stand alone.
    """

    def __init__(self, tracker: Tracker, folder: RunsFolder, parent: str | None) -> None:
        self._tracker, self._folder = tracker, folder
        self._followed: dict[str, _Followed] = {}
        self._lock, self._end = threading.Lock(), threading.Event()
        self._errors, self._last_error = 0, ""
        self._refused: Counter[str] = Counter()
        self._parent = None if parent is None else self._open_parent(parent)
        self._thread = threading.Thread(target=self._follow, name="mirror", daemon=True)
        self._thread.start()

    def said(self, text: str) -> None:
        """See `Observer.said`; of no interest here."""

    def ticked(self) -> None:
        """See `Observer.ticked`; the thread has its own clock."""

    def started(self, run: Run) -> None:
        """Follow a run that begins; one that goes on keeps its MLflow run, one begun anew has its old one closed."""
        assert run.folder is not None
        old = read_cursor(self._tracker, self._folder, run.folder.name)
        if run.resumed_at is not None:
            self._add(_Followed(run.folder, replace(old, closed=False), reopened=old.closed))
            return
        left_open = old.mlflow_run if not old.closed else None
        self._add(_Followed(run.folder, Cursor(self._tracker.store), superseded=left_open))

    def ended(self, run: Run) -> None:
        """Deliver what an earlier command could not; a run that this one started is followed already."""
        if run.folder is not None and run.state in get_args(Status) and run.folder.name not in self._followed:
            self._add(_Followed(run.folder, read_cursor(self._tracker, self._folder, run.folder.name)))

    def close(self, status: Status, give_up: Callable[[], bool]) -> Delivery:
        """Deliver the rest and end the parent run.

        Args:
            status: of the whole reproduction.
            give_up: asked before every further try.
        """
        self._end.set()
        self._thread.join()
        deadline = time.monotonic() + LAST_TRIES_S
        while not (done := self._deliver_all()) and time.monotonic() < deadline and not give_up():
            time.sleep(PERIOD_S / 4)
        if self._parent and done:
            self._attempt(partial(self._tracker.close, self._parent, mlflow_status(status)))
        missing = sum(not item.cursor.closed for item in self._followed.values())
        return Delivery(missing, self._errors, self._last_error, dict(self._refused))

    def _open_parent(self, name: str) -> str:
        """The parent run that an earlier command left, or a new one."""
        cursor = read_cursor(self._tracker, self._folder, name)
        if cursor.mlflow_run is not None and self._tracker.exists(cursor.mlflow_run):
            self._tracker.reopen(cursor.mlflow_run)
        else:
            cursor.mlflow_run = self._tracker.open_run(name, {"sagc.kind": "reproduction"}, {}, None)
            write_json(self._folder.cursor(name), asdict(cursor))
        return cursor.mlflow_run

    def _add(self, item: _Followed) -> None:
        with self._lock:
            self._followed[item.folder.name] = item

    def _follow(self) -> None:
        while not self._end.wait(PERIOD_S):
            self._deliver_all()

    def _deliver_all(self) -> bool:
        """Send what is new of every run; whether MLflow has all of what there is."""
        with self._lock:
            items = [item for item in self._followed.values() if not item.cursor.closed]
        return all([self._attempt(partial(self._deliver, item)) for item in items])

    def _attempt(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:  # whatever MLflow raises: it is counted and tried again, and no run notices
            self._errors += 1
            self._last_error = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            return False
        return True

    def _deliver(self, item: _Followed) -> None:
        """Bring MLflow up to the run's files; raises whatever MLflow does, with the cursor where it got to."""
        if item.superseded and self._tracker.exists(item.superseded):
            self._tracker.tag(item.superseded, {"sagc.outcome": "killed"})
            self._tracker.close(item.superseded, mlflow_status("killed"))
        item.superseded = None
        if item.reopened and item.cursor.mlflow_run is not None:
            self._tracker.reopen(item.cursor.mlflow_run)
        item.reopened = False
        outcome = read_outcome(item.folder)  # before the records: with it there, they are complete
        cursor = item.cursor
        if cursor.mlflow_run is None:
            config = read_json(item.folder / CONFIG)
            tags = run_tags(item.folder.name, config)
            params = run_params(config["spec"])
            cursor.mlflow_run = self._tracker.open_run(config["name"], tags, params, self._parent)
            self._save(item)
        if not cursor.config_sent:
            self._tracker.artifact(cursor.mlflow_run, item.folder / CONFIG)
            cursor.config_sent = True
            self._save(item)
        self._send_records(item, cursor.mlflow_run)
        if outcome is not None:
            self._send_records(item, cursor.mlflow_run)  # what came between a batch sent again and the end
            tags = {"sagc.outcome": outcome.status, "sagc.completed_steps": str(outcome.steps)}
            self._tracker.tag(cursor.mlflow_run, tags | {"sagc.reason": outcome.reason})
            self._tracker.artifact(cursor.mlflow_run, item.folder / OUTCOME)
            self._tracker.close(cursor.mlflow_run, mlflow_status(outcome.status))
            cursor.closed = True
            self._save(item)

    def _send_records(self, item: _Followed, mlflow_run: str) -> None:
        """One batch: the one that failed last time, or all new lines."""
        cursor = item.cursor
        values, upto, refused = read_values(item.folder, cursor.sent, cursor.sending)
        if upto == cursor.sent:
            return
        if cursor.sending is None:
            cursor.sending, cursor.timestamp_ms = upto, int(time.time() * 1000)
            self._save(item)
        self._tracker.log(mlflow_run, values, cursor.timestamp_ms)
        self._refused.update(refused)
        cursor.sent, cursor.sending = upto, None
        self._save(item)

    def _save(self, item: _Followed) -> None:
        write_json(self._folder.cursor(item.folder.name), asdict(item.cursor))
