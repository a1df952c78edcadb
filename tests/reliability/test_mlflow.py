"""A store that is locked, full, dead or hostile stops no run and loses no number: each step is there once at last."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from benchmarks import delivery
from benchmarks.cli import main
from benchmarks.commands import Reports
from benchmarks.delivery import Courier, Followed
from benchmarks.metrics import GROUP_SIZE, REWARD
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import STEPS, read_run
from benchmarks.tracking import Tracker, connect
from reports import build, keep, sensitivity
from tests.benchmarks.fake_engine import FAKES
from tests.reliability.conftest import PATIENCE_S, ROOT, fresh, wait_for
from tests.reliability.test_damage import FAKE_CLI, mounted, wait_for_a_step

SUITE = "sagc-runs"
SETTINGS = ("evaluation.problems=4", "evaluation.final_problems=8", "evaluation.milestones=2")
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


def asked(folder: RunsFolder, engine: str = "fake", steps: int = 8) -> tuple[str, ...]:
    return (
        *("run", "--engine", engine, "--task", "steady", "--algorithm", "grpo", "--arm", "sagc"),
        *("--horizon-prompts", "8", "--horizon-rollouts", str(64 * steps), "--runs", str(folder.path)),
        *(part for setting in SETTINGS for part in ("--set", setting)),
    )


def command(*arguments: str) -> int:
    return main(arguments, reports=Reports(build=build, keep=keep, sensitivity=sensitivity), engines=FAKES)


def assert_each_step_is_there_once(client: MlflowClient, folder: RunsFolder) -> None:
    experiment = client.get_experiment_by_name(SUITE)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert Counter(run.data.tags["sagc.run_id"] for run in runs) == dict.fromkeys((f.name for f in folder.runs()), 1)
    for run in runs:
        steps = read_run(folder.run(run.data.tags["sagc.run_id"])).steps
        for key, values in ((GROUP_SIZE, [s.group_size for s in steps]), (REWARD, [s.reward_mean for s in steps])):
            history = client.get_metric_history(run.info.run_id, key)
            assert sorted((metric.step, metric.value) for metric in history) == list(enumerate(values, 1))


def client_of(folder: RunsFolder) -> MlflowClient:
    return connect(folder, SUITE).client


@contextmanager
def locked(database: Path, seconds: float) -> Iterator[None]:
    """Somebody else writes the database for so long."""
    holder = sqlite3.connect(database, isolation_level=None, check_same_thread=False, timeout=60)
    holder.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(seconds, holder.rollback)
    release.start()
    try:
        yield
    finally:
        release.join()
        holder.close()


@pytest.mark.parametrize("seconds", [25, pytest.param(60, marks=pytest.mark.soak)])
def test_a_locked_database_delays_no_step_and_loses_none(
    tmp_path: Path, ready: Path, seconds: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """MLflow itself gives up after 20 s and loses what it held."""
    folder = fresh(tmp_path / "runs", ready)
    process = start(*asked(folder, "slow", steps=20), module=FAKE_CLI)
    run = wait_for_a_step(folder, process)
    with locked(folder.path / "mlflow.db", seconds):
        began = time.monotonic()
        ended = wait_for(process)
    assert ended.code == 0, ended.text
    data = read_run(run)
    waited = [sum(timing.wall_s.values()) for timing in data.timings]
    assert max(waited) < seconds / 2  # a step that had waited for the lock would have taken all of it
    assert "MLflow did not answer" in ended.text or time.monotonic() - began < 20
    assert_each_step_is_there_once(client_of(folder), folder)


def test_a_store_whose_disk_is_full_loses_nothing_and_sync_delivers_it(
    tmp_path: Path,
    ready: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(delivery, "LAST_TRIES_S", 2.0)
    folder, disk = fresh(tmp_path / "runs", ready), tmp_path / "disk"
    with mounted(disk, "tmpfs", "-t", "tmpfs", "-o", "size=8m"):
        (disk / "mlflow.db").write_bytes((ready / "mlflow.db").read_bytes())
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{disk}/mlflow.db")
        connect(folder, SUITE)
        room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(bytes(room))
        assert command(*asked(folder)) == 0
        shown = capsys.readouterr().out
        assert "MLflow lacks records of 1 runs" in shown
        assert "sync-mlflow" in shown
        (disk / "ballast").unlink()
        assert command("sync-mlflow", "--runs", str(folder.path)) == 0
        assert_each_step_is_there_once(client_of(folder), folder)


def test_what_mlflow_cannot_hold_is_counted_and_takes_nothing_with_it(
    tmp_path: Path, ready: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None, NaN, infinity and an illegal key; text instead of a number is no record at all and is refused."""
    folder = fresh(tmp_path / "runs", ready)
    assert command(*asked(folder)) == 0
    (run,) = folder.runs()
    text = (run / STEPS).read_text()
    text = text.replace('"loss":0.5', '"loss":NaN', 1).replace('"grad_norm":1.0', '"grad_norm":-Infinity', 2)
    text = text.replace('"controller":{', '"controller":{"pass@1":0.5,', 3).replace(
        '"clip_frac":0.0', '"clip_frac":null'
    )
    (run / STEPS).write_text(text)
    store = tmp_path / "other.db"
    store.write_bytes((ready / "mlflow.db").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
        capsys.readouterr()
        assert command("sync-mlflow", "--runs", str(folder.path)) == 0
        shown = capsys.readouterr().out
        assert "controller/pass@1 (3), grad_norm (2), loss (1)" in shown
        assert_each_step_is_there_once(client_of(folder), folder)
    (run / STEPS).write_text(text.replace('"accuracy":', '"accuracy":"many","x":', 1))
    third = tmp_path / "third.db"
    third.write_bytes((ready / "mlflow.db").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "LAST_TRIES_S", 1.0)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{third}")
        assert command("sync-mlflow", "--runs", str(folder.path)) == 1
    assert "steps.jsonl, line 1 must be a StepRecord" in capsys.readouterr().out


def test_sync_delivers_each_step_once_and_then_has_nothing_to_do(
    tmp_path: Path, ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fresh(tmp_path / "runs", ready)

    def away(*_: object) -> None:
        raise ConnectionError("the store is away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tracker, "log", away)
        patch.setattr(delivery, "LAST_TRIES_S", 1.0)
        assert command(*asked(folder)) == 0
    capsys.readouterr()
    assert command("sync-mlflow", "--runs", str(folder.path)) == 0
    assert "1 brought up to date" in capsys.readouterr().out
    assert_each_step_is_there_once(client_of(folder), folder)
    assert command("sync-mlflow", "--runs", str(folder.path)) == 0
    assert "all there already" in capsys.readouterr().out
    assert_each_step_is_there_once(client_of(folder), folder)
    with folder.lock():
        assert command("sync-mlflow", "--runs", str(folder.path)) == 2
    assert command("sync-mlflow", "--runs", str(tmp_path / "none")) == 2
    assert command("sync-mlflow", "--runs", str(folder.path), "--profile", "smoke") == 2
    assert "profile must have been reproduced" in capsys.readouterr().err


def test_a_process_that_dies_between_mlflows_run_and_its_own_note_finds_the_run_again(
    tmp_path: Path, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fresh(tmp_path / "runs", ready)
    assert command(*asked(folder)) == 0
    (run,) = folder.runs()
    store = tmp_path / "other.db"
    store.write_bytes((ready / "mlflow.db").read_bytes())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
    tracker = connect(folder, SUITE)
    create = Tracker.open_run

    def dies(*arguments: object) -> str:
        create(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt  # unlike an error it is not caught: the courier is gone, its files are as they are

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tracker, "open_run", dies)
        courier = Courier(tracker, folder, None)
        courier.follow(Followed(run, courier.cursor(run.name)))
        with pytest.raises(KeyboardInterrupt):
            courier.deliver_all()
    assert command("sync-mlflow", "--runs", str(folder.path)) == 0
    assert_each_step_is_there_once(tracker.client, folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A real `mlflow server`, which can be killed and started again on the same database and port."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.address = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        database, artifacts = self._folder / "server.db", self._folder / "artifacts"
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"),
                *("--port", str(self.port), "--backend-store-uri", f"sqlite:///{database}"),
                *("--artifacts-destination", str(artifacts)),
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.5)
        raise AssertionError("the server did not answer")

    def addresses(self) -> set[str]:
        """What its processes listen on."""
        assert self._process is not None
        family = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        return {
            connection.laddr.ip
            for process in family
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        }

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(tmp_path: Path, ready: Path) -> Iterator[Server]:
    (tmp_path / "server.db").write_bytes((ready / "mlflow.db").read_bytes())
    one = Server(tmp_path)
    one.start()
    yield one
    one.kill()


@pytest.mark.soak
def test_a_tracking_server_that_dies_and_comes_back_gets_every_step_once(
    tmp_path: Path, ready: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fresh(tmp_path / "runs", ready)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    process = subprocess.Popen(
        [sys.executable, "-m", FAKE_CLI, *asked(folder, "slow", steps=60)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    run = wait_for_a_step(folder, process)
    server.kill()
    steps = len(read_run(run).steps)
    time.sleep(5)
    assert len(read_run(run).steps) > steps  # it trains on
    server.start()
    ended = wait_for(process)
    assert ended.code == 0, ended.text
    assert (
        command("sync-mlflow", "--runs", str(folder.path)) == 0
    )  # whatever the minute of last tries was too short for
    assert_each_step_is_there_once(MlflowClient(server.address), folder)
    assert server.addresses() == {"127.0.0.1"}
    server.kill()
    assert command(*asked(folder)) == 2  # from the start on without a server: refused, as bad input
