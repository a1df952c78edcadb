"""MLflow shows what the record files hold: all of it, once, and it cannot hurt a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun

from benchmarks.cursor import cursor_path
from benchmarks.delivery import Courier, Delivery, Followed
from benchmarks.metrics import ALWAYS, CONTROLLER, DUAL_VARIABLE, EVALUATION_ACCURACY, GROUP_SIZE, STRAGGLER_RATE
from benchmarks.mirror import Mirror
from benchmarks.processes import Stop
from benchmarks.record import EvaluationRecord, Status, StepRecord, StepTiming
from benchmarks.runner import Run, Runner
from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import record_metrics, run_params
from benchmarks.spec import RunSpec
from benchmarks.store import OUTCOME, SITTINGS, STEPS, RunData, read_json, read_run, write_outcome
from benchmarks.suite import Plan, planned_run
from benchmarks.tracking import IGNORED, Tracker, connect, drop_ignored, mlflow_status, tracking_uri
from sagc.errors import ConfigError
from tests.benchmarks.fake_engine import FAKES
from tests.benchmarks.test_runner import spec

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


class Unreliable:
    """A tracker whose `log` fails as often as it is told to, before or after the numbers have arrived."""

    def __init__(self, tracker: Tracker, failures: int, arrives: bool = False) -> None:
        self._tracker, self.failures, self._arrives = tracker, failures, arrives

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracker, name)

    def log(self, *arguments: Any) -> None:
        if self._arrives or not self.failures:
            self._tracker.log(*arguments)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the store is away")


def carry(
    folder: RunsFolder, *specs: RunSpec, tracker: Any = None, parent: str | None = "reproduction-test"
) -> tuple[list[Run], Delivery]:
    """Run specs, mirrored; `give_up` after one try where the tracker is unreliable for good."""
    stop = Stop()
    with folder.lock():
        plan = Plan(runs=tuple(map(planned_run, specs)))
        runner = Runner(plan, folder=folder, engines=FAKES, jobs=2, provenance={}, stop=stop)
        mirror = Mirror(tracker or connect(folder, "sagc-test"), folder, parent)
        runner.observe(mirror)
        runner.run()
        finished = all(run.state == "finished" for run in runner.runs)
        delivery = mirror.close("finished" if finished else "failed", lambda: getattr(tracker, "failures", 0) > 100)
    return runner.runs, delivery


def shown(folder: RunsFolder) -> tuple[MlflowClient, dict[str, list[MlflowRun]]]:
    """The MLflow runs by run_id; the parent under its name."""
    client = connect(folder, "sagc-test").client
    experiment = client.get_experiment_by_name("sagc-test")
    assert experiment is not None
    found: dict[str, list[MlflowRun]] = defaultdict(list)
    for run in client.search_runs([experiment.experiment_id]):
        found[run.data.tags.get("sagc.run_id", run.info.run_name)].append(run)
    return client, found


def expected(data: RunData) -> dict[str, dict[int, float]]:
    """Metric -> step -> value, from the record files."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    records: list[StepRecord | StepTiming | EvaluationRecord] = [*data.steps, *data.timings, *data.evaluations]
    for record in records:
        for key, value in record_metrics(record).items():
            if value is not None:
                assert record.step not in values[key]
                values[key][record.step] = value
    return values


def assert_shows_the_records(client: MlflowClient, run: MlflowRun, data: RunData) -> None:
    wanted = expected(data)
    assert set(run.data.metrics) == set(wanted)
    for key, values in wanted.items():
        history = client.get_metric_history(run.info.run_id, key)
        assert sorted((metric.step, metric.value) for metric in history) == sorted(values.items()), key


def test_mlflow_shows_what_the_files_hold_each_step_once(runs_folder: RunsFolder) -> None:
    runs, delivery = carry(runs_folder, spec("sagc"), spec("static_8"))
    assert (delivery.undelivered, delivery.errors, delivery.refused) == (0, 0, {})
    client, found = shown(runs_folder)
    parent = found["reproduction-test"][0]
    assert parent.info.status == "FINISHED"
    for run in runs:
        assert run.folder is not None
        (mirrored,) = found[run.spec.run_id]
        data = read_run(run.folder)
        assert_shows_the_records(client, mirrored, data)
        assert {*ALWAYS, GROUP_SIZE, STRAGGLER_RATE, EVALUATION_ACCURACY} <= set(mirrored.data.metrics)
        assert mirrored.info.status == "FINISHED"
        assert mirrored.info.run_name == run.name
        tags = mirrored.data.tags
        assert tags["mlflow.parentRunId"] == parent.info.run_id
        assert tags["sagc.config_hash"] == run.spec.config_hash
        assert (tags["sagc.outcome"], tags["sagc.completed_steps"]) == ("finished", str(len(data.steps)))
        assert {item.path for item in client.list_artifacts(mirrored.info.run_id)} == {"config.json", "outcome.json"}
        local = client.download_artifacts(mirrored.info.run_id, "config.json", str(runs_folder.path))
        assert read_json(Path(local)) == data.config
    sagc = found[runs[0].spec.run_id][0].data.metrics
    assert DUAL_VARIABLE in sagc
    assert CONTROLLER + "risk_8" in sagc
    assert DUAL_VARIABLE not in found[runs[1].spec.run_id][0].data.metrics


@pytest.mark.parametrize("arrives", [False, True])
def test_a_store_that_fails_stops_no_run_and_gets_every_step_once(runs_folder: RunsFolder, arrives: bool) -> None:
    tracker = Unreliable(connect(runs_folder, "sagc-test"), failures=3, arrives=arrives)
    runs, delivery = carry(runs_folder, spec("static_8"), tracker=tracker)
    assert runs[0].state == "finished"
    assert delivery == Delivery(undelivered=0, errors=3, last_error="the store is away", refused={})
    client, found = shown(runs_folder)
    assert runs[0].folder is not None
    assert_shows_the_records(client, found[runs[0].spec.run_id][0], read_run(runs[0].folder))


def test_what_could_not_be_delivered_is_said_and_the_same_command_delivers_it(runs_folder: RunsFolder) -> None:
    tracker = Unreliable(connect(runs_folder, "sagc-test"), failures=1000)
    runs, delivery = carry(runs_folder, spec("static_8"), tracker=tracker)
    assert runs[0].state == "finished"
    assert delivery.undelivered == 1
    assert delivery.last_error == "the store is away"
    _, found = shown(runs_folder)
    assert found[runs[0].spec.run_id][0].info.status == "RUNNING"

    runs, delivery = carry(runs_folder, spec("static_8"))
    assert runs[0].reused
    assert delivery.undelivered == 0
    client, found = shown(runs_folder)
    assert runs[0].folder is not None
    assert len(found["reproduction-test"]) == 1
    (mirrored,) = found[runs[0].spec.run_id]
    assert mirrored.info.status == "FINISHED"
    assert_shows_the_records(client, mirrored, read_run(runs[0].folder))


def test_a_run_that_is_started_anew_closes_the_mlflow_run_that_its_death_left_open(runs_folder: RunsFolder) -> None:
    tracker = Unreliable(connect(runs_folder, "sagc-test"), failures=1000)
    broken = spec("static_8", engine="SIGKILL")
    carry(runs_folder, broken, tracker=tracker)
    carry(runs_folder, broken)
    client, found = shown(runs_folder)
    ends = sorted((run.info.status, run.data.tags["sagc.outcome"]) for run in found[broken.run_id])
    assert ends == [("FINISHED", "finished"), ("KILLED", "killed")]
    whole = next(run for run in found[broken.run_id] if run.info.status == "FINISHED")
    assert_shows_the_records(client, whole, read_run(runs_folder.run(broken.run_id)))


def test_a_run_that_failed_is_shown_as_such_with_its_parent(runs_folder: RunsFolder) -> None:
    broken = spec("static_8", engine="raise")
    carry(runs_folder, broken)
    client, found = shown(runs_folder)
    (mirrored,) = found[broken.run_id]
    assert (mirrored.info.status, mirrored.data.tags["sagc.outcome"]) == ("FAILED", "failed")
    assert (mirrored.data.tags["sagc.completed_steps"]) == "2"
    assert "RuntimeError" in mirrored.data.tags["sagc.reason"]
    assert found["reproduction-test"][0].info.status == "FAILED"
    assert_shows_the_records(client, mirrored, read_run(runs_folder.run(broken.run_id)))


def test_a_store_that_was_deleted_is_filled_again(runs_folder: RunsFolder, empty_store: Path) -> None:
    carry(runs_folder, spec("static_8"))
    (runs_folder.path / "mlflow.db").write_bytes(empty_store.read_bytes())
    runs, delivery = carry(runs_folder, spec("static_8"))
    assert runs[0].reused
    assert delivery.undelivered == 0
    client, found = shown(runs_folder)
    assert_shows_the_records(
        client, found[spec("static_8").run_id][0], read_run(runs_folder.run(spec("static_8").run_id))
    )


def test_a_number_that_mlflow_cannot_hold_is_counted_and_loses_no_other(runs_folder: RunsFolder) -> None:
    run = spec("static_8")
    carry(runs_folder, run)
    steps = runs_folder.run(run.run_id) / STEPS
    steps.write_text(steps.read_text().replace('"loss":0.5', '"loss":NaN', 1))
    cursor_path(runs_folder, connect(runs_folder, "sagc-test").store, run.run_id).unlink()
    _, delivery = carry(runs_folder, run)
    assert (delivery.undelivered, delivery.refused) == (0, {"loss": 1})
    client, found = shown(runs_folder)
    count = len(read_run(runs_folder.run(run.run_id)).steps)
    newest = max(found[run.run_id], key=lambda mirrored: mirrored.info.start_time)
    lengths = {key: len(client.get_metric_history(newest.info.run_id, key)) for key in ("loss", GROUP_SIZE)}
    assert lengths == {"loss": count - 1, GROUP_SIZE: count}


def test_nothing_of_mlflow_lies_in_the_run_folder(runs_folder: RunsFolder) -> None:
    carry(runs_folder, spec("static_8"))
    names = {path.name for path in runs_folder.run(spec("static_8").run_id).iterdir()}
    assert names == {"config.json", "steps.jsonl", "timings.jsonl", "evaluations.jsonl", SITTINGS, OUTCOME}


@pytest.mark.parametrize("status", get_args(Status))
def test_every_status_has_one_of_mlflows(status: Status) -> None:
    """Table B42, with our statuses."""
    wanted = {"finished": "FINISHED", "killed": "KILLED"}.get(cast(str, status), "FAILED")
    assert mlflow_status(status) == wanted


@pytest.mark.slow  # four processes import MLflow, and one creates its tables: over 10 s
def test_four_starters_on_a_fresh_store_all_live(tmp_path: Path) -> None:
    """B43: without the lock at most one of them does, and the file may stay broken."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.runs_folder import RunsFolder\n"
        "from benchmarks.tracking import connect\n"
        "print(connect(RunsFolder(Path(sys.argv[1])), 'sagc-test').experiment_id)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        for _ in range(4)
    ]
    answers = [starter.communicate()[0] for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 4
    assert len(set(answers)) == 1
    assert answers[0]


def test_the_store_is_named_absolutely_from_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B47: a relative SQLite address names another file in every folder."""
    monkeypatch.chdir(tmp_path)
    assert tracking_uri(RunsFolder(Path("runs")), {}) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    given = {"MLFLOW_TRACKING_URI": "sqlite:///own.db"}
    assert tracking_uri(RunsFolder(Path("runs")), given) == f"sqlite:///{tmp_path}/own.db"
    assert tracking_uri(RunsFolder(Path("runs")), {"MLFLOW_TRACKING_URI": "http://a:1"}) == "http://a:1"


def test_variables_that_hijack_runs_are_dropped_and_named() -> None:
    environ = {"MLFLOW_RUN_ID": "abc", "MLFLOW_TRACKING_URI": "http://a:1", "PATH": "/bin"}
    assert drop_ignored(environ) == ["MLFLOW_RUN_ID"]
    assert environ == {"MLFLOW_TRACKING_URI": "http://a:1", "PATH": "/bin"}


def test_a_hijacking_variable_changes_no_run(runs_folder: RunsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """B48: MLFLOW_RUN_ID would re-open that run and rename it."""
    carry(runs_folder, spec("static_8"))
    _, found = shown(runs_folder)
    victim = found[spec("static_8").run_id][0]
    for name in IGNORED:
        monkeypatch.setenv(name, victim.info.run_id)
    carry(runs_folder, spec("static_16"))
    _, found = shown(runs_folder)
    (after,) = found[spec("static_8").run_id]
    assert (after.info.run_name, after.data.metrics) == (victim.info.run_name, victim.data.metrics)
    assert len(found[spec("static_16").run_id]) == 1


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "nonsense://x", "sqlite:////dev/null/mlflow.db"])
def test_an_address_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI must be an MLflow store that answers"):
        connect(RunsFolder(tmp_path / "runs"), "sagc-test")
    assert not (tmp_path / "runs").exists()


def test_parameters_are_short_and_the_schedule_is_none() -> None:
    params = run_params({"a": 1, "b": {"c": [4, 8]}, "schedule": [4, 4], "none": None, "long": "x" * 251})
    assert params == {"a": "1", "b.c": "[4, 8]"}


class Gone:
    """A store that answers nothing."""

    def __init__(self, store: str) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError(f"the store is away: no {name}")


@pytest.mark.parametrize(("engine", "resumed_at"), [("fake", None), ("fake", 3), ("verl", 3)])
def test_a_run_that_ends_after_its_command_died_is_not_left_as_it_was_before(
    runs_folder: RunsFolder, engine: str, resumed_at: int | None
) -> None:
    """The end of the sitting before had been delivered, the next command dies before it sends anything at all."""
    (run,), _ = carry(runs_folder, spec("static_8"))
    assert run.folder is not None
    data = read_run(run.folder)
    assert data.outcome is not None
    tracker = connect(runs_folder, "sagc-test")
    write_outcome(run.folder, replace(data.outcome, status="killed"))
    courier = Courier(tracker, runs_folder, None)
    courier.follow(Followed(run.folder, replace(courier.cursor(run.folder.name), closed=False)))
    assert courier.finish("killed", lambda: True).undelivered == 0
    assert [one.info.status for one in shown(runs_folder)[1][run.folder.name]] == ["KILLED"]

    gone: Any = Gone(tracker.store)
    dying = Mirror(gone, runs_folder, None)
    dying.started(replace(run, spec=replace(run.spec, engine=engine), resumed_at=resumed_at))
    dying.close("killed", lambda: True)
    write_outcome(run.folder, data.outcome)  # its process outlived the command

    carry(runs_folder, spec("static_8"))
    _, found = shown(runs_folder)
    statuses = sorted(one.info.status for one in found[run.folder.name])
    goes_on = resumed_at is not None and engine == "fake"  # verl would draw other steps than MLflow has
    assert statuses == (["FINISHED"] if goes_on else ["FINISHED", "KILLED"])
    finished = next(one for one in found[run.folder.name] if one.info.status == "FINISHED")
    assert finished.data.tags["sagc.outcome"] == "finished"
    assert_shows_the_records(MlflowClient(tracking_uri=tracker.uri), finished, data)
