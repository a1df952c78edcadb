"""One run, fully resolved: everything that its records depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sagc.config import SagcConfig

BatchPolicy = Literal["fixed_rollouts", "fixed_prompts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """A run ends when it has reached both."""

    prompts: int
    """P_h: prompts drawn, filtered ones included."""
    rollouts: int
    """R_h: rollouts generated."""

    def progress(self, prompts: int, rollouts: int) -> float:
        """min(prompts / P_h, rollouts / R_h), the share of the run that is done; 1 or more at its end."""
        return min(prompts / self.prompts, rollouts / self.rollouts)

    def milestone(self, prompts: int, rollouts: int, milestones: int) -> int:
        """The largest k with progress >= k / `milestones`, at most `milestones`; exact, in integers."""
        return min(prompts * milestones // self.prompts, rollouts * milestones // self.rollouts, milestones)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """When and on how much a run is evaluated."""

    problems: int = 256
    final_problems: int = 1024
    samples: int = 8
    """Samples per problem [ours]: one sample leaves more noise in an accuracy than three training seeds do."""
    milestones: int = 10
    """Evaluations after the start, at equal shares of the horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Optimizer settings of a step engine."""

    learning_rate: float = 1e-4
    """[ours]: 2e-4 removes the tail of the tiny task and the budget stops binding."""
    betas: tuple[float, float] = (0.9, 0.99)
    mini_batches: int = 2
    """Optimizer steps per training step [ours]."""
    max_grad_norm: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What one run is: names of rows in the tables, and every number that they do not fix."""

    engine: str
    task: str
    algorithm: str
    arm: str
    seed: int
    controller: SagcConfig
    """The task's controller settings; arms that do not use them carry them all the same."""
    horizon: Horizon
    rollouts_per_step: int
    """N: P_t * G_t under ``fixed_rollouts``."""
    prompts_per_step: int
    """P under ``fixed_prompts``."""
    batch_policy: BatchPolicy = "fixed_rollouts"
    evaluation: EvaluationPlan = field(default_factory=EvaluationPlan)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    schedule: tuple[int, ...] | None = None
    """Group sizes that the arm replays; None for an arm that follows no other run."""
    schedule_source: str | None = None
    """run_id of the run that `schedule` comes from."""
    engine_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What the engine alone understands (model, machine, data); empty for an engine without settings of its own."""

    def to_json(self) -> dict[str, Any]:
        """Every field as JSON, nested settings included."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # tuples become lists, as a reader will see them
        return data

    @property
    def config_hash(self) -> str:
        """16 hex digits over everything but the arm, its schedule and the seed: runs with one hash are comparable."""
        shared = {k: v for k, v in self.to_json().items() if k not in {"arm", "seed", "schedule", "schedule_source"}}
        return _digest(shared)

    @property
    def run_id(self) -> str:
        """The run's folder name: readable, and different whenever any setting differs."""
        stem = f"{self.task}-{self.algorithm}-{self.arm}-{self.engine}-s{self.seed}"
        return f"{stem}-{_digest(self.to_json())[:8]}"


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
