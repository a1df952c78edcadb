"""The command line as a user meets it: help, bad input, Ctrl-C, kill -9, and going on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.cli import main
from benchmarks.commands import Reports, settings
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import EVALUATIONS, STEPS, read_json, read_outcome, read_run
from benchmarks.tracking import DESCRIPTION, connect
from reports import build, keep, sensitivity
from tests.benchmarks.fake_engine import FAKES

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
PROFILE = """
name = "test"
summary = "for tests"
engine = "{engine}"
seeds = 1
[[matrix]]
tasks = ["steady"]
algorithms = ["grpo"]
arms = ["static_8", "sagc", "shuffled_sagc"]
[horizon]
prompts = 24
rollouts = 384
[evaluation]
problems = 4
final_problems = 8
milestones = 2
"""
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], str]:
    def write(engine: str) -> str:
        path = tmp_path / f"{engine}.toml"
        path.write_text(PROFILE.format(engine=engine))
        return str(path)

    return write


def command(*arguments: str) -> int:
    return main(arguments, reports=Reports(build=build, keep=keep, sensitivity=sensitivity), engines=FAKES)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command line as the head of its own process group, as a terminal does."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.fake_cli", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_a_step(folder: RunsFolder, process: subprocess.Popen[str]) -> Path:
    """The folder of the first run that has recorded a step."""
    return wait_for(folder, STEPS, process)


def wait_for(folder: RunsFolder, name: str, process: subprocess.Popen[str]) -> Path:
    """The folder of the first run that has something in that file."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        for path in folder.path.glob(f"*/{name}"):
            if path.stat().st_size:
                return path.parent
        time.sleep(0.05)
    raise AssertionError(f"nothing in {name}: {process.communicate()[0] if process.poll() is not None else ''}")


def mlflow_statuses(folder: RunsFolder) -> dict[str, list[str]]:
    """Run name -> MLflow statuses."""
    tracker = connect(folder, "sagc-test")
    statuses: dict[str, list[str]] = {}
    for run in tracker.client.search_runs([tracker.experiment_id]):
        statuses.setdefault(run.info.run_name, []).append(run.info.status)
    return {name: sorted(values) for name, values in statuses.items()}


def test_a_reproduction_runs_everything_builds_its_report_and_repeats_nothing(
    runs_folder: RunsFolder, profile: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("reproduce", "--profile", profile("fake"), "--runs", str(runs_folder.path), "--jobs", "2")
    assert command(*asked) == 0
    first = capsys.readouterr().out
    assert "3 finished" in first
    assert str(runs_folder.path) in first
    report = runs_folder.reproduction("test") / "RESULTS.md"
    assert f"report: {report}" in first
    plan = read_json(runs_folder.reproduction("test") / "plan.json")
    assert [run["state"] for run in plan["runs"]] == ["finished"] * 3
    assert all(read_run(runs_folder.run(run["run_id"])).outcome is not None for run in plan["runs"])

    report.unlink()
    assert command(*asked) == 0
    assert capsys.readouterr().out.count("finished before, not repeated") == 3
    before = report.read_text()
    assert command("report", "--profile", profile("fake"), "--runs", str(runs_folder.path)) == 0
    assert report.read_text() == before


def test_the_parent_run_in_mlflow_holds_the_report_and_its_verdicts(
    runs_folder: RunsFolder, profile: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("reproduce", "--profile", profile("fake"), "--runs", str(runs_folder.path)) == 0
    tracker = connect(runs_folder, "sagc-test")
    (parent,) = tracker.client.search_runs([tracker.experiment_id], "tags.`sagc.kind` = 'reproduction'")
    attached = {item.path for item in tracker.client.list_artifacts(parent.info.run_id)}
    assert {"RESULTS.md", "claims.json"} <= attached
    assert parent.data.tags[DESCRIPTION] in capsys.readouterr().out


def test_a_report_is_built_though_the_store_is_gone(
    runs_folder: RunsFolder,
    profile: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command("reproduce", "--profile", profile("fake"), "--runs", str(runs_folder.path)) == 0
    capsys.readouterr()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert command("report", "--profile", profile("fake"), "--runs", str(runs_folder.path)) == 0
    shown = capsys.readouterr().out
    assert "report: " in shown
    assert "MLflow did not take the report" in shown


def test_sweep_replays_recorded_lengths(
    runs_folder: RunsFolder, profile: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--profile", profile("fake"), "--runs", str(runs_folder.path))
    assert command("reproduce", *where, "--arms", "static_32") == 0
    capsys.readouterr()
    assert command("sweep", *where) == 0
    shown = capsys.readouterr().out
    assert "as recorded" in shown
    assert "dual_step_size = 0.05" in shown
    assert (runs_folder.reproduction("test") / "SENSITIVITY.md").read_text() in shown
    assert command("sweep", *where, "--algorithm", "dapo") == 2
    assert "got none" in capsys.readouterr().err


def test_a_single_run_says_where_it_writes_and_how_to_look_at_it(
    runs_folder: RunsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command(
        *("run", "--task", "steady", "--algorithm", "dapo", "--arm", "static_4", "--seed", "7", "--engine", "fake"),
        *("--horizon-prompts", "16", "--horizon-rollouts", "64", "--rollouts-per-step", "32"),
        *("--set", "evaluation.problems=4", "--set", "evaluation.final_problems=4", "--runs", str(runs_folder.path)),
    )
    assert code == 0
    shown = capsys.readouterr().out
    assert str(runs_folder.path) in shown
    assert "nox -s ui" in shown
    (folder,) = runs_folder.path.glob("steady-dapo-static_4-fake-s7-*")
    data = read_run(folder)
    assert data.config["spec"]["rollouts_per_step"] == 32
    assert data.outcome is not None
    assert data.outcome.status == "finished"


def test_a_run_that_failed_gives_exit_code_1_and_is_listed(
    runs_folder: RunsFolder, profile: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("reproduce", "--profile", profile("raise"), "--runs", str(runs_folder.path))
    assert command(*asked) == 1
    shown = capsys.readouterr().out
    assert "RuntimeError: the fake engine broke" in shown
    assert "1 failed, 2 finished" in shown
    assert command(*asked) == 0


def test_ctrl_c_leaves_a_clean_state_and_the_same_command_goes_on(
    runs_folder: RunsFolder, profile: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    asked = ("reproduce", "--profile", profile("slow"), "--runs", str(runs_folder.path), "--jobs", "1")
    process = start(*asked)
    folder = wait_for_a_step(runs_folder, process)
    os.killpg(process.pid, signal.SIGINT)
    shown, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, shown
    assert "Traceback" not in shown
    assert "1 killed, 2 not started" in shown
    assert "to go on: the same command" in shown
    data = read_run(folder)
    assert data.outcome is not None
    assert data.outcome.status == "killed"
    assert data.outcome.steps == len(data.steps) == len(data.timings) < 6
    name = data.config["name"]
    assert mlflow_statuses(runs_folder) == {"reproduction-test": ["KILLED"], name: ["KILLED"]}

    assert command(*asked, "--jobs", "3") == 0
    assert mlflow_statuses(runs_folder)[name] == ["FINISHED"]  # the same MLflow run goes on
    assert mlflow_statuses(runs_folder)["reproduction-test"] == ["FINISHED"]


def test_ctrl_c_twice_stops_at_once_whatever_the_step_takes(
    runs_folder: RunsFolder, profile: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("reproduce", "--profile", profile("stuck"), "--runs", str(runs_folder.path), "--jobs", "1")
    folder = wait_for(runs_folder, EVALUATIONS, process)  # before the first step, which takes ten minutes
    assert process.stdout is not None
    os.killpg(process.pid, signal.SIGINT)
    assert any("Ctrl-C again stops at once" in line for line in process.stdout)
    os.killpg(process.pid, signal.SIGINT)
    shown, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, shown
    assert "stopping now" in shown
    assert "Traceback" not in shown
    outcome = read_outcome(folder)
    assert outcome is not None
    assert (outcome.status, outcome.steps) == ("killed", 0)
    assert mlflow_statuses(runs_folder)[read_run(folder).config["name"]] == ["KILLED"]


def test_sigterm_to_the_whole_group_is_one_request_to_stop(
    runs_folder: RunsFolder, profile: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """What `timeout` and service managers send; the server process that starts the runs must outlive it."""
    process = start("reproduce", "--profile", profile("slow"), "--runs", str(runs_folder.path), "--jobs", "1")
    folder = wait_for_a_step(runs_folder, process)
    os.killpg(process.pid, signal.SIGTERM)
    shown, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, shown
    outcome = read_outcome(folder)
    assert outcome is not None
    assert outcome.status == "killed"
    assert outcome.reason.startswith("asked to stop after step")
    assert outcome.reason in shown  # one reason everywhere, told by a run that ended its step


def test_after_kill_9_the_run_stops_by_itself_and_the_same_command_completes(
    runs_folder: RunsFolder, profile: Callable[[str], str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    asked = ("reproduce", "--profile", profile("slow"), "--runs", str(runs_folder.path), "--jobs", "1")
    process = start(*asked)
    folder = wait_for_a_step(runs_folder, process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)  # returns when the run's process has let go of the pipe too
    time.sleep(1.0)
    steps = len(read_run(folder).steps)
    time.sleep(1.0)
    assert len(read_run(folder).steps) == steps < 6
    outcome = read_outcome(folder)
    assert outcome is not None
    assert (outcome.status, outcome.steps) == ("killed", steps)

    assert command(*asked, "--jobs", "3") == 0
    statuses = mlflow_statuses(runs_folder)
    assert statuses.pop("reproduction-test") == ["FINISHED"]
    assert {tuple(values) for values in statuses.values()} <= {("FINISHED",), ("FINISHED", "KILLED")}


BAD: list[tuple[tuple[str, ...], str]] = [
    (("run", "--task", "stedy", "--algorithm", "grpo", "--arm", "sagc"), "did you mean 'steady'"),
    (("run", "--task", "steady", "--algorithm", "gpo", "--arm", "sagc"), "did you mean 'grpo'"),
    (("run", "--task", "steady", "--algorithm", "grpo", "--arm", "sage"), "did you mean 'sagc'"),
    (("reproduce", "--profile", "smok"), "did you mean 'smoke'"),
    (("reproduce", "--profile", "OWN", "--arms", "sagc,static_3"), "did you mean 'static_32'"),
    (("reproduce", "--profile", "OWN", "--seeds", "0"), "seeds must be a whole number"),
    (("reproduce", "--profile", "OWN", "--jobs", "0"), "jobs must be a whole number"),
    (("reproduce", "--profil", "OWN"), "--profil"),
    (("reproduce", "--profile", "OWN", "--seeds", "many"), "invalid int value: 'many'"),
    (("report", "--profile", "OWN"), "profile must have been reproduced"),
    (("sweep", "--profile", "OWN", "--arm", "static_33"), "did you mean 'static_32'"),
    (("list", "arm"), "did you mean 'arms'"),
    (("lst",), "invalid choice: 'lst'"),
    ((), "required"),
]
GOOD_RUN = ("run", "--engine", "fake", "--task", "steady", "--algorithm", "grpo", "--arm", "sagc")
BAD += [
    ((*GOOD_RUN, "--rollouts-per-step", "48"), "candidates must each divide rollouts_per_step (48)"),
    ((*GOOD_RUN, "--set", "controller.budget=1.0"), "budget must be a finite number inside (0, 1)"),
    ((*GOOD_RUN, "--set", "controller.candidates=[2, 8]"), "group of two can never straggle"),
    ((*GOOD_RUN, "--set", "controller.thresold=3"), "did you mean 'threshold'"),
    ((*GOOD_RUN, "--set", "controler.threshold=3"), "did you mean 'controller'"),
    ((*GOOD_RUN, "--set", "threshold=3"), "--set must be SECTION.KEY=VALUE"),
    ((*GOOD_RUN, "--batch-policy", "fixed"), "batch_policy must be a known name"),
    ((*GOOD_RUN, "--horizon-rollouts", "0"), "horizon.rollouts must be a whole number"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_input_is_one_line_exit_code_2_and_nothing_is_written(
    arguments: tuple[str, ...],
    words: str,
    profile: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = profile("fake")
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert command(*(own if argument == "OWN" else argument for argument in arguments)) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_a_store_that_does_not_answer_or_a_folder_that_cannot_be_written_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert command(*GOOD_RUN, "--runs", "file/runs") == 2
    assert "runs folder must be writable" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert command(*GOOD_RUN) == 2
    shown = capsys.readouterr().err
    assert "MLFLOW_TRACKING_URI must be an MLflow store that answers" in shown
    assert shown.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_second_command_in_the_folder_is_refused(runs_folder: RunsFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with runs_folder.lock():
        assert command(*GOOD_RUN, "--runs", str(runs_folder.path)) == 2
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_plan_is_shown_and_not_run(
    profile: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = profile("fake")
    monkeypatch.chdir(tmp_path)
    assert command("reproduce", "--profile", own, "--plan", "--arms", "shuffled_sagc") == 0
    shown = capsys.readouterr().out
    assert "2 runs" in shown
    assert "note: arm sagc is added" in shown
    assert "steady/grpo/shuffled_sagc/fake/s0" in shown
    assert not (tmp_path / "runs").exists()


def test_every_table_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list") == 0
    shown = capsys.readouterr().out
    for name in ("static_2", "shuffled_sagc", "dapo", "growing", "fake", "smoke"):
        assert f"  {name} " in shown
    assert command("list", "arms") == 0
    assert "dapo" not in capsys.readouterr().out


@pytest.mark.parametrize("asked", [("--help",), ("run", "--help"), ("reproduce", "--help"), ("--version",)])
def test_help_and_version_end_well(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*asked)
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip()


def test_a_setting_is_toml_or_text() -> None:
    items = ["controller.candidates=[4, 8]", "controller.utility=log", "controller.budget=0.2", "training.a=b=c"]
    assert settings(items) == {
        "controller": {"candidates": [4, 8], "utility": "log", "budget": 0.2},
        "training": {"a": "b=c"},
    }


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_that_finds_no_room_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks", "list"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 1
    assert (
        ended.stderr
        == "error: standard output and the disk must have room, got No space left on device; free some and go on\n"
    )


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    shown = subprocess.run(
        f"{sys.executable} -m benchmarks list | head -n 1",
        cwd=ROOT,
        shell=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout.splitlines() == ["arms"]
    assert shown.stderr == ""
