from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.store import CONFIG, OUTCOME, RecordError, read_json, read_outcome, write_json, write_outcome
from reports.runs import STATIC_ARMS, Comparison, load
from reports.undecidable import NotDecidable
from sagc.errors import ConfigError
from tests.reports.records import World, plan, spec, write, write_run

SMALL = World(arms=("static_8", "static_32", "sagc"), algorithms=("grpo",))


def only(folders: list[Path], world: World = SMALL) -> Comparison:
    (one,) = load(folders, plan(world)).comparisons
    return one


def test_static_arms_are_ordered_by_size() -> None:
    assert STATIC_ARMS == ("static_2", "static_4", "static_8", "static_16", "static_32")


def test_comparisons_follow_the_tables_whatever_the_order_of_folders(tmp_path: Path) -> None:
    growing = replace(SMALL, task="growing")
    both = replace(SMALL, algorithms=("dapo", "grpo"))
    found = load([*write(tmp_path, growing), *write(tmp_path, both)]).comparisons
    assert [(one.task, one.algorithm) for one in found] == [
        ("steady", "grpo"),
        ("steady", "dapo"),
        ("growing", "grpo"),
    ]
    assert found[0].arms == SMALL.arms


def test_a_missing_arm_is_named(tmp_path: Path) -> None:
    one = only(write(tmp_path, SMALL))
    with pytest.raises(NotDecidable, match="arm static_16 is missing for grpo on steady"):
        one.all_seeds(["sagc", "static_16"])


def test_a_missing_seed_is_named(tmp_path: Path) -> None:
    folders = [folder for folder in write(tmp_path, SMALL) if "sagc-torch_cpu-s1" not in folder.name]
    with pytest.raises(NotDecidable, match="the run of sagc, seed 1, is missing for grpo on steady"):
        only(folders).all_seeds(["static_8", "sagc"])


def test_without_a_plan_every_found_arm_is_expected_for_every_found_seed(tmp_path: Path) -> None:
    folders = [folder for folder in write(tmp_path, SMALL) if "sagc-torch_cpu-s1" not in folder.name]
    found = load(folders)
    assert len(found.planned) == 9
    assert [(str(key.arm), key.seed, status) for key, status, _ in found.unfinished] == [("sagc", 1, "missing")]


def test_an_unfinished_run_is_named(tmp_path: Path) -> None:
    folders = write(tmp_path, SMALL)
    (folders[0] / OUTCOME).unlink()
    with pytest.raises(NotDecidable, match=f"{folders[0].name} is unfinished: it has not said how it ended"):
        only(folders).all_seeds(["static_8"])


@pytest.mark.parametrize("status", ["failed", "killed", "diverged", "stalled"])
def test_a_run_that_went_wrong_is_named_with_its_reason(tmp_path: Path, status: str) -> None:
    folders = write(tmp_path, SMALL)
    outcome = read_outcome(folders[0])
    assert outcome is not None
    write_outcome(folders[0], replace(outcome, status=status, reason="the loss is nan"))  # type: ignore[arg-type]
    with pytest.raises(NotDecidable, match=f"{folders[0].name} is {status}: the loss is nan"):
        only(folders).all_seeds(["static_8"])


def test_runs_of_different_configurations_are_not_compared(tmp_path: Path) -> None:
    folders = write(tmp_path, SMALL)
    config = read_json(folders[-1] / CONFIG)
    write_json(folders[-1] / CONFIG, {**config, "config_hash": "another"})
    with pytest.raises(NotDecidable, match="different configurations"):
        only(folders).all_seeds(["static_8", "sagc"])


def test_a_run_in_two_folders_is_refused(tmp_path: Path) -> None:
    folders = write(tmp_path, SMALL)
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    with pytest.raises(ConfigError, match="must hold each run once, got copy and"):
        load([*folders, copy])


def test_nothing_to_report_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one run, got none"):
        load([])


def test_a_folder_without_a_run_spec_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, SMALL, spec(SMALL, "grpo", "sagc", 0))
    config = read_json(folder / CONFIG)
    write_json(folder / CONFIG, {**config, "spec": {"engine": "torch_cpu"}})
    with pytest.raises(RecordError, match="must be a run's configuration, got spec must have the field 'algorithm'"):
        load([folder])


def test_an_unknown_arm_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path, SMALL, spec(SMALL, "grpo", "sagc", 0))
    config = read_json(folder / CONFIG)
    write_json(folder / CONFIG, {**config, "spec": {**config["spec"], "arm": "static_33"}})
    with pytest.raises(ConfigError, match="did you mean 'static_32'"):
        load([folder])


def test_budgets_are_the_horizon_and_what_the_cheapest_finished_arm_reached(tmp_path: Path) -> None:
    world = replace(SMALL, cost={"sagc": 0.5})
    folders = write(tmp_path, world)
    one = only(folders, world)
    assert one.budget("prompts", 0) == 96
    assert one.budget("rollouts", 0) == 1536
    assert one.budget("modelled_s", 0) == one.runs["sagc", 0].curve.total("modelled_s")
    (next(folder for folder in folders if "-sagc-torch_cpu-s0" in folder.name) / OUTCOME).unlink()
    assert only(folders, world).budget("modelled_s", 0) == one.runs["static_8", 0].curve.total("modelled_s")


def test_a_seed_without_a_finished_run_has_no_budget(tmp_path: Path) -> None:
    folders = write(tmp_path, SMALL)
    for folder in folders:
        if "-s2-" in folder.name:
            (folder / OUTCOME).unlink()
    with pytest.raises(NotDecidable, match="no run of seed 2 finished"):
        only(folders).budget("tokens", 2)
