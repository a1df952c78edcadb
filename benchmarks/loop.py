"""The one training loop that step engines share.

    decide G, P -> sample (and refill) -> score -> advantages -> update -> observe -> record -> evaluate -> checkpoint

It owns order, counts and clocks; the engine only generates and trains, the policy only decides. All noise is
keyed (`benchmarks.noise`), so a checkpoint needs no random state: weights, optimizer, counters and the
policy's state are the whole run.

Steps that go wrong are on record with all their facts, and some end the run:

    loss, gradient norm or a weight not finite             diverged
    dynamic sampling found no informative group            stalled
    more than 5 % of the rollouts could not be scored      failed
    GRPO: every group degenerate (`optimizer_steps` 0), or every rollout truncated: goes on. A policy that is always
    right looks like that too, and must reach the horizon at which arms are compared.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.algorithms import ALGORITHMS
from benchmarks.advantages import group_advantages, overlong_penalty
from benchmarks.checkpoint import Checkpoint, CheckpointError, write_checkpoint
from benchmarks.clock import PhaseClock
from benchmarks.engines.protocol import Sink, StepEngine, TrainBatch, TrainStats
from benchmarks.record import EvaluationRecord, Outcome, Status, StepRecord
from benchmarks.sampling import Barrier, StepSample, collect, scored
from benchmarks.spec import RunSpec
from benchmarks.step_record import Learned, step_record
from benchmarks.typed import from_json
from sagc.errors import ConfigError
from sagc.protocol import Policy
from sagc.types import Decision, Observation

HELD_OUT = "held_out"
"""Name of the evaluation set that a task brings with it."""
CHECKPOINT_STEPS = 10
"""Training steps between checkpoints [ours]."""
MAX_REWARD_ERRORS = 0.05
"""Share of a step's rollouts that may fail to be scored [ours]: they count as wrong, so more would teach nonsense."""


def train(
    engine: StepEngine,
    spec: RunSpec,
    policy: Policy[Any],
    sink: Sink,
    *,
    checkpoints: Path | None = None,
    resume: Checkpoint | None = None,
) -> Outcome:
    """Run `spec` to its horizon.

    Args:
        engine: generates and trains.
        spec: the run.
        policy: chooses the group size.
        sink: takes records as they happen, and says when the user wants to stop.
        checkpoints: folder for checkpoints; None: none are written.
        resume: go on from here; the sink already holds the records up to its step, and no later ones.

    Returns:
        ``finished`` at the horizon; ``killed`` when asked to stop; ``stalled``, ``diverged`` or ``failed`` when a
        step went wrong, as said above.

    Raises:
        CheckpointError: if `resume` is not of such a run.
    """
    run = _Run(engine, spec, policy, sink, checkpoints)
    if resume is None:
        run.evaluate()
    else:
        run.restore(resume)
    while spec.horizon.progress(run.totals.prompts, run.totals.rollouts) < 1:
        if sink.stop_requested():
            run.checkpoint()
            return run.outcome("killed", f"asked to stop after step {run.totals.step}")
        record, stats = run.step()
        if problem := _problem(record, stats):
            return run.outcome(*problem)
        run.evaluate()
        if run.totals.step % CHECKPOINT_STEPS == 0:
            run.checkpoint()
    return run.outcome("finished", "")


def step_prompts(decision: Decision, spec: RunSpec) -> int:
    """P of the next step: the decision's own, or what the batch policy makes of G.

    Raises:
        ConfigError: if G does not divide the rollouts of a step.
    """
    if decision.num_prompts is not None:
        return decision.num_prompts
    if spec.batch_policy == "fixed_prompts":
        return spec.prompts_per_step
    if spec.rollouts_per_step % decision.group_size:
        raise ConfigError(
            f"group_size must divide rollouts_per_step {spec.rollouts_per_step}, got {decision.group_size}; "
            "choose group sizes that divide it, or another rollouts_per_step"
        )
    return spec.rollouts_per_step // decision.group_size


@dataclass(slots=True)
class _Totals:
    """How far the run is, and what it has cost in earlier sittings."""

    step: int = 0
    prompts: int = 0
    rollouts: int = 0
    milestone: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    evaluation_cpu_s: float = 0.0


class _Run:
    """One run in progress."""

    def __init__(
        self, engine: StepEngine, spec: RunSpec, policy: Policy[Any], sink: Sink, checkpoints: Path | None
    ) -> None:
        self.engine, self.spec, self.policy, self.sink, self.checkpoints = engine, spec, policy, sink, checkpoints
        self.algorithm = ALGORITHMS[spec.algorithm]
        self.clock, self.totals = PhaseClock(), _Totals()
        self.cpu_started, self.started = time.process_time(), time.perf_counter()
        self.decision, self.state = policy.init()

    def step(self) -> tuple[StepRecord, TrainStats]:
        """One training step."""
        sample = self._sample()
        learned = self._learn(sample)
        with self.clock.phase("controller"):
            in_force = self.policy.describe(self.state)
            upcoming, self.state = self.policy.update(self.state, Observation(sample.lengths))
        with self.clock.phase("logging"):
            record = step_record(
                step=self.totals.step + 1,
                first_prompt=self.totals.prompts,
                played=self.decision,
                upcoming=upcoming,
                sample=sample,
                learned=learned,
                controller=self.spec.controller,
                in_force=in_force,
                after=self.policy.describe(self.state),
            )
        timing = self.clock.finish_step(record.step, record.generated_tokens, record.rollouts_generated)
        with self.clock.phase("logging"):
            self.sink.step(record, timing)
        self.decision = upcoming
        self.totals.step = record.step
        self.totals.prompts += record.groups_generated
        self.totals.rollouts += record.rollouts_generated
        return record, learned.stats

    def _sample(self) -> StepSample:
        totals, group_size = self.totals, self.decision.group_size
        progress = min(totals.rollouts / self.spec.horizon.rollouts, 1.0)
        drawn = totals.prompts

        def barrier(count: int) -> Barrier:
            nonlocal drawn
            with self.clock.phase("rollout"):
                prompts = self.engine.draw(drawn, count, progress)
                rollouts = self.engine.generate(prompts, group_size, totals.step + 1)
            drawn += count
            with self.clock.phase("reward"):
                return scored(rollouts, self.engine.score(rollouts))

        return collect(step_prompts(self.decision, self.spec), self.algorithm, barrier)

    def _learn(self, sample: StepSample) -> Learned:
        with self.clock.phase("reward"):
            lengths, cap = sample.lengths, self.engine.response_cap
            penalty = overlong_penalty(lengths, cap, round(self.algorithm.overlong_buffer_frac * cap))
            rewards = sample.rewards + penalty
            groups = np.repeat(np.arange(len(rewards)), rewards.shape[1])
            flat = group_advantages(rewards.ravel(), groups, self.algorithm.advantage_epsilon)
            advantages = flat.reshape(rewards.shape)
            trained = sample.trained
            batch = _batch(sample, trained, advantages)
        with self.clock.phase("update"):
            stats = self.engine.train(batch, self.algorithm, self.totals.step + 1)
        live = (advantages != 0) & trained[:, None]
        return Learned(
            rewards=rewards, penalty_mean=float(penalty.mean()), trained_tokens=int(lengths[live].sum()), stats=stats
        )

    def evaluate(self) -> None:
        """Evaluate at the start, and whenever the run has passed another milestone."""
        totals, plan = self.totals, self.spec.evaluation
        milestone = self.spec.horizon.milestone(totals.prompts, totals.rollouts, plan.milestones)
        if totals.step and milestone == totals.milestone:
            return
        totals.milestone = milestone
        cpu = time.process_time()
        final = milestone == plan.milestones
        scores = self.engine.evaluate(plan.final_problems if final else plan.problems, plan.samples)
        totals.evaluation_cpu_s += time.process_time() - cpu
        self.sink.evaluation(
            EvaluationRecord(
                step=totals.step,
                milestone=milestone,
                final=final,
                set=HELD_OUT,
                samples=plan.samples,
                prompts=totals.prompts,
                rollouts=totals.rollouts,
                right=scores.right,
                output_tokens=scores.output_tokens,
                truncated=scores.truncated,
            )
        )

    def checkpoint(self) -> None:
        """Write down everything that the next step depends on."""
        if self.checkpoints is None:
            return
        state = {
            "totals": asdict(self.totals) | self._costs(),
            "decision": asdict(self.decision),
            "policy": self.policy.to_json(self.state),
        }
        write_checkpoint(self.checkpoints, Checkpoint(step=self.totals.step, arrays=self.engine.state(), state=state))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        try:
            self.engine.load_state(checkpoint.arrays)
            self.totals = from_json(_Totals, checkpoint.state["totals"])
            self.decision = Decision(**checkpoint.state["decision"])
            self.state = self.policy.from_json(checkpoint.state["policy"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: torch, of another shape
            raise CheckpointError(
                f"checkpoint must be one of this run, got step {checkpoint.step} of another ({error!r}); delete it"
            ) from error

    def outcome(self, status: Status, reason: str) -> Outcome:
        """How the run ended, with the costs of all its sittings."""
        totals, costs = self.totals, self._costs()
        return Outcome(
            status=status,
            reason=reason,
            steps=totals.step,
            prompts=totals.prompts,
            rollouts=totals.rollouts,
            evaluation_cpu_s=totals.evaluation_cpu_s,
            cpu_s=costs["cpu_s"],
            wall_s=costs["wall_s"],
        )

    def _costs(self) -> dict[str, float]:
        return {
            "cpu_s": self.totals.cpu_s + time.process_time() - self.cpu_started,
            "wall_s": self.totals.wall_s + time.perf_counter() - self.started,
        }


def _batch(sample: StepSample, trained: NDArray[np.bool_], advantages: NDArray[np.float64]) -> TrainBatch:
    rollouts = [barrier.rollouts for barrier in sample.barriers]
    prompts = [prompt for batch in rollouts for prompt in batch.prompts]
    tokens = [group for batch in rollouts for group in batch.tokens]
    log_probs = [group for batch in rollouts for group in batch.log_probs]
    kept = np.flatnonzero(trained)
    return TrainBatch(
        prompts=[prompts[i] for i in kept for _ in tokens[i]],
        tokens=[row for i in kept for row in tokens[i]],
        log_probs=[row for i in kept for row in log_probs[i]],
        advantages=advantages[kept].ravel(),
    )


def _problem(record: StepRecord, stats: TrainStats) -> tuple[Status, str] | None:
    """Why the run must end after this step; None while it is healthy."""
    for name, value in (("loss", stats.loss), ("gradient norm", stats.grad_norm)):
        if value is not None and not math.isfinite(value):
            return "diverged", f"the {name} is {value} at step {record.step}"
    if not stats.weights_finite:
        return "diverged", f"a weight is not finite after step {record.step}"
    if record.reward_errors > MAX_REWARD_ERRORS * record.rollouts_generated:
        return "failed", (
            f"{record.reward_errors} of {record.rollouts_generated} rollouts could not be scored at step {record.step}"
        )
    if record.groups_trained == 0:
        return "stalled", (
            f"dynamic sampling found no informative group in {record.groups_generated} at step {record.step}"
        )
    return None
