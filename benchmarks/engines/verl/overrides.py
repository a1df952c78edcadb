"""From a run spec to verl's command line: one pure function. verl 0.9.1's config tree is its vocabulary.

Two runs that differ in the arm differ in `trainer.sagc.*` alone: the nominal batch (`data.train_batch_size` x
`rollout.n`) is that of the controller's first group size for every arm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.algorithms import ALGORITHMS, AlgorithmSpec
from baselines.arms import ARMS
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.engines.verl.data import HELD_OUT, TRAIN
from benchmarks.engines.verl.events import EVENTS
from benchmarks.engines.verl.settings import VerlEngineSettings
from benchmarks.spec import RunSpec
from sagc.controller import SagcPolicy
from sagc.errors import ConfigError
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.protocol import Policy

TRAINER = "sagc_recorded"
LOSS_AGGREGATIONS = {"sequence_mean": "seq-mean-token-mean", "token_mean": "token-mean"}
"""Our name of a loss aggregation -> verl's."""
REWARD_MANAGER = "pkg://benchmarks.engines.verl.reward_manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaths:
    """Where a run reads and writes; absolute."""

    folder: Path
    """The run's own folder."""
    model: str
    """Folder, or Hub name."""
    tokenizer: str | None
    """None: the model's own."""
    train_files: tuple[str, ...]
    evaluation_files: tuple[str, ...]

    @property
    def checkpoints(self) -> Path:
        """verl's own checkpoints, where every engine's stand."""
        return self.folder / CHECKPOINTS


def chain_paths(folder: Path, model: str, tokenizer: str, data: Path) -> RunPaths:
    """Paths of a run on a tiny task whose data were prepared in `data`."""
    return RunPaths(
        folder=folder,
        model=model,
        tokenizer=tokenizer,
        train_files=(str(data / TRAIN),),
        evaluation_files=(str(data / HELD_OUT),),
    )


def overrides(spec: RunSpec, policy: Policy[Any], settings: VerlEngineSettings, paths: RunPaths) -> list[str]:
    """verl's command line for one run, one ``key=value`` each, in a fixed order.

    Args:
        spec: the run.
        policy: what chooses its group size; made by the spec's arm.
        settings: of the profile.
        paths: of this run.

    Raises:
        ConfigError: if the spec cannot be run on verl.
    """
    algorithm = ALGORITHMS[spec.algorithm]
    values: dict[str, Any] = {
        **_batch(spec),
        **_algorithm(algorithm, settings),
        **_training(spec, settings),
        **_data(spec, settings, paths),
        **_trainer(spec, settings, paths),
        **_policy(policy),
        **_controller(spec),
    }
    lines = {key: literal(value) for key, value in values.items()}
    lines |= dict(line.split("=", 1) for line in settings.overrides)  # Hydra takes each key once: the profile's wins
    return [f"{key}={value}" for key, value in lines.items()]


def nominal_batch(spec: RunSpec) -> tuple[int, int, int]:
    """(prompts, group size, prompts of a mini-batch) of the nominal step.

    Raises:
        ConfigError: if the nominal batch does not come out whole.
    """
    size = spec.controller.initial_group_size
    rollouts = spec.rollouts_per_step
    prompts = rollouts // size if spec.batch_policy == "fixed_rollouts" else spec.prompts_per_step
    whole_step = spec.batch_policy == "fixed_prompts" or prompts * size == rollouts
    if not whole_step or prompts % spec.training.mini_batches:
        raise ConfigError(
            f"a step on verl must be whole prompts of {size} rollouts in {spec.training.mini_batches} equal "
            f"mini-batches, got {rollouts} rollouts and {prompts} prompts; "
            "change rollouts_per_step or training.mini_batches"
        )
    return prompts, size, prompts // spec.training.mini_batches


def most_steps(spec: RunSpec) -> int:
    """Training steps after which every arm has reached the horizon; verl wants a number, the horizon ends the run."""
    largest = max([*spec.controller.candidates, *(arm.group_size or 0 for arm in ARMS.values())])
    if spec.batch_policy == "fixed_prompts":
        smallest = min([*spec.controller.candidates, *(arm.group_size or largest for arm in ARMS.values())])
        by_rollouts = -(-spec.horizon.rollouts // (spec.prompts_per_step * smallest))
        return max(by_rollouts, -(-spec.horizon.prompts // spec.prompts_per_step))
    by_prompts = -(-spec.horizon.prompts * largest // spec.rollouts_per_step)
    return max(by_prompts, -(-spec.horizon.rollouts // spec.rollouts_per_step))


def literal(value: Any) -> str:
    """`value` as Hydra reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(literal(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if set(value) - _PLAIN else value
    return str(value)


_PLAIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:")


def _batch(spec: RunSpec) -> dict[str, Any]:
    prompts, size, mini = nominal_batch(spec)
    return {
        "data.train_batch_size": prompts,
        "actor_rollout_ref.rollout.n": size,
        "actor_rollout_ref.actor.ppo_mini_batch_size": mini,
    }


def _algorithm(algorithm: AlgorithmSpec, settings: VerlEngineSettings) -> dict[str, Any]:
    """verl adds 1e-6 to the standard deviation itself, as our algorithms do."""
    return {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.use_kl_in_reward": False,
        "actor_rollout_ref.actor.use_kl_loss": False,
        "actor_rollout_ref.actor.entropy_coeff": 0,
        "actor_rollout_ref.actor.clip_ratio": algorithm.clip_low,
        "actor_rollout_ref.actor.clip_ratio_low": algorithm.clip_low,
        "actor_rollout_ref.actor.clip_ratio_high": algorithm.clip_high,
        "actor_rollout_ref.actor.loss_agg_mode": LOSS_AGGREGATIONS[algorithm.loss_aggregation],
        "algorithm.filter_groups.enable": algorithm.dynamic_sampling,
        "algorithm.filter_groups.metric": "acc",
        "+reward.reward_kwargs.overlong_buffer_tokens": round(
            algorithm.overlong_buffer_frac * settings.max_response_tokens
        ),
        "+trainer.sagc.max_refill_rounds": algorithm.max_refill_rounds,
    }


def _training(spec: RunSpec, settings: VerlEngineSettings) -> dict[str, Any]:
    training = spec.training
    return {
        "actor_rollout_ref.actor.optim.lr": training.learning_rate,
        "actor_rollout_ref.actor.optim.betas": training.betas,
        "actor_rollout_ref.actor.optim.weight_decay": 0.0,
        "actor_rollout_ref.actor.optim.clip_grad": training.max_grad_norm,
        "actor_rollout_ref.actor.grad_clip": training.max_grad_norm,
        "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
        "actor_rollout_ref.actor.data_loader_seed": spec.seed,
        "actor_rollout_ref.rollout.seed": spec.seed,
        "actor_rollout_ref.rollout.temperature": 1.0,
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.top_k": -1,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "actor_rollout_ref.rollout.val_kwargs.n": spec.evaluation.samples,
        "actor_rollout_ref.rollout.val_kwargs.temperature": settings.evaluation_temperature,
        "actor_rollout_ref.rollout.val_kwargs.do_sample": settings.evaluation_temperature > 0,
    }


def _data(spec: RunSpec, settings: VerlEngineSettings, paths: RunPaths) -> dict[str, Any]:
    """A tiny task's file is the seed's stream already; a set of questions is shuffled by the seed."""
    return {
        "data.train_files": paths.train_files,
        "data.val_files": paths.evaluation_files,
        "data.shuffle": bool(settings.train_files),
        "data.validation_shuffle": False,
        "data.seed": spec.seed,
        "data.max_prompt_length": settings.max_prompt_tokens,
        "data.max_response_length": settings.max_response_tokens,
        "actor_rollout_ref.model.path": paths.model,
        "actor_rollout_ref.model.tokenizer_path": paths.tokenizer,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "SuiteRewardManager",
        "reward.reward_manager.module.path": REWARD_MANAGER,
    }


def _trainer(spec: RunSpec, settings: VerlEngineSettings, paths: RunPaths) -> dict[str, Any]:
    steps = most_steps(spec)
    return {
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": TRAINER,
        "trainer.logger": ["console", "file"],
        "trainer.project_name": "sagc",
        "trainer.experiment_name": spec.run_id,
        "trainer.n_gpus_per_node": settings.gpus_per_node,
        "trainer.nnodes": settings.nodes,
        "trainer.total_training_steps": steps,
        "trainer.total_epochs": steps,
        "trainer.val_before_train": True,
        "trainer.test_freq": -1,
        "trainer.save_freq": settings.save_every,
        "trainer.max_actor_ckpt_to_keep": 2,
        "actor_rollout_ref.actor.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "trainer.default_local_dir": str(paths.checkpoints),
        "trainer.resume_mode": "auto",
        "+trainer.sagc_run.folder": str(paths.folder),
        "+trainer.sagc_run.events": str(paths.folder / EVENTS),
        "+trainer.sagc_run.prompts": spec.horizon.prompts,
        "+trainer.sagc_run.rollouts": spec.horizon.rollouts,
        "+trainer.sagc_run.milestones": spec.evaluation.milestones,
        "+trainer.sagc.batch_policy": spec.batch_policy,
    }


def _controller(spec: RunSpec) -> dict[str, Any]:
    """The task's controller settings, which every arm carries."""
    settings = spec.controller.to_json()
    settings.pop("rollouts_per_step")  # the nominal batch says it
    return {f"+trainer.sagc.{key}": value for key, value in settings.items() if value is not None}


def _policy(policy: Policy[Any]) -> dict[str, Any]:
    if isinstance(policy, StaticPolicy):
        return {"+trainer.sagc.policy": "static", "+trainer.sagc.group_size": policy.group_size}
    if isinstance(policy, ReplayPolicy):
        seed = {} if policy.shuffle_seed is None else {"+trainer.sagc.shuffle_seed": policy.shuffle_seed}
        return {"+trainer.sagc.policy": "replay", "+trainer.sagc.schedule": list(policy.schedule), **seed}
    if isinstance(policy, SagcPolicy):
        return {"+trainer.sagc.policy": "sagc"}
    raise ConfigError(
        f"policy must be sagc, static or replay on verl, got {policy.name!r}; add it to sagc.integrations.verl_settings"
    )
