from __future__ import annotations

import copy
from typing import Any

import pytest

from sagc.controller import SagcPolicy
from sagc.errors import ConfigError
from sagc.integrations.verl_settings import DEFAULT_THRESHOLD, VerlSettings, read_settings
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.types import Decision

# the part of verl's config that the trainer reads: 8 prompts x 8 rollouts on two GPUs
VERL: dict[str, Any] = {
    "algorithm": {"adv_estimator": "grpo", "filter_groups": {"enable": False, "max_num_gen_batches": 0}},
    "data": {"train_batch_size": 8, "max_response_length": 128},
    "distillation": {"enabled": False},
    "skip": {"rollout_tq": {"enable": False}},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 4, "ppo_micro_batch_size_per_gpu": 4, "use_dynamic_bsz": False},
        "rollout": {"n": 8, "log_prob_micro_batch_size_per_gpu": 4},
    },
    "reward": {},
    "trainer": {
        "n_gpus_per_node": 2,
        "nnodes": 1,
        "v1": {"sync": {}, "sampler": {"custom_sampler": {"path": None}}},
        "sagc": {"candidates": [4, 8, 16], "budget": 0.25},
    },
}


def verl(**changes: Any) -> dict[str, Any]:
    """The config with dotted keys changed; `__` stands for a dot."""
    config = copy.deepcopy(VERL)
    for name, value in changes.items():
        *path, last = name.split("__")
        part = config
        for key in path:
            part = part.setdefault(key, {})
        part[last] = value
    return config


def read(uses_critic: bool = False, **changes: Any) -> VerlSettings:
    return read_settings(verl(**changes), uses_critic=uses_critic)


def test_two_settings_are_enough() -> None:
    settings = read()
    assert isinstance(settings.policy, SagcPolicy)
    config = settings.policy.config
    assert (config.candidates, config.budget) == ((4, 8, 16), 0.25)
    assert config.threshold == settings.threshold == DEFAULT_THRESHOLD
    assert config.initial_group_size == 8  # rollout.n
    assert config.rollouts_per_step == 64
    assert settings.group_sizes == (4, 8, 16)


@pytest.mark.parametrize(("group_size", "prompts"), [(4, 16), (8, 8), (16, 4)])
def test_fixed_rollouts_trades_prompts_for_group_size(group_size: int, prompts: int) -> None:
    assert read().prompts(Decision(group_size=group_size)) == prompts


def test_fixed_prompts_keeps_the_prompts() -> None:
    settings = read(trainer__sagc__batch_policy="fixed_prompts")
    assert [settings.prompts(Decision(group_size=size)) for size in (4, 8, 16)] == [8, 8, 8]


def test_a_policy_that_provisions_prompts_is_obeyed() -> None:
    assert read().prompts(Decision(group_size=8, num_prompts=11)) == 11


def test_static_and_replay_are_built_from_the_same_table() -> None:
    static = read(trainer__sagc__policy="static", trainer__sagc__group_size=16)
    assert isinstance(static.policy, StaticPolicy)
    assert static.policy.group_size == 16
    replay = read(trainer__sagc__policy="replay", trainer__sagc__schedule=[4, 8, 4], trainer__sagc__shuffle_seed=3)
    assert isinstance(replay.policy, ReplayPolicy)
    assert (replay.policy.schedule, replay.policy.shuffle_seed) == ((4, 8, 4), 3)
    assert replay.group_sizes == (4, 8)


def test_a_static_policy_plays_rollout_n_where_nothing_else_is_said() -> None:
    assert read(trainer__sagc__policy="static").group_sizes == (8,)


def test_every_policy_may_choose_a_size_of_its_own_batch_only() -> None:
    with pytest.raises(ConfigError, match=r"group size must divide the rollouts of a step \(64 .*got 5"):
        read(trainer__sagc__policy="static", trainer__sagc__group_size=5)
    with pytest.raises(ConfigError, match="got 6"):
        read(trainer__sagc__policy="replay", trainer__sagc__schedule=[4, 6])
    with pytest.raises(ConfigError, match=r"candidates must each divide rollouts_per_step \(64\)"):
        read(trainer__sagc__candidates=[4, 8, 24])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"trainer__sagc__policy": "sgac"}, "did you mean 'sagc'"),
        ({"trainer__sagc__budgt": 0.2}, "did you mean 'budget'"),
        ({"trainer__sagc__batch_policy": "fixed_rollout"}, "did you mean 'fixed_rollouts'"),
        ({"trainer__sagc__reference": "groups"}, "did you mean 'group'"),
        ({"trainer__sagc__rollouts_per_step": 64}, "key of trainer.sagc must be a known name"),
        ({"trainer__sagc__budget": 1.0}, "budget must be a finite number inside"),
        ({"trainer__sagc__candidates": [1, 8]}, "a group of one has no advantage"),
        ({"trainer__sagc__max_refill_rounds": -1}, "max_refill_rounds must be a whole number from 0"),
        ({"trainer__sagc__poll_interval_s": 0}, "poll_interval_s must be a finite number above 0"),
        ({"actor_rollout_ref__rollout__n": 1}, "rollout.n must be a whole number from 2"),
        (
            {"trainer__sagc__policy": "static", "trainer__sagc__group_size": 1},
            "group_size must be a whole number from 2",
        ),
        (
            {"trainer__sagc__policy": "replay", "trainer__sagc__schedule": [8, 1]},
            "schedule must be a whole number from 2",
        ),
        ({"trainer__sagc__policy": "replay"}, "schedule must hold at least one group size"),
    ],
)
def test_bad_settings_of_our_own_say_what_to_do(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"algorithm__adv_estimator": "rloo"}, "adv_estimator must be 'grpo', got 'rloo'"),
        ({"distillation__enabled": True}, "distillation.enabled must be False"),
        ({"skip__rollout_tq__enable": True}, "skip.rollout_tq.enable must be False"),
        ({"trainer__v1__sync__parameter_sync_step": 4}, "parameter_sync_step must be 1, got 4"),
        ({"trainer__v1__sagc": {"parameter_sync_step": 2}}, "trainer.v1.sagc.parameter_sync_step must be 1, got 2"),
        ({"trainer__v1__sampler__custom_sampler__path": "mine.py"}, "custom_sampler.path must be"),
        ({"algorithm__filter_groups__max_num_gen_batches": 10}, "use .trainer.sagc.max_refill_rounds"),
        (
            {"reward_model__reward_kwargs": {"overlong_buffer_cfg": {"enable": True}}},
            r"move it to reward\.reward_kwargs",
        ),
        ({"custom_reward_function__path": "mine.py"}, r"use reward\.custom_reward_function\.path"),
        (
            {"reward__reward_kwargs": {"overlong_buffer_cfg": {"enable": True}, "max_resp_len": 100}},
            r"max_resp_len must be at least data.max_response_length \(128\), got 100",
        ),
    ],
)
def test_what_a_changing_group_size_cannot_go_with_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read(**changes)


def test_a_critic_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"critic must be off.*adv_estimator=grpo critic\.enable=False"):
        read(uses_critic=True)


def test_an_overlong_penalty_that_cannot_pass_minus_one_is_accepted() -> None:
    read(reward__reward_kwargs={"overlong_buffer_cfg": {"enable": True}, "max_resp_len": 128})


def test_a_batch_that_verl_would_pad_is_refused_with_a_mini_batch_that_fits() -> None:
    with pytest.raises(ConfigError, match=r"ppo_mini_batch_size must divide .*\(8\), got 6.*set it to 2"):
        read(actor_rollout_ref__actor__ppo_mini_batch_size=6)


def test_every_reachable_group_size_is_checked_where_the_rows_follow_it() -> None:
    # mini-batch rows are 4 x G on 3 workers: G = 3 and 6 split, 4 does not
    changes: dict[str, Any] = {
        "trainer__n_gpus_per_node": 3,
        "trainer__sagc__batch_policy": "fixed_prompts",
        "actor_rollout_ref__rollout__n": 6,
        "actor_rollout_ref__actor__use_dynamic_bsz": True,
    }
    read(trainer__sagc__candidates=[3, 6], **changes)
    with pytest.raises(ConfigError, match=r"multiple of workers \(3\) at every group size, got 16 at G = 4"):
        read(trainer__sagc__candidates=[4, 6], **changes)


def test_micro_batches_that_verl_could_not_split_are_refused_before_the_first_update() -> None:
    with pytest.raises(ConfigError, match=r"multiple of ppo_micro_batch_size_per_gpu \(5\) .*got 16 at G = 8"):
        read(actor_rollout_ref__actor__ppo_micro_batch_size_per_gpu=5)
    with pytest.raises(ConfigError, match=r"log_prob_micro_batch_size_per_gpu \(3\)"):
        read(actor_rollout_ref__rollout__log_prob_micro_batch_size_per_gpu=3)
    read(actor_rollout_ref__actor__ppo_micro_batch_size_per_gpu=5, actor_rollout_ref__actor__use_dynamic_bsz=True)


def test_sequence_parallel_workers_share_their_rows() -> None:
    # 60 rows, 8 GPUs: no; 8 GPUs in pairs are 4 workers of 15 rows
    changes: dict[str, Any] = {
        "data__train_batch_size": 10,
        "trainer__n_gpus_per_node": 8,
        "trainer__sagc__candidates": [3, 6],
        "actor_rollout_ref__rollout__n": 6,
        "actor_rollout_ref__actor__ppo_mini_batch_size": 10,
        "actor_rollout_ref__actor__use_dynamic_bsz": True,
    }
    with pytest.raises(ConfigError, match=r"multiple of workers \(8\) at every group size, got 60"):
        read(**changes)
    read(actor_rollout_ref__actor__ulysses_sequence_parallel_size=2, **changes)
