"""What runs inside verl for the suite: the shipped SAGC trainer, which here also writes records.

Registered as ``sagc_recorded``; reads `trainer.sagc_run`: `events` (file), `prompts` and `rollouts` (horizon),
`milestones`. It stops at the horizon, evaluates at its shares, and lets the parent ask for an early end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from verl import __version__ as verl_version
from verl.trainer.ppo.v1 import register_trainer

from benchmarks.engines.verl.events import STOP, EventWriter
from benchmarks.engines.verl.faults import FAULTS
from benchmarks.engines.verl.step_facts import ScoredRollout, evaluations, step_record, step_timing
from benchmarks.record import EvaluationRecord
from benchmarks.spec import Horizon
from sagc.errors import SagcError
from sagc.integrations.verl import SagcTrainer
from sagc.integrations.verl_buffer import StalledError
from sagc.integrations.verl_ledger import Fate, real_rows, split_key


class DivergedError(SagcError, ArithmeticError):
    """The policy has left the finite numbers."""


@register_trainer("sagc_recorded")
class RecordingTrainer(SagcTrainer):
    """`SagcTrainer` with the suite's records, horizon and evaluations."""

    def __init__(self, config: DictConfig) -> None:
        run = OmegaConf.to_container(config.trainer.sagc_run, resolve=True)
        self.run_folder = Path(run["folder"])
        self.horizon = Horizon(prompts=run["prompts"], rollouts=run["rollouts"])
        self.milestones: int = run["milestones"]
        self.events = EventWriter(Path(run["events"]))
        self.scores: dict[str, list[ScoredRollout]] = {}
        self.rows: list[int] = []
        """Row of the training file of every prompt that the step drew."""
        self.controller_in_force: dict[str, float] = {}
        self.records_s = 0.0
        self.ratio_deviation_max: float | None = None
        self.stopped = ""
        self.in_step, self.evaluation_s = False, 0.0
        self.pending: list[EvaluationRecord] = []
        """Evaluations of the step in progress: its own record goes first."""
        super().__init__(config)
        self.save_freq = int(config.trainer.save_freq)

    def fit(self, agent_loop_manager: Any) -> None:
        """Train; say at the start what this is, at the end how it ended."""
        self.events.write("started", step=self.global_steps, verl=verl_version, faults=FAULTS)
        if self.global_steps:
            self.config.trainer.val_before_train = False  # it was evaluated when it was saved, if it had to be
            self.events.write("resumed", step=self.global_steps, state=self.sagc_state())
        try:
            super().fit(agent_loop_manager)
        except StalledError as error:
            self.events.write("ended", status="stalled", reason=str(error))
            raise
        except DivergedError as error:
            self.events.write("ended", status="diverged", reason=str(error))
            raise
        except Exception as error:
            self.events.write("ended", status="failed", reason=f"{type(error).__name__}: {error}"[:500])
            raise
        else:
            self.events.write("ended", status="killed" if self.stopped else "finished", reason=self.stopped)
        finally:
            self.events.close()

    def on_step_begin(self) -> None:
        """See `SagcTrainer`; a new step has no scores yet."""
        super().on_step_begin()
        self.scores, self.rows, self.in_step = {}, [], True
        self.controller_in_force = self.policy.describe(self.policy_state)

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        batch = super()._next_train_batch(num_prompts)
        self.rows.extend(int(info["index"]) for info in batch["extra_info"])
        return batch

    def _left(self, fate: Fate, uids: set[str], tags: dict[str, dict[str, Any]]) -> list[str]:
        new = super()._left(fate, uids, tags)
        started = time.perf_counter()
        keys = [key for key in tags if split_key(key)[0] in set(new)]
        if keys:
            data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["rm_scores", "extra_fields"])
            rewards, extras = [row.sum().item() for row in data["rm_scores"].unbind()], list(data["extra_fields"])
            self.scores |= by_group(keys, rewards, [extra["reward_extra_info"] for extra in extras])
        self._charge_records(started)
        return new

    def _charge_records(self, started: float) -> None:
        """What records cost is no cost of SAGC; the clock of that runs all the while."""
        spent = time.perf_counter() - started
        self.records_s += spent
        self.watch.seconds -= spent

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_old_log_prob(batch, metrics)
        started = time.perf_counter()
        keys = real_rows(batch.keys, batch.tags)
        fields = ["old_log_probs", "rollout_log_probs"]
        data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
        ratios = (data["old_log_probs"].values() - data["rollout_log_probs"].values()).exp()
        self.ratio_deviation_max = float((ratios - 1).abs().max())
        self.records_s += time.perf_counter() - started
        return batch

    def _observe(self, batch: Any, metrics: dict[str, Any]) -> None:
        super()._observe(batch, metrics)
        metrics["sagc/ratio_deviation_max"] = self.ratio_deviation_max
        self._decide_what_follows()

    def _decide_what_follows(self) -> None:
        """Ask verl to evaluate, save and stop after this step where the horizon or the parent says so.

        verl reads `test_freq`, `save_freq` and `total_training_steps` anew at each step.
        """
        before = self.totals.prompts - len(self.ledger.groups), self.totals.rollouts - self.ledger.rollouts
        now = self.totals.prompts, self.totals.rollouts
        passed = self.horizon.milestone(*now, self.milestones) > self.horizon.milestone(*before, self.milestones)
        if (self.run_folder / STOP).exists():
            self.stopped = f"asked to stop after step {self.global_steps}"
        last = bool(self.stopped) or self.horizon.progress(*now) >= 1
        trainer = self.config.trainer
        trainer.test_freq = self.global_steps if passed else -1
        trainer.save_freq = self.global_steps if last and self.save_freq > 0 else self.save_freq
        if last:
            self.total_training_steps = self.global_steps

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        started = time.perf_counter()
        actor = self.config.actor_rollout_ref.actor
        nominal = self.settings.nominal_group_size
        size = self.played.group_size if self.settings.batch_policy == "fixed_prompts" else nominal
        record = step_record(
            step=global_steps,
            first_prompt=self.totals.prompts - len(self.ledger.groups),
            num_prompts=self.num_prompts,
            group_size=self.played.group_size,
            ledger=self.ledger,
            scores=self.scores,
            threshold=self.settings.threshold,
            reference=self.settings.reference,
            controller=self.controller_in_force,
            controller_next=self.policy.describe(self.policy_state),
            decision=asdict(self.decision),
            optimizer_steps=len(batch.keys) // (actor.ppo_mini_batch_size * size) * actor.ppo_epochs,
            metrics=metrics,
            ratio_deviation_max=self.ratio_deviation_max,
            refill_exhausted=bool(metrics["sagc/refill_exhausted"]),
        )
        devices = self._get_n_gpus_for_throughput()
        timing = step_timing(global_steps, timing_raw, metrics["sagc/own_s"], self.records_s, record, devices)
        self.events.write("step", record=asdict(record), timing=asdict(timing), rows=self.rows)
        self.in_step = False
        self._write_evaluations()
        metrics["sagc/records_s"] = self.records_s
        self.records_s = time.perf_counter() - started  # the writing of a record is charged to the step that follows
        if record.optimizer_steps and (record.loss is None or record.grad_norm is None):
            raise DivergedError(f"the loss or the gradient norm is not finite at step {global_steps}")

    def on_validate_begin(self) -> None:
        """Start the clock of an evaluation."""
        super().on_validate_begin()
        self.evaluation_s = -time.perf_counter()

    def on_validate_end(self) -> None:
        """Stop it; an evaluation before training is handed on at once, a later one after its step's record."""
        super().on_validate_end()
        self.evaluation_s += time.perf_counter()
        if not self.in_step:
            self._write_evaluations()

    def _write_evaluations(self) -> None:
        for evaluation in self.pending:
            self.events.write("evaluation", record=asdict(evaluation), seconds=self.evaluation_s)
            self.evaluation_s = 0.0  # several sets share one evaluation
        self.pending.clear()

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[Any],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        for name, record in evaluations(data_sources, reward_extra_infos_dict).items():
            milestone = self.horizon.milestone(self.totals.prompts, self.totals.rollouts, self.milestones)
            evaluation = EvaluationRecord(
                step=self.global_steps,
                milestone=milestone,
                final=milestone == self.milestones,
                set=name,
                prompts=self.totals.prompts,
                rollouts=self.totals.rollouts,
                **record,
            )
            self.pending.append(evaluation)
        reward_extra_infos_dict.pop("problem")  # a number of no meaning to verl's statistics
        result: dict[str, float] = super()._val_metrics_update(
            data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts=expected_acc_counts
        )
        return result


def by_group(keys: list[str], rewards: list[float], extras: list[dict[str, float]]) -> dict[str, list[ScoredRollout]]:
    """uid -> scores of its rollouts, by session number.

    Args:
        keys: of the rollouts, one each.
        rewards: what they are trained on.
        extras: what the reward manager said beside it.
    """
    sessions: dict[str, dict[int, ScoredRollout]] = defaultdict(dict)
    for key, reward, extra in zip(keys, rewards, extras, strict=True):
        uid, session = split_key(key)
        sessions[uid][session] = ScoredRollout(
            reward=reward,
            right=extra["acc"],
            penalty=extra["overlong_penalty"],
            truncated=bool(extra["truncated"]),
            failed=bool(extra["scorer_failed"]),
        )
    return {uid: [scores[number] for number in sorted(scores)] for uid, scores in sessions.items()}
