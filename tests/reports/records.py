"""Synthetic but complete run folders with a known truth, written through the real store.

A world says, for each arm, what it costs, how accurate it is, how long its outputs are and how often its groups
straggle; everything else in the records follows from that. Accuracy does not change in the course of a run unless
`gain` says so, so the truth is the same on every axis. Tests alone use this: no number here is a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baselines.algorithms import ALGORITHMS
from baselines.arms import ARMS
from benchmarks.costs import modelled_seconds
from benchmarks.record import EvaluationRecord, Outcome, StepRecord, StepTiming
from benchmarks.settings import resolved_config
from benchmarks.spec import EvaluationPlan, Horizon, RunSpec
from benchmarks.store import CONFIG, RunWriter, write_json, write_outcome
from sagc.config import SagcConfig
from sagc.dual import update_price
from sagc.stragglers import straggler_counts

SHORT, LONG = 20, 60
"""Tokens of a plain rollout and of a straggler; 3 times the median of its group."""
GOLDEN = 0.6180339887498949
CYCLES = {"sagc": (8, 16), "shuffled_sagc": (16, 8)}
"""Group sizes that the adaptive arms repeat: mean 12, however long the run."""
DEFAULT_RATE = {"static_2": 0.0, "static_4": 0.1, "static_8": 0.2, "static_16": 0.4, "static_32": 0.6}


@dataclass(frozen=True, kw_only=True)
class World:
    """The planted truth; what an arm is not named in has the default."""

    arms: Sequence[str] = tuple(ARMS)
    algorithms: Sequence[str] = ("grpo", "dapo")
    task: str = "steady"
    seeds: Sequence[int] = (0, 1, 2)
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Arm -> accuracy; default 0.6."""
    dapo_lead: float = 0.0
    """Added to SAGC's accuracy under DAPO."""
    gain: float = 0.0
    """Accuracy gained over R_h rollouts."""
    accuracy_spread: float = 0.004
    """Standard deviation over seeds."""
    output_length: Mapping[str, float] = field(default_factory=dict)
    """Arm -> output tokens; default 22."""
    rate: Mapping[str, float] = field(default_factory=lambda: DEFAULT_RATE)
    """Arm -> straggler rate; default 0.25."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Arm -> factor on decode steps, row-steps and trained tokens; default 1."""
    initial_price: float = 1.0
    problems: int = 400


def controller(world: World) -> SagcConfig:
    """The controller settings of every run."""
    return SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=2.0, initial_price=world.initial_price)


def spec(world: World, algorithm: str, arm: str, seed: int) -> RunSpec:
    """The spec of one run."""
    follows = ARMS[arm].follows
    return RunSpec(
        engine="torch_cpu",
        task=world.task,
        algorithm=algorithm,
        arm=arm,
        seed=seed,
        controller=controller(world),
        horizon=Horizon(prompts=96, rollouts=1536),
        rollouts_per_step=64,
        prompts_per_step=8,
        evaluation=EvaluationPlan(problems=world.problems // 2, final_problems=world.problems, milestones=4),
        schedule=(8, 16) if follows else None,
        schedule_source=spec(world, algorithm, follows, seed).run_id if follows else None,
    )


def plan(world: World) -> list[RunSpec]:
    """Every run of the world."""
    return [
        spec(world, algorithm, arm, seed)
        for algorithm, arm, seed in itertools.product(world.algorithms, world.arms, world.seeds)
    ]


def write(root: Path, world: World) -> list[Path]:
    """Write every run of the world under `root`; returns their folders."""
    return [write_run(root, world, run) for run in plan(world)]


def write_run(root: Path, world: World, run: RunSpec) -> Path:
    """Write one finished run."""
    writer = RunWriter(root / run.run_id)
    write_json(writer.folder / CONFIG, resolved_config(run))
    prompts = rollouts = milestone = 0
    price, debt = world.initial_price, 0.0
    writer.evaluation(_evaluation(world, run, 0, 0, 0, 0))
    step = 0
    while run.horizon.progress(prompts, rollouts) < 1:
        step += 1
        group_size = _group_size(run.arm, step)
        groups, debt = _groups(world, run, group_size, debt)
        record = _step(world, run, step, prompts, groups, price)
        price = record.controller_next.get("dual_variable", price)
        seconds = modelled_seconds(record.decode_steps, record.row_steps, record.trained_tokens)
        writer.step(record, _timing(step, record, seconds))
        prompts, rollouts = prompts + record.groups_generated, rollouts + record.rollouts_generated
        passed = run.horizon.milestone(prompts, rollouts, run.evaluation.milestones)
        if passed > milestone:
            milestone = passed
            writer.evaluation(_evaluation(world, run, step, milestone, prompts, rollouts))
    writer.close()
    write_outcome(writer.folder, _outcome(run, step, prompts, rollouts))
    return writer.folder


def _group_size(arm: str, step: int) -> int:
    fixed = ARMS[arm].group_size
    return fixed if fixed is not None else CYCLES[arm][(step - 1) % 2]


def _groups(world: World, run: RunSpec, group_size: int, debt: float) -> tuple[list[list[int]], float]:
    """Lengths of a step with the planted rate; what a step cannot show is carried over, so the mean is exact."""
    count = run.rollouts_per_step // group_size + (run.algorithm == "dapo")  # one filtered group a step
    debt += world.rate.get(run.arm, 0.25) * count
    stragglers = min(count, int(debt + 1e-9))
    groups = [[SHORT] * group_size for _ in range(count)]
    for group in groups[:stragglers]:
        group[0] = LONG
    return groups, debt - stragglers


def _step(world: World, run: RunSpec, step: int, drawn: int, groups: list[list[int]], price: float) -> StepRecord:
    rollouts, tokens = sum(map(len, groups)), sum(map(sum, groups))
    group_size = len(groups[0])
    filtered = int(run.algorithm == "dapo")
    barriers = [groups[: len(groups) - filtered], groups[len(groups) - filtered :]][: 1 + filtered]
    counts = straggler_counts(groups, run.controller.threshold, run.controller.reference)
    longest = [max(map(max, barrier)) for barrier in barriers]
    cost = world.cost.get(run.arm, 1.0)
    now, following = {}, {}
    if run.arm == "sagc":
        assert counts.rate is not None
        after = update_price(price, counts.rate, run.controller.budget, run.controller.dual_step_size)
        now = {"dual_variable": price, "clipped": 0.0}
        following = {"dual_variable": after.price, "clipped": after.clipped}
    return StepRecord(
        step=step,
        group_size=group_size,
        num_prompts=len(groups) - filtered,
        first_prompt=drawn,
        lengths=groups,
        straggler_rate=counts.rate,
        straggler_groups=counts.straggler_groups,
        counted_groups=counts.groups,
        straggler_rollouts=counts.hits,
        controller=now,
        controller_next=following,
        decision={"group_size": _group_size(run.arm, step + 1), "num_prompts": None, "budget_infeasible": False},
        barriers=len(barriers),
        barrier_rollouts=[sum(map(len, barrier)) for barrier in barriers],
        barrier_longest=longest,
        generated_tokens=tokens,
        decode_steps=round(cost * 1000 * sum(longest)),  # large, so that rounding a factor changes nothing
        row_steps=round(cost * 1000 * tokens),
        groups_generated=len(groups),
        groups_filtered=filtered,
        groups_trained=len(groups) - filtered,
        groups_surplus=0,
        degenerate_groups=filtered,
        rollouts_generated=rollouts,
        rollouts_trained=rollouts - filtered * group_size,
        accuracy=0.5,
        reward_mean=0.5,
        overlong_penalty_mean=-0.01 if filtered else 0.0,
        truncated_rollouts=1,
        trained_tokens=round(cost * 1000 * tokens / 2),
        optimizer_steps=2,
        loss=0.0,
        grad_norm=1.0,
        clip_frac=0.1,
        ratio_deviation_max=0.0,
    )


def _timing(step: int, record: StepRecord, seconds: float) -> StepTiming:
    return StepTiming(
        step=step,
        cpu_s={"rollout": 0.6 * seconds, "reward": 0.0, "update": 0.3 * seconds, "controller": 0.0, "logging": 0.0},
        wall_s={"rollout": 0.7 * seconds, "reward": 0.0, "update": 0.4 * seconds, "controller": 0.0, "logging": 0.0},
        throughput_tokens_per_s=record.generated_tokens / (0.7 * seconds),
        rollouts_per_s=record.rollouts_generated / (0.7 * seconds),
        load_average=1.5,
    )


def _evaluation(world: World, run: RunSpec, step: int, milestone: int, prompts: int, rollouts: int) -> EvaluationRecord:
    final = milestone == run.evaluation.milestones
    count = run.evaluation.final_problems if final else run.evaluation.problems
    noise = np.random.default_rng([run.seed, list(ARMS).index(run.arm), list(ALGORITHMS).index(run.algorithm)])
    accuracy = world.accuracy.get(run.arm, 0.6) + world.accuracy_spread * noise.standard_normal()
    accuracy += world.gain * rollouts / run.horizon.rollouts
    accuracy += world.dapo_lead * (run.arm == "sagc" and run.algorithm == "dapo")
    length = world.output_length.get(run.arm, 22.0) + 0.1 * noise.standard_normal()
    difficulty = np.arange(count) * GOLDEN % 1  # evenly spread in every prefix
    return EvaluationRecord(
        step=step,
        milestone=milestone,
        final=final,
        set="held_out",
        samples=1,
        prompts=prompts,
        rollouts=rollouts,
        right=(difficulty < accuracy).astype(int).tolist(),
        output_tokens=np.floor(length + difficulty).astype(int).tolist(),
        truncated=[0] * count,
    )


def _outcome(run: RunSpec, steps: int, prompts: int, rollouts: int) -> Outcome:
    provenance: dict[str, Any] = {
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "packages": {"numpy": "2.4.6", "torch": "2.13.0"},
        "python": "3.11.7",
        "machine": {"system": "Linux", "cpu": "a processor", "cores": 2, "usable_cores": 2},
        "command": "python -m benchmarks reproduce",
        "started": {"time": f"2026-11-29T10:0{run.seed}:00+00:00", "load": [0.5, 0.4, 0.3]},
        "ended": {"time": f"2026-11-29T10:0{run.seed}:30+00:00", "load": [1.9, 0.9, 0.5]},
    }
    return Outcome(
        status="finished",
        reason="",
        steps=steps,
        prompts=prompts,
        rollouts=rollouts,
        cpu_s=12.5,
        wall_s=13.0,
        evaluation_cpu_s=2.5,
        provenance=provenance,
    )
