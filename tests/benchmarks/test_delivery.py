"""Bringing MLflow up to the record files: bounded batches, one MLflow run for one run, nothing left open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import shown
from benchmarks.cursor import Cursor, cursor_path, open_cursors, read_cursor, write_cursor
from benchmarks.delivery import Courier, Followed
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import STEPS, read_run
from benchmarks.tracking import Tracker, connect
from tests.benchmarks.test_tracking import assert_shows_the_records
from tests.benchmarks.test_tracking import shown as in_mlflow
from tests.reports.records import World, write

WORLD = World(arms=("sagc",), algorithms=("grpo",), seeds=(0,), problems=4)
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


@pytest.fixture
def run(runs_folder: RunsFolder) -> Path:
    """A finished run that MLflow has not seen."""
    (found,) = write(runs_folder.path, WORLD)
    with runs_folder.lock():
        return found


def courier(folder: RunsFolder, run: Path, tracker: Any = None) -> Courier:
    one = Courier(tracker or connect(folder, "sagc-test"), folder, None)
    one.follow(Followed(run, one.cursor(run.name)))
    return one


class Counting:
    """A tracker that counts the batches."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker, self.batches = tracker, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracker, name)

    def log(self, *arguments: Any) -> None:
        self.batches += 1
        self._tracker.log(*arguments)


def test_a_long_backlog_goes_in_bounded_batches(
    runs_folder: RunsFolder, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "BATCH_LINES", 7)
    tracker = Counting(connect(runs_folder, "sagc-test"))
    assert courier(runs_folder, run, tracker).finish("finished", lambda: True).undelivered == 0
    data = read_run(run)
    assert tracker.batches == -(-len(data.steps) // 7)
    client, found = in_mlflow(runs_folder)
    assert_shows_the_records(client, found[run.name][0], data)


def test_a_run_that_somebody_deleted_in_mlflow_is_delivered_anew(runs_folder: RunsFolder, run: Path) -> None:
    outcome = (run / "outcome.json").read_bytes()
    (run / "outcome.json").unlink()
    assert courier(runs_folder, run).finish("killed", lambda: True).undelivered == 1  # it has not ended
    client, found = in_mlflow(runs_folder)
    client.delete_run(found[run.name][0].info.run_id)
    (run / "outcome.json").write_bytes(outcome)
    assert courier(runs_folder, run).finish("finished", lambda: True).undelivered == 0
    client, found = in_mlflow(runs_folder)
    (only,) = found[run.name]
    assert_shows_the_records(client, only, read_run(run))


def test_two_stores_each_have_a_cursor_of_their_own(
    runs_folder: RunsFolder, run: Path, empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert courier(runs_folder, run).finish("finished", lambda: True).undelivered == 0
    with monkeypatch.context() as patch:
        (tmp_path / "other.db").write_bytes(empty_store.read_bytes())
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
        assert courier(runs_folder, run).finish("finished", lambda: True).undelivered == 0
    assert courier(runs_folder, run).cursor(run.name).closed  # the first store is as it was
    _, found = in_mlflow(runs_folder)
    assert len(found[run.name]) == 1


def test_a_cursor_that_begins_anew_closes_what_its_old_run_left_open() -> None:
    assert Cursor("s", opening="x").anew() == Cursor("s", opening="x")  # nothing was created, or it is found again
    assert Cursor("s", opening="x", mlflow_run="r", sent={STEPS: 3}).anew() == Cursor("s", superseded=["r"])
    assert Cursor("s", mlflow_run="r", closed=True).anew() == Cursor("s")
    assert Cursor("s", mlflow_run="r", superseded=["q"]).anew() == Cursor("s", superseded=["q", "r"])


def test_cursors_are_kept_by_store_and_the_open_ones_are_known(runs_folder: RunsFolder) -> None:
    with runs_folder.lock():
        write_cursor(runs_folder, "a", Cursor("one", mlflow_run="r"))
        write_cursor(runs_folder, "b", Cursor("one", mlflow_run="r", closed=True))
        write_cursor(runs_folder, "a", Cursor("two"))
    assert open_cursors(runs_folder, "one") == ["a"]
    assert read_cursor(runs_folder, "two", "a").mlflow_run is None
    assert cursor_path(runs_folder, "one", "a") != cursor_path(runs_folder, "two", "a")
    assert runs_folder.shown("b")
    assert not runs_folder.shown("c")
