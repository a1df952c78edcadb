from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from baselines.arms import ARMS
from benchmarks.engines import ENGINES
from benchmarks.engines.verl.dry_run import command_line
from benchmarks.engines.verl.launcher import engine_settings
from benchmarks.engines.verl.overrides import RunPaths, literal, most_steps, nominal_batch, overrides
from benchmarks.engines.verl.process import ROOT
from benchmarks.spec import Horizon, RunSpec
from benchmarks.suite import load_profile, plan
from sagc.errors import ConfigError

GOLDEN = Path(__file__).parents[3] / "data" / "verl-overrides"
OF_THE_RUN = (
    "trainer.experiment_name",
    "trainer.default_local_dir",
    "+trainer.sagc_run.folder",
    "+trainer.sagc_run.events",
)
"""Keys that hold the name of the run's own folder."""
OF_THE_ARM = {
    "+trainer.sagc.policy",
    "+trainer.sagc.group_size",
    "+trainer.sagc.schedule",
    "+trainer.sagc.shuffle_seed",
}


def specs(profile: str, algorithm: str = "grpo") -> dict[str, RunSpec]:
    planned = plan(load_profile(profile, ENGINES), engines=ENGINES, seeds=1, algorithms=[algorithm])
    return {run.spec.arm: run.spec for run in planned.runs}


def lines(spec: RunSpec) -> dict[str, str]:
    return dict(line.split("=", 1) for line in command_line(spec, Path("/runs")))


@pytest.mark.parametrize("profile", ["verl-cpu", "gpu-1", "gpu-8"])
@pytest.mark.parametrize("algorithm", ["grpo", "dapo"])
def test_the_command_line_of_sagc_is_the_golden_one(profile: str, algorithm: str) -> None:
    spec = specs(profile, algorithm)["sagc"]
    text = "\n".join(command_line(spec, Path("/runs"))).replace(spec.run_id, "RUN") + "\n"
    text = text.replace(str(ROOT), "CHECKOUT")
    assert text == (GOLDEN / f"{profile}-{algorithm}-sagc.txt").read_text()


@pytest.mark.parametrize("profile", ["verl-cpu", "gpu-1", "gpu-8"])
@pytest.mark.parametrize("algorithm", ["grpo", "dapo"])
def test_arms_differ_in_the_arm_alone(profile: str, algorithm: str) -> None:
    by_arm = {arm: lines(spec) for arm, spec in specs(profile, algorithm).items()}
    sagc = by_arm["sagc"]
    for arm, line in by_arm.items():
        different = {key for key in line.keys() | sagc.keys() if line.get(key) != sagc.get(key)}
        assert different - set(OF_THE_RUN) <= OF_THE_ARM, arm
        size = ARMS[arm].group_size
        if size is not None:
            assert (line["+trainer.sagc.policy"], line["+trainer.sagc.group_size"]) == ("static", str(size))


def test_algorithms_differ_in_the_algorithm_alone() -> None:
    grpo, dapo = lines(specs("gpu-1")["sagc"]), lines(specs("gpu-1", "dapo")["sagc"])
    assert {key: (grpo[key], dapo[key]) for key in grpo if grpo[key] != dapo[key] and key not in OF_THE_RUN} == {
        "actor_rollout_ref.actor.clip_ratio_high": ("0.2", "0.28"),
        "actor_rollout_ref.actor.loss_agg_mode": ("seq-mean-token-mean", "token-mean"),
        "algorithm.filter_groups.enable": ("false", "true"),
        "+reward.reward_kwargs.overlong_buffer_tokens": ("0", "614"),  # a fifth of 3,072
    }


def test_seeds_differ_in_the_seed_alone() -> None:
    spec = specs("gpu-1")["sagc"]
    one, other = lines(spec), lines(replace(spec, seed=1))
    different = {key for key in one if one[key] != other[key]} - set(OF_THE_RUN)
    assert different == {"data.seed", "actor_rollout_ref.rollout.seed", "actor_rollout_ref.actor.data_loader_seed"}


def test_the_nominal_batch_is_that_of_the_first_group_size() -> None:
    spec = specs("gpu-1")["static_32"]
    assert nominal_batch(spec) == (32, 8, 16)
    assert nominal_batch(replace(spec, batch_policy="fixed_prompts", prompts_per_step=10)) == (10, 8, 5)
    with pytest.raises(ConfigError, match=r"change rollouts_per_step or training\.mini_batches"):
        nominal_batch(replace(spec, rollouts_per_step=264))  # 33 prompts in two mini-batches
    with pytest.raises(ConfigError, match="got 260 rollouts"):
        nominal_batch(replace(spec, rollouts_per_step=260))


def test_no_arm_can_need_more_steps_than_verl_is_told() -> None:
    spec = replace(specs("gpu-1")["sagc"], horizon=Horizon(prompts=640, rollouts=10_240))
    assert most_steps(spec) == 80  # G = 32 draws 8 prompts a step
    assert most_steps(replace(spec, batch_policy="fixed_prompts")) == 160  # G = 2 makes 64 rollouts of 32 prompts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1e-6, "1e-06"),
        ((0.9, 0.99), "[0.9,0.99]"),
        (["a", "b"], "[a,b]"),
        ("Qwen/Qwen2.5-Math-1.5B", "Qwen/Qwen2.5-Math-1.5B"),
        ("/tmp/with space,comma", '"/tmp/with space,comma"'),
        ({"enable": True, "len": 4}, "{enable:true,len:4}"),
    ],
)
def test_values_are_written_as_hydra_reads_them(value: object, text: str) -> None:
    assert literal(value) == text


def test_a_policy_that_verl_does_not_know_is_refused() -> None:
    spec = specs("verl-cpu")["sagc"]

    class Other:
        name = "other"

    paths = RunPaths(folder=Path("/r"), model="m", tokenizer=None, train_files=("t",), evaluation_files=("e",))
    with pytest.raises(ConfigError, match="policy must be sagc, static or replay on verl, got 'other'"):
        overrides(spec, Other(), engine_settings(spec), paths)  # type: ignore[arg-type]


def test_the_shuffle_replays_the_schedule_that_it_was_given() -> None:
    spec = replace(specs("verl-cpu")["shuffled_sagc"], schedule=(8, 16, 8))
    line = lines(spec)
    assert line["+trainer.sagc.schedule"] == "[8,16,8]"
    assert line["+trainer.sagc.shuffle_seed"] == "0"
