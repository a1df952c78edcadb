"""What runs, in which order, and what is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines import ENGINES, TASKS_OF
from benchmarks.settings import Overrides, make_spec, resolved_config
from benchmarks.spec import RunSpec
from benchmarks.suite import Profile, load_profile, plan, profile_names, single_run_plan
from benchmarks.tasks import TASKS
from sagc.errors import ConfigError
from tests.benchmarks.fake_engine import FAKES


def cpu() -> Profile:
    return load_profile("cpu", ENGINES)


def cells(profile: Profile, **choice: Any) -> set[tuple[str, str, str]]:
    return {(run.spec.task, run.spec.algorithm, run.spec.arm) for run in plan(profile, engines=ENGINES, **choice).runs}


def spec(**changes: Any) -> RunSpec:
    names: dict[str, Any] = {"engine": "fake", "task": "steady", "algorithm": "grpo", "arm": "sagc", "seed": 0}
    return make_spec(**{**names, **changes}, engines=FAKES)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_in_the_folder_is_valid_and_goes_by_its_file_name(name: str) -> None:
    profile = load_profile(name, ENGINES)
    assert profile.name == name
    assert plan(profile, engines=ENGINES).runs


def test_the_cpu_profile_is_the_matrix_that_decides_the_claims() -> None:
    runs = plan(cpu(), engines=ENGINES).runs
    assert len(runs) == 54
    assert len({run.name for run in runs}) == 54
    steady = [run for run in runs if run.spec.task == "steady"]
    assert len(steady) == 2 * 7 * 3
    assert {run.spec.algorithm for run in runs if run.spec.task == "growing"} == {"grpo"}


def test_the_horizon_and_evaluation_of_a_profile_without_overrides_are_the_tasks_own() -> None:
    run = plan(cpu(), engines=ENGINES).runs[0].spec
    assert (run.horizon, run.rollouts_per_step) == (TASKS["steady"].horizon, 64)
    assert (run.evaluation.problems, run.evaluation.final_problems, run.evaluation.milestones) == (256, 1024, 10)


def test_the_smoke_profile_is_small() -> None:
    run = plan(load_profile("smoke", ENGINES), engines=ENGINES).runs[0].spec
    assert (run.horizon.prompts, run.horizon.rollouts) == (32, 512)
    assert (run.evaluation.problems, run.evaluation.final_problems, run.evaluation.milestones) == (32, 64, 2)


def test_runs_are_ordered_by_seed_and_each_seed_begins_with_another_arm() -> None:
    runs = [run.spec for run in plan(cpu(), engines=ENGINES).runs]
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    first = [next(run.arm for run in runs if run.seed == seed) for seed in range(3)]
    assert first == ["static_2", "static_4", "static_8"]


def test_arms_of_one_comparison_stand_next_to_each_other() -> None:
    runs = [run.spec for run in plan(cpu(), engines=ENGINES).runs]
    assert {(run.task, run.algorithm) for run in runs[:7]} == {("steady", "grpo")}
    assert len({run.arm for run in runs[:7]}) == 7


def test_a_follower_names_the_run_that_it_waits_for() -> None:
    runs = plan(cpu(), engines=ENGINES).runs
    followers = [run for run in runs if run.spec.arm == "shuffled_sagc"]
    assert len(followers) == 9
    for run in followers:
        assert run.source == run.name.replace("shuffled_sagc", "sagc")
        assert run.source in {other.name for other in runs}


def test_a_follower_without_its_source_brings_it_and_says_so() -> None:
    planned = plan(cpu(), engines=ENGINES, arms=["shuffled_sagc"], tasks=["growing"], seeds=1)
    assert [run.spec.arm for run in planned.runs] == ["sagc", "shuffled_sagc"]
    assert planned.notes == ("arm sagc is added: shuffled_sagc replays its group sizes",)
    single = single_run_plan(spec(arm="shuffled_sagc"))
    assert [run.spec.arm for run in single.runs] == ["sagc", "shuffled_sagc"]
    assert single.notes == planned.notes


def test_names_that_the_profile_holds_narrow_it() -> None:
    assert cells(cpu(), tasks=["growing"], arms=["static_8", "sagc"]) == {
        ("growing", "grpo", "static_8"),
        ("growing", "grpo", "sagc"),
    }
    assert cells(cpu(), arms=["static_32"]) == {("steady", "grpo", "static_32"), ("steady", "dapo", "static_32")}


def test_names_that_no_block_holds_are_added_to_what_is_left() -> None:
    assert cells(cpu(), tasks=["growing"], algorithms=["dapo"], arms=["static_32"]) == {
        ("growing", "dapo", "static_32")
    }


def test_more_seeds_keep_the_first_ones_as_they_were() -> None:
    few, many = (plan(cpu(), engines=ENGINES, seeds=count).runs for count in (1, 2))
    assert many[: len(few)] == few


def test_the_config_hash_is_shared_by_arms_and_seeds_and_the_run_id_by_nothing() -> None:
    runs = [run.spec for run in plan(cpu(), engines=ENGINES, tasks=["growing"]).runs]
    assert len({run.config_hash for run in runs}) == 1
    assert len({run.run_id for run in runs}) == len(runs)


def test_the_resolved_config_holds_the_rows_that_the_spec_names() -> None:
    run = spec()
    config = resolved_config(run)
    assert config["spec"] == run.to_json()
    assert config["task"]["response_cap"] == TASKS["steady"].response_cap
    assert config["algorithm"]["clip_high"] == 0.2
    assert config["config_hash"] == run.config_hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arm": "static_9"}, "arm must be a known name, got 'static_9'; did you mean 'static_"),
        ({"task": "stedy"}, "did you mean 'steady'"),
        ({"algorithm": "gppo"}, "did you mean 'grpo'"),
        ({"engine": "fakee"}, "did you mean 'fake'"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"overrides": Overrides(batch_policy="fixed_rollout")}, "did you mean 'fixed_rollouts'"),
        ({"overrides": Overrides(rollouts_per_step=48)}, "candidates must each divide rollouts_per_step (48)"),
        ({"overrides": Overrides(rollouts_per_step=0)}, "rollouts_per_step must be a whole number from 1"),
        ({"overrides": Overrides(sections={"controller": {"budgett": 0.1}})}, "did you mean 'budget'"),
        ({"overrides": Overrides(sections={"controller": {"budget": 1.5}})}, "budget must be a finite number"),
        (
            {"overrides": Overrides(sections={"controller": {"candidates": [2, 8]}})},
            "group of two can never straggle",
        ),
        ({"overrides": Overrides(sections={"controller": {"rollouts_per_step": 8}})}, "controller setting"),
        ({"overrides": Overrides(sections={"horizon": {"prompts": 1.5}})}, "horizon.prompts must be a whole number"),
        ({"overrides": Overrides(sections={"evaluation": {"milestone": 1}})}, "did you mean 'milestones'"),
        ({"overrides": Overrides(sections={"training": {"learning_rate": 0}})}, "training.learning_rate must be"),
        ({"overrides": Overrides(sections={"training": {"betas": [0.9]}})}, "training.betas must be 2 numbers"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_the_cure(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        spec(**changes)
    assert words in str(refused.value)


def test_a_static_size_that_does_not_divide_the_rollouts_is_refused() -> None:
    controller = {"candidates": [4, 8], "initial_group_size": 8}
    overrides = Overrides(rollouts_per_step=24, sections={"controller": controller})
    assert spec(arm="static_8", overrides=overrides).rollouts_per_step == 24
    with pytest.raises(ConfigError, match="group_size must divide rollouts_per_step 24, got 16"):
        spec(arm="static_16", overrides=overrides)


def test_fixed_prompts_needs_no_division() -> None:
    run = spec(overrides=Overrides(rollouts_per_step=48, batch_policy="fixed_prompts"))
    assert (run.batch_policy, run.controller.rollouts_per_step) == ("fixed_prompts", None)


def test_settings_change_only_what_they_name() -> None:
    plain = spec()
    changed = spec(overrides=Overrides(sections={"controller": {"threshold": 3}, "training": {"betas": [0.8, 0.9]}}))
    assert changed.controller == replace(plain.controller, threshold=3.0)
    assert changed.training == replace(plain.training, betas=(0.8, 0.9))
    assert changed.config_hash != plain.config_hash


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = 3", "did you mean 'seeds'"),
        ('name = "a"', "got none for engine, seeds, matrix"),
        ("name = ", "must be a readable TOML file"),
        ('name = "../up"\nengine = "fake"\nseeds = 1\nmatrix = []', "profile name must be lower-case"),
        ('name = "a"\nengine = "fak"\nseeds = 1\nmatrix = []', "did you mean 'fake'"),
        ('name = "a"\nengine = "fake"\nseeds = 0\nmatrix = []', "seeds must be a whole number from 1"),
        ('name = "a"\nengine = "fake"\nseeds = 1\nmatrix = 3', "matrix must be a list, got 3"),
        ('name = "a"\nengine = "fake"\nseeds = 1\nmatrix = []\nhorizon = 3', "horizon must be a table, got 3"),
        ('name = "a"\nengine = "fake"\nseeds = 1\nmatrix = []', "matrix must hold at least one block"),
        ('name = "a"\nengine = "fake"\nseeds = 1\n[[matrix]]\narm = ["sagc"]', "did you mean 'arms'"),
        ('name = "a"\nengine = "fake"\nseeds = 1\n[[matrix]]\narms = ["sag"]', "matrix tasks must name at least one"),
    ],
)
def test_a_bad_profile_is_refused_with_the_cure(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_profile(str(file), FAKES)
    assert words in str(refused.value)


def test_an_unknown_profile_offers_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'smoke'"):
        load_profile("smoek", ENGINES)
    with pytest.raises(ConfigError, match="readable TOML file"):
        load_profile("missing.toml", ENGINES)


def test_the_torch_engine_runs_its_own_tasks_alone_and_has_no_settings() -> None:
    assert TASKS_OF["torch_cpu"] == tuple(TASKS)
    asked: dict[str, Any] = {"engine": "torch_cpu", "algorithm": "grpo", "arm": "sagc", "seed": 0, "engines": ENGINES}
    with pytest.raises(ConfigError, match="task of torch_cpu must be a known name, got 'dapo_math'"):
        make_spec(**asked, task="dapo_math")
    with pytest.raises(ConfigError, match="engine_settings must be left out for torch_cpu"):
        make_spec(**asked, task="steady", overrides=Overrides(engine_settings={"foo": 1}))
