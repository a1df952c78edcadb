"""Brings MLflow up to the record files: all of what they hold, once, whatever dies on either side.

The files are the queue: a cursor per run says how much of them MLflow has, so nothing is lost when MLflow is away,
nothing is sent twice, and delivering later is delivering again. A batch is bounded, however much has piled up.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.cursor import Cursor, read_cursor, write_cursor
from benchmarks.record import Status
from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import read_values, run_params, run_tags
from benchmarks.store import CONFIG, OUTCOME, read_config, read_outcome
from benchmarks.tracking import Tracker, mlflow_status

LAST_TRIES_S = 60.0
"""How long the end of a command waits for a store that does not answer [ours]."""
RETRY_S = 0.5
"""Pause between those tries [ours]."""
OPENING = "sagc.opening"
"""Tag with `Cursor.opening`."""


@dataclass(slots=True)
class Followed:
    """A run on its way to MLflow."""

    folder: Path
    cursor: Cursor
    reopened: bool = False
    """It was closed as killed, and goes on."""
    checked: bool = False
    """Its MLflow run is known to be there still."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was achieved."""

    undelivered: int
    """Runs of which MLflow lacks something."""
    errors: int
    last_error: str
    refused: dict[str, int]
    """Metric key -> numbers that MLflow cannot hold (NaN, infinite, no number, or an illegal key)."""


class Courier:
    """Delivers runs to one experiment of one store; every call may fail, and the next one goes on from there.

    Args:
        tracker: where to.
        folder: the runs folder.
        parent: name of the parent run, e.g. ``reproduction-cpu``; None: runs stand alone.
    """

    def __init__(self, tracker: Tracker, folder: RunsFolder, parent: str | None) -> None:
        self._tracker, self._folder, self._parent = tracker, folder, parent
        self._parent_run: str | None = None
        self._followed: dict[str, Followed] = {}
        self._lock = threading.Lock()
        self._errors, self._last_error = 0, ""
        self._refused: Counter[str] = Counter()

    def cursor(self, name: str) -> Cursor:
        """What is known of a run."""
        return read_cursor(self._folder, self._tracker.store, name)

    def follow(self, item: Followed) -> None:
        """Deliver this run from now on, until it is closed."""
        with self._lock:
            self._followed[item.folder.name] = item

    def begin(self, item: Followed) -> None:
        """Deliver this run, whose process is about to start.

        Its cursor is kept before that: a run may end after its command has died and before anything was sent, and
        an old cursor would say that MLflow has its end.
        """
        self._attempt(lambda: write_cursor(self._folder, item.folder.name, item.cursor))
        self.follow(item)

    def follows(self, name: str) -> bool:
        """Whether the run is among those that are delivered."""
        return name in self._followed

    def deliver_all(self) -> bool:
        """Send what is new of every run; whether MLflow has all of what there is."""
        with self._lock:
            items = [item for item in self._followed.values() if not item.cursor.closed]
        parent = self._parent is None or self._attempt(self._open_parent)
        return parent and all([self._attempt(partial(self._deliver, item)) for item in items])

    def finish(self, status: Status, give_up: Callable[[], bool]) -> Delivery:
        """Deliver the rest and end the parent run.

        Args:
            status: of the whole reproduction.
            give_up: asked before every further try.
        """
        deadline = time.monotonic() + LAST_TRIES_S
        while not (done := self.deliver_all()) and time.monotonic() < deadline and not give_up():
            time.sleep(RETRY_S)
        if done and self._parent is not None:
            done = self._attempt(partial(self._close_parent, status))
        missing = sum(not item.cursor.closed for item in self._followed.values())
        return Delivery(missing, self._errors, self._last_error, dict(self._refused))

    def _attempt(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:  # whatever MLflow raises: it is counted and tried again, and no run notices
            self._errors += 1
            self._last_error = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            return False
        return True

    def _open_parent(self) -> None:
        """The parent run that an earlier command left, or a new one."""
        if self._parent_run is not None:
            return
        assert self._parent is not None
        cursor = self.cursor(self._parent)
        if cursor.mlflow_run is not None and not self._tracker.exists(cursor.mlflow_run):
            cursor = Cursor(self._tracker.store)
        found = cursor.mlflow_run is not None
        cursor, run = self._open(self._parent, cursor, self._parent, {"sagc.kind": "reproduction"})
        if cursor.closed:  # on the disk first, as everywhere
            write_cursor(self._folder, self._parent, replace(cursor, closed=False))
        if found:
            self._tracker.reopen(run)
        self._parent_run = run

    def _close_parent(self, status: Status) -> None:
        assert self._parent is not None
        assert self._parent_run is not None
        self._tracker.tag(self._parent_run, {"sagc.outcome": status})
        self._tracker.close(self._parent_run, mlflow_status(status))
        write_cursor(self._folder, self._parent, replace(self.cursor(self._parent), closed=True))

    def _open(self, name: str, cursor: Cursor, shown: str, tags: dict[str, str]) -> tuple[Cursor, str]:
        """The cursor with its MLflow run, created once, however often this dies on the way."""
        if cursor.mlflow_run is not None:
            return cursor, cursor.mlflow_run
        found = None
        if cursor.opening is None:
            cursor = replace(cursor, opening=uuid.uuid4().hex)
            write_cursor(self._folder, name, cursor)
        else:
            found = self._tracker.find(OPENING, str(cursor.opening))
        tags = {**tags, OPENING: str(cursor.opening)}
        run = found or self._tracker.open_run(shown, tags, self._parent_run)
        cursor = replace(cursor, mlflow_run=run)
        write_cursor(self._folder, name, cursor)
        return cursor, run

    def _deliver(self, item: Followed) -> None:
        """Bring MLflow up to the run's files; raises whatever MLflow does, with the cursor where it got to."""
        outcome = read_outcome(item.folder)  # before the records: with it there, they are complete
        self._close_superseded(item)
        run = self._mlflow_run(item)
        if not item.cursor.config_sent:
            self._tracker.params(run, run_params(read_config(item.folder)["spec"]))
            self._tracker.artifact(run, item.folder / CONFIG)
            self._note(item, config_sent=True)
        while self._send_batch(item, run):
            pass
        if outcome is not None:
            tags = {"sagc.outcome": outcome.status, "sagc.completed_steps": str(outcome.steps)}
            self._tracker.tag(run, tags | {"sagc.reason": outcome.reason})
            self._tracker.artifact(run, item.folder / OUTCOME)
            self._tracker.close(run, mlflow_status(outcome.status))
            self._note(item, closed=True)

    def _close_superseded(self, item: Followed) -> None:
        for run in item.cursor.superseded:
            if self._tracker.exists(run):
                self._tracker.tag(run, {"sagc.outcome": "killed"})
                self._tracker.close(run, mlflow_status("killed"))
        if item.cursor.superseded:
            self._note(item, superseded=[])

    def _mlflow_run(self, item: Followed) -> str:
        """The run's MLflow run, there and open."""
        known = item.cursor.mlflow_run
        if known is not None and not item.checked and not self._tracker.exists(known):
            item.cursor, item.reopened = Cursor(item.cursor.store), False  # somebody has deleted it
        if item.reopened and known is not None:
            self._tracker.reopen(known)
        item.reopened, item.checked = False, True
        if item.cursor.mlflow_run is not None:
            return item.cursor.mlflow_run
        config = read_config(item.folder)
        item.cursor, run = self._open(item.folder.name, item.cursor, config["name"], run_tags(item.folder.name, config))
        return run

    def _send_batch(self, item: Followed, run: str) -> bool:
        """One batch: the one that failed last time, or the next lines; False when there are none."""
        cursor = item.cursor
        values, upto, refused = read_values(item.folder, cursor.sent, cursor.sending)
        if upto == cursor.sent:
            return False
        if cursor.sending is None:
            self._note(item, sending=upto, timestamp_ms=int(time.time() * 1000))
        self._tracker.log(run, values, item.cursor.timestamp_ms)
        self._refused.update(refused)
        self._note(item, sent=upto, sending=None)
        return True

    def _note(self, item: Followed, **changes: object) -> None:
        """Change the cursor, on the disk first: what is not kept there is done again."""
        cursor = replace(item.cursor, **changes)  # type: ignore[arg-type]  # the names are checked at run time
        write_cursor(self._folder, item.folder.name, cursor)
        item.cursor = cursor
