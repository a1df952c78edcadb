"""SAGC as a trainer of verl's V1 stack: the group size of every training step from the lengths of the one before.

    VERL_USE_EXTERNAL_MODULES=sagc.integrations.verl python -m verl.trainer.main_ppo \\
        trainer.v1.trainer_mode=sagc +trainer.sagc.candidates=[4,8,16] +trainer.sagc.budget=0.25 ...

`SagcTrainer` is verl's synchronous trainer with a few of its methods overridden; no verl code is copied or patched.
G is stamped on each prompt, which verl's agent loop reads and nothing in verl 0.9.1 writes. `SagcReplayBuffer` is
verl's replay buffer that also says what leaves it, so that the controller sees filtered and surplus groups too.

Source of the behaviour relied on: verl 0.9.1, `verl.trainer.ppo.v1`; `RELIES_ON` pins it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils as tu

from sagc.errors import ConfigError
from sagc.integrations.verl_buffer import SagcReplayBuffer, Stopwatch
from sagc.integrations.verl_ledger import Fate, StepLedger, Totals, lone_rows, step_counters
from sagc.integrations.verl_settings import read_settings
from sagc.integrations.verl_state import STATE_FILE, end_as_failed, read_state, write_state
from sagc.stragglers import straggler_counts
from sagc.types import Decision, JsonDict, Observation

logger = logging.getLogger(__name__)

RELIES_ON: dict[str, tuple[str, ...]] = {
    "PPOTrainerSync.__init__": ("self", "config"),
    "PPOTrainerSync._build_replay_buffer": ("self",),
    "PPOTrainerSync.fit": ("self", "agent_loop_manager"),
    "PPOTrainerSync.on_step_begin": ("self",),
    "PPOTrainerSync._next_train_batch": ("self", "num_prompts"),
    "PPOTrainerSync._step_once": ("self", "metrics", "timing_raw", "sample_batch_size"),
    "PPOTrainerSync._compute_advantage": ("self", "batch", "metrics"),
    "PPOTrainerSync._compute_metrics": ("self", "batch", "metrics", "timing_raw", "global_steps", "epoch"),
    "PPOTrainerSync._save_checkpoint": ("self",),
    "PPOTrainerSync._load_checkpoint": ("self",),
    "ReplayBuffer._terminal_eviction_reasons": ("self", "global_steps", "partition_id"),
    "ReplayBuffer._evict_terminal_groups": ("self", "global_steps", "partition_id", "eviction_reasons"),
    "ReplayBuffer._clear_groups": ("self", "partition_id", "uids"),
    "ReplayBuffer._select_prompt_uids": ("self", "partition_id", "sampleable_keys", "batch_size"),
    "ReplayBuffer._materialize_batch": ("self", "partition_id", "selected_prompt_uids", "partition_snapshot"),
}
"""verl method -> its parameters, as of verl 0.9.1."""


def changed_signatures() -> list[str]:
    """Which verl methods that this module overrides are missing or take other parameters than those of 0.9.1."""
    classes = {"PPOTrainerSync": PPOTrainerSync, "ReplayBuffer": ReplayBuffer}
    changed = []
    for name, expected in RELIES_ON.items():
        owner, method = name.split(".")
        function = getattr(classes[owner], method, None)
        actual = tuple(inspect.signature(function).parameters) if function else None
        if actual != expected:
            changed.append(f"{name} takes {actual}, not {expected}")
    return changed


@register_trainer("sagc")
class SagcTrainer(PPOTrainerSync):
    """verl's synchronous trainer with a group size that a policy chooses before every training step.

    Raises:
        ConfigError: on a setting of `trainer.sagc`, or of verl beside it, that cannot be honoured, and on a verl
            whose methods are not those of 0.9.1.
    """

    def __init__(self, config: DictConfig) -> None:
        if changed := changed_signatures():
            raise ConfigError(f"verl must have the methods of 0.9.1, got {'; '.join(changed)}; install verl==0.9.1")
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
        self.settings = read_settings(plain, uses_critic=need_critic(config))
        self.policy = self.settings.policy
        self.decision, self.policy_state = self.policy.init()
        self.played: Decision = self.decision
        self.num_prompts = self.settings.prompts(self.decision)
        self.ledger, self.totals, self.watch = StepLedger(), Totals(), Stopwatch()
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # the base class compares this word in many places
            config.data.gen_batch_size = 1  # so that any number of prompts can be fetched
        super().__init__(config)

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = SagcReplayBuffer.like(
            super()._build_replay_buffer(), report=self._left, exhausted=self._refill_exhausted, watch=self.watch
        )
        if self.settings.poll_interval_s is not None:
            buffer.poll_interval = self.settings.poll_interval_s
        return buffer

    def _left(self, fate: Fate, uids: set[str], tags: dict[str, dict[str, Any]]) -> list[str]:
        return self.ledger.left(fate, uids, tags)

    def _refill_exhausted(self) -> bool:
        return self.ledger.refilled >= self.settings.max_refill_rounds * self.num_prompts

    def fit(self, agent_loop_manager: Any) -> None:
        """verl's training loop; a crash is a FAILED run in MLflow, where verl itself would call it FINISHED."""
        try:
            super().fit(agent_loop_manager)
        except BaseException:
            end_as_failed(getattr(getattr(self, "logger", None), "logger", {}))
            raise

    def on_step_begin(self) -> None:
        """Fix G and P of the step."""
        super().on_step_begin()
        with self.watch:
            self.played = self.decision
            self.num_prompts = self.settings.prompts(self.decision)
            self.ledger = StepLedger()
            self.replay_buffer.train_batch_size = self.num_prompts  # bounds the prompts in flight under DAPO

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        batch = super()._next_train_batch(self.num_prompts if num_prompts is None else num_prompts)
        with self.watch:
            tu.assign_non_tensor_data(batch, "__rollout_n__", self.played.group_size)
            self.ledger.drew(list(batch["uid"]))
        return batch

    def _step_once(self, metrics: dict[str, Any], timing_raw: dict[str, float], sample_batch_size: int) -> Any:
        with self._mini_batch_rows():
            batch = super()._step_once(metrics, timing_raw, self.num_prompts)
        with self.watch:
            self._observe(batch, metrics)
        return batch

    @contextmanager
    def _mini_batch_rows(self) -> Iterator[None]:
        """Under `fixed_prompts`, let the driver count a mini-batch's rows with the step's own G."""
        rollout = self.config.actor_rollout_ref.rollout
        nominal = rollout.n
        if self.settings.batch_policy == "fixed_prompts":
            rollout.n = self.played.group_size
        try:
            yield
        finally:
            rollout.n = nominal

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        with self.watch:
            lone = lone_rows(batch.keys, batch.tags)
            metrics["sagc/lone_rollouts"] = len(lone)
            if lone:
                no_advantage(lone, batch.partition_id)
        return batch

    def _observe(self, batch: Any, metrics: dict[str, Any]) -> None:
        """Hand the step's lengths to the policy and log what it saw and decided."""
        lengths = self.ledger.lengths
        self.totals.add(self.ledger)
        counts = straggler_counts(lengths, self.settings.threshold, self.settings.reference)
        was_infeasible = self.decision.budget_infeasible
        self.decision, self.policy_state = self.policy.update(self.policy_state, Observation(lengths))
        if self.decision.budget_infeasible and not was_infeasible:
            logger.warning(
                "the straggler budget is below the risk of the smallest candidate at step %d; "
                "raise trainer.sagc.budget or trainer.sagc.threshold, or add a smaller candidate",
                self.global_steps,
            )
        numbers = {
            "group_size": self.played.group_size,
            "num_prompts": self.num_prompts,
            "next_group_size": self.decision.group_size,
            **step_counters(self.ledger, batch.keys, batch.tags),
            "refill_exhausted": int(self.replay_buffer.filter_groups_metric is not None and self._refill_exhausted()),
            **{f"all_{name}": value for name, value in asdict(self.totals).items()},
            **{f"controller/{name}": value for name, value in self.policy.describe(self.policy_state).items()},
        }
        if counts.rate is not None:
            numbers["straggler_rate"] = counts.rate
        metrics.update({f"sagc/{name}": value for name, value in numbers.items()})

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        with self.watch:
            bad = [key for key, value in metrics.items() if not is_loggable(value)]
            for key in bad:  # one of them would cost a tracker the whole step
                logger.warning("metric %s is left out of step %d: %r is no number", key, global_steps, metrics.pop(key))
            metrics["sagc/metrics_left_out"] = len(bad)
        metrics["sagc/own_s"], self.watch.seconds = self.watch.seconds, 0.0

    def sagc_state(self) -> JsonDict:
        """What a checkpoint needs beside verl's own: the policy's state, its decision, and the totals."""
        return {
            "format": 1,
            "policy": self.policy.to_json(self.policy_state),
            "decision": asdict(self.decision),
            "totals": asdict(self.totals),
        }

    def _save_checkpoint(self) -> None:
        with self.watch:
            folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
            write_state(folder / STATE_FILE, self.sagc_state())
        super()._save_checkpoint()  # writes the tracker file last

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps == 0:
            return
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if trainer.resume_mode == "resume_path":
            folder = Path(trainer.resume_from_path)
        data = read_state(folder / STATE_FILE)
        self.policy_state = self.policy.from_json(data["policy"])
        self.decision, self.totals = Decision(**data["decision"]), Totals(**data["totals"])


def no_advantage(keys: list[str], partition_id: str) -> None:
    """Give these rows advantage 0: a group of one has nothing to be compared with."""
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=["advantages", "returns"])
    zeros = {name: torch.zeros_like(data[name]) for name in ("advantages", "returns")}
    tq.kv_batch_put(keys=keys, partition_id=partition_id, fields=TensorDict(zeros, batch_size=len(keys)))


def is_loggable(value: object) -> bool:
    """Whether a tracker can take a metric; verl's own dictionary of filtered rewards is taken out before that."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    return isinstance(value, int | float | np.number | np.bool_ | dict)
