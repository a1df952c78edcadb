from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import evaluation_runs
from benchmarks.commands import _ask_final_models
from benchmarks.engines import ENGINES
from benchmarks.evaluation.chain import ROWS
from benchmarks.evaluation.generations import FILE
from benchmarks.final_models import FINAL_MODELS, FinalModel, ask, page, trained_models
from benchmarks.reproduction import Carried
from benchmarks.runner import Run, State
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import EVALUATIONS, MODEL, read_run
from benchmarks.suite import load_profile, planned_run
from benchmarks.sync import sync
from benchmarks.tracking import Tracker, connect
from sagc.errors import ConfigError
from tests.benchmarks.untrained import write_untrained
from tests.reports.records import World, spec, write_run

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's use of SQLAlchemy


SAMPLES = 2


def trained(
    folder: RunsFolder, *, arm: str = "static_8", seed: int = 0, state: State = "finished", problems: int = 400
) -> Run:
    """A run with records and an untrained model of the suite's own kind."""
    asked = World(problems=problems)
    run = spec(asked, "grpo", arm, seed)
    run = replace(run, evaluation=replace(run.evaluation, samples=SAMPLES))
    path = write_run(folder.path, asked, run)
    write_untrained(path / MODEL)
    return Run(planned=planned_run(run), spec=run, state=state, folder=path)


def test_seed_0s_finished_runs_with_a_model_are_asked(runs_folder: RunsFolder) -> None:
    run = trained(runs_folder)
    others = [
        trained(runs_folder, seed=1),
        trained(runs_folder, arm="static_4", state="killed"),
        replace(run, folder=None, state="not started"),
        replace(run, folder=runs_folder.path),  # an engine that keeps no model
    ]
    assert trained_models([*others, run]) == [run]
    assert trained_models([]) == []


def test_a_model_is_compared_with_its_own_evaluation_problem_by_problem(runs_folder: RunsFolder) -> None:
    run = trained(runs_folder)
    assert run.folder is not None
    found = ask(run, runs_folder)
    last = read_run(run.folder).evaluations[-1]
    own = [right / last.samples for right in last.right[:ROWS]]
    assert (found.problems, found.samples) == (ROWS, SAMPLES)
    assert found.own == pytest.approx(sum(own) / ROWS)
    assert found.own is not None
    assert found.accuracy < 0.1 < found.own  # nobody has trained it, whatever the records say
    assert found.difference_se is not None
    assert 0 < found.difference_se < 0.1
    assert run.folder.name in found.folder.name
    assert found.folder.parent == runs_folder.path


def test_asking_again_generates_nothing_and_finds_the_same(
    runs_folder: RunsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(runs_folder)
    first = ask(run, runs_folder)
    before = (first.folder / FILE).read_bytes()
    monkeypatch.setattr("benchmarks.final_models.SAMPLERS", {})  # no model can be loaded
    assert ask(run, runs_folder) == first
    assert (first.folder / FILE).read_bytes() == before


def test_a_model_that_cannot_be_asked_costs_itself_alone(
    runs_folder: RunsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [trained(runs_folder, arm=arm) for arm in ("static_4", "static_8")]
    assert runs[0].folder is not None
    (runs[0].folder / MODEL / "model.safetensors").write_bytes(b"")
    runs_folder.reproduction("smoke").mkdir()
    carried = Carried(runs=runs, exit_code=0, tracking="")
    assert not _ask_final_models(runs_folder, load_profile("smoke", ENGINES), carried)
    shown = capsys.readouterr().out
    assert "[1/2] steady/grpo/static_4/torch_cpu/s0  could not be asked: model must be a model" in shown
    assert "[2/2] steady/grpo/static_8/torch_cpu/s0  accuracy" in shown
    text = (runs_folder.reproduction("smoke") / FINAL_MODELS).read_text()
    assert "static_8" in text
    assert "static_4" not in text


def test_without_the_same_problems_there_is_no_comparison(runs_folder: RunsFolder) -> None:
    found = ask(trained(runs_folder, problems=ROWS - 2), runs_folder)
    assert (found.own, found.difference_se) == (None, None)
    assert "its own evaluation" not in found.describe()
    [line] = [line for line in page([found]).splitlines() if line.startswith("| steady/")]
    assert line.split(" | ")[3:6] == ["-", "-", "-"]


def test_the_page_has_a_line_for_every_model() -> None:
    model = FinalModel(
        name="steady/grpo/sagc/torch_cpu/s0",
        folder=Path("eval-x"),
        problems=64,
        samples=8,
        accuracy=0.5,
        own=0.625,
        difference_se=0.03,
        output_tokens=21.25,
    )
    assert "accuracy 0.500 (its own evaluation: 0.625, +- 0.030), 21.2 tokens" in model.describe()
    assert "| 64 x 8 | 0.500 | 0.625 | -0.125 | 0.030 | 21.2 | `eval-x` |" in page([model])
    assert page([]).endswith("|---|\n")


def test_an_evaluation_is_one_run_of_mlflow_however_often_it_is_shown(
    runs_folder: RunsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ask(trained(runs_folder), runs_folder)

    def away(*_: object) -> None:
        raise ConnectionError("the store is away\nfor good")

    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "log", away)  # dies in the middle: the run is open
        said = evaluation_runs.show(runs_folder, [found.folder])
        assert said is not None
        assert "(the store is away); `python -m benchmarks sync-mlflow`" in said
    assert list(evaluation_runs.undelivered(runs_folder)) == [found.folder]
    assert evaluation_runs.show(runs_folder, [found.folder]) is None
    assert evaluation_runs.show(runs_folder, [found.folder]) is None
    assert list(evaluation_runs.undelivered(runs_folder)) == []
    tracker = connect(runs_folder, evaluation_runs.EXPERIMENT)
    [run] = tracker.client.search_runs([tracker.experiment_id])
    assert (run.info.run_name, run.info.status) == (found.folder.name, "FINISHED")
    assert run.data.metrics["toy_steady/problems"] == ROWS
    assert run.data.params["engine"] == "transformers"


def test_sync_delivers_an_evaluation_that_mlflow_lacks_once(runs_folder: RunsFolder) -> None:
    ask(trained(runs_folder), runs_folder)
    complete, lines = sync(runs_folder, None)
    assert complete
    assert "sagc-evaluations: 1 evaluations brought up to date" in lines
    assert not any("sagc-evaluations" in line for line in sync(runs_folder, None)[1])


def test_a_profile_whose_tasks_make_no_set_cannot_ask_its_models(tmp_path: Path) -> None:
    text = (Path("benchmarks/profiles/smoke.toml")).read_text().replace('name = "smoke"', 'name = "own"')
    profile = tmp_path / "own.toml"
    profile.write_text(text.replace('tasks = ["steady"]', 'tasks = ["dapo_math"]'))
    with pytest.raises(ConfigError, match="task of final models must be a known name, got 'dapo_math'"):
        load_profile(str(profile), ENGINES)
    profile.write_text(text.replace("final_models = true", "final_models = 1"))
    with pytest.raises(ConfigError, match="final_models must be true or false, got 1"):
        load_profile(str(profile), ENGINES)


def test_a_run_without_any_evaluation_is_asked_all_the_same(runs_folder: RunsFolder) -> None:
    run = trained(runs_folder)
    assert run.folder is not None
    (run.folder / EVALUATIONS).write_text("")
    assert ask(run, runs_folder).own is None
