"""verl settings that a changing group size cannot go with, refused before anything starts. Imports no verl."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sagc.checks import whole
from sagc.errors import ConfigError


def check_supported(config: Mapping[str, Any], *, uses_critic: bool) -> None:
    """Refuse what a changing group size cannot go with.

    Raises:
        ConfigError: naming the setting, its value and the cure.
    """
    if uses_critic:
        raise ConfigError(
            f"critic must be off, got algorithm.adv_estimator={at(config, 'algorithm.adv_estimator')!r} with a critic; "
            "its mini-batches follow a constant rollout.n: set algorithm.adv_estimator=grpo critic.enable=False"
        )
    for key, wanted, why in _REQUIRED:
        value = at(config, key)
        if value is not None and value not in wanted:
            raise ConfigError(f"{key} must be {' or '.join(map(repr, wanted))}, got {value!r}; {why}")
    for mode in ("sync", "sagc"):
        steps = at(config, f"trainer.v1.{mode}.parameter_sync_step")
        if steps not in (None, 1):
            raise ConfigError(
                f"trainer.v1.{mode}.parameter_sync_step must be 1, got {steps!r}; "
                "G changes at optimizer-step boundaries with weights in sync: leave it out"
            )
    _check_overlong(config)


_REQUIRED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("algorithm.adv_estimator", ("grpo",), "it alone is tested with groups of different size: set it to grpo"),
    ("distillation.enabled", (False,), "distillation is not tested with a changing group size: switch it off"),
    ("skip.rollout_tq.enable", (False,), "cached rollouts have the group size of another run: switch it off"),
    (
        "trainer.v1.sampler.custom_sampler.path",
        ("",),
        "this trainer brings a replay buffer that reports the lengths of filtered groups: unset it",
    ),
    (
        "algorithm.filter_groups.max_num_gen_batches",
        (0,),
        "verl's V1 replay buffer ignores it: set it to 0 and use +trainer.sagc.max_refill_rounds",
    ),
    ("reward_model.reward_kwargs", ({},), "verl's V1 trainers ignore it: move it to reward.reward_kwargs"),
    ("custom_reward_function.path", ("",), "verl's V1 trainers ignore it: use reward.custom_reward_function.path"),
)
"""(key, allowed values, cure); a key that is missing or null is fine."""


def _check_overlong(config: Mapping[str, Any]) -> None:
    """verl's overlong penalty has no floor at -1, which shows only above its own max_resp_len."""
    buffer = at(config, "reward.reward_kwargs.overlong_buffer_cfg") or {}
    longest = at(config, "reward.reward_kwargs.max_resp_len")
    cap = at(config, "data.max_response_length")
    if buffer.get("enable") and longest is not None and cap is not None and longest < cap:
        raise ConfigError(
            f"reward.reward_kwargs.max_resp_len must be at least data.max_response_length ({cap}), got {longest!r}; "
            "verl's overlong penalty falls without bound above it: set both to the same number"
        )


def check_rows(config: Mapping[str, Any], train_batch_size: int, group_sizes: Iterable[int]) -> None:
    """Refuse group sizes at which verl would pad the batch or stop in the middle of a run.

    A step has `train_batch_size` x G rows and a mini-batch `ppo_mini_batch_size` x G of them.

    Args:
        config: the whole verl config.
        train_batch_size: `data.train_batch_size`.
        group_sizes: every G by which rows are counted: all that are reachable where the prompts of a step are
            fixed, `rollout.n` alone where its rollouts are.

    Raises:
        ConfigError: naming the numbers and the cure.
    """
    actor = at(config, "actor_rollout_ref.actor") or {}
    mini_prompts = whole("actor_rollout_ref.actor.ppo_mini_batch_size", actor.get("ppo_mini_batch_size"))
    if train_batch_size % mini_prompts:
        raise ConfigError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size must divide data.train_batch_size "
            f"({train_batch_size}), got {mini_prompts}; verl would fill the last mini-batch with padding: "
            f"set it to {math.gcd(mini_prompts, train_batch_size)}"
        )
    workers = _data_parallel(config, actor)
    for size in group_sizes:
        rows, mini_rows = train_batch_size * size, mini_prompts * size
        _check_split("mini-batch rows", mini_rows, workers, "workers", size)
        if actor.get("use_dynamic_bsz"):
            continue
        micro = actor.get("ppo_micro_batch_size_per_gpu")
        if micro is not None:
            _check_split(
                "mini-batch rows per worker", mini_rows // workers, micro, "ppo_micro_batch_size_per_gpu", size
            )
        micro = at(config, "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu")
        if micro is not None:
            _check_split("rows per worker", rows // workers, micro, "log_prob_micro_batch_size_per_gpu", size)


def _data_parallel(config: Mapping[str, Any], actor: Mapping[str, Any]) -> int:
    gpus = int(at(config, "trainer.n_gpus_per_node") or 1) * int(at(config, "trainer.nnodes") or 1)
    sequence_parallel = actor.get("ulysses_sequence_parallel_size") or 1
    return max(1, gpus // sequence_parallel)


def _check_split(what: str, rows: int, parts: int, of: str, size: int) -> None:
    if rows % parts:
        raise ConfigError(
            f"{what} must be a multiple of {of} ({parts}) at every group size, got {rows} at G = {size}; "
            "change the batch sizes or drop that group size"
        )


def at(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; None where a part of it is missing."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
