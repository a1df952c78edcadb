"""Shows runs in MLflow while they happen, in a thread of its own; MLflow never stops or delays a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.cursor import open_cursors, read_cursor
from benchmarks.delivery import Courier, Delivery, Followed
from benchmarks.engines import CHECKPOINTS
from benchmarks.record import Status
from benchmarks.runner import Run
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import CONFIG, RecordError, read_config
from benchmarks.tracking import DESCRIPTION, Tracker

PERIOD_S = 2.0
"""How often new records are sent."""


def attach_report(tracker: Tracker, folder: RunsFolder, parent: str, files: Sequence[Path], headline: str) -> None:
    """Attach a report to the parent run, with the verdicts as its description; raises whatever MLflow does.

    Degenerate cases: a reproduction that this store has never seen gets nothing.
    """
    run = read_cursor(folder, tracker.store, parent).mlflow_run
    if run is None:
        return
    for file in files:
        tracker.artifact(run, file)
    tracker.tag(run, {DESCRIPTION: headline})


def left_behind(folder: RunsFolder, store: str) -> list[Path]:
    """Runs whose MLflow run was opened and never closed: their command died, or MLflow did not answer in the end."""
    names = open_cursors(folder, store)
    return [run for run in folder.runs() if run.name in names]


class Mirror:
    """Follows runs; an `Observer`.

    Args:
        tracker: where to.
        folder: the runs folder.
        parent: name of the parent run, e.g. ``reproduction-cpu``; None: runs stand alone.
        planned: names of the runs to come; what others left behind is delivered first.
    """

    def __init__(self, tracker: Tracker, folder: RunsFolder, parent: str | None, planned: Collection[str] = ()) -> None:
        self._courier = Courier(tracker, folder, parent)
        self._end = threading.Event()
        for run in left_behind(folder, tracker.store):
            if _name(run) not in planned:
                self._courier.follow(Followed(run, self._courier.cursor(run.name)))
        self._thread = threading.Thread(target=self._follow, name="mirror", daemon=True)
        self._thread.start()

    def said(self, text: str) -> None:
        """See `Observer.said`; of no interest here."""

    def ticked(self) -> None:
        """See `Observer.ticked`; the thread has its own clock."""

    def started(self, run: Run) -> None:
        """Follow a run that begins; one that goes on keeps its MLflow run, any other has its old one closed.

        A framework's checkpoint does not bring back the same steps: those that MLflow has after it never were.
        """
        assert run.folder is not None
        old = self._courier.cursor(run.folder.name)
        if run.resumed_at is None or run.spec.engine in CHECKPOINTS:
            self._courier.begin(Followed(run.folder, old.anew()))
        else:
            self._courier.begin(Followed(run.folder, replace(old, closed=False), reopened=True))

    def ended(self, run: Run) -> None:
        """Deliver what an earlier command could not; a run that this one started is followed already."""
        if run.folder is not None and (run.folder / CONFIG).exists() and not self._courier.follows(run.folder.name):
            self._courier.follow(Followed(run.folder, self._courier.cursor(run.folder.name)))

    def close(self, status: Status, give_up: Callable[[], bool]) -> Delivery:
        """Deliver the rest and end the parent run; see `Courier.finish`."""
        self._end.set()
        self._thread.join()
        return self._courier.finish(status, give_up)

    def _follow(self) -> None:
        while not self._end.wait(PERIOD_S):
            self._courier.deliver_all()


def _name(folder: Path) -> str | None:
    """What a run is called in plans; None if its folder cannot be read."""
    try:
        return str(read_config(folder)["name"])
    except RecordError:
        return None
