"""What an engine is: one run in, records out.

A *step engine* (torch on a CPU, later a simulator) only generates and trains; `benchmarks.loop` owns its
training loop. A *process engine* (verl, later TRL and OpenRLHF) implements `Engine` itself and turns the
log of its process into the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from baselines.algorithms import AlgorithmSpec
from benchmarks.record import EvaluationRecord, Outcome, StepRecord, StepTiming
from benchmarks.spec import RunSpec
from sagc.protocol import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do; the report shows "not measured" for the rest, never 0."""

    learns: bool
    measures_time: bool
    resumes_exactly: bool


class Sink(Protocol):
    """Takes a run's records as they happen."""

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """One training step has ended."""
        ...

    def evaluation(self, record: EvaluationRecord) -> None:
        """One evaluation has ended."""
        ...

    def stop_requested(self) -> bool:
        """Whether the user asked the run to end after the step in progress."""
        ...


class Engine(Protocol):
    """Runs one `RunSpec` to its horizon."""

    name: str
    capabilities: Capabilities

    def prepare(self, spec: RunSpec, cache: Path) -> None:
        """Build under `cache` what every arm of the spec's task shares (a warm start); idempotent.

        The runner calls it once per task and engine before any run starts, and again in the process of each
        run, before `run`, where it finds what is there.
        """
        ...

    def run(self, spec: RunSpec, policy: Policy[Any], sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        """Train to the horizon, sending every record to `sink`.

        Args:
            spec: the run.
            policy: what chooses the group size.
            sink: takes records as they happen.
            folder: the run's own folder; models and checkpoints go under it.
            resume_from: a checkpoint of this run to go on from; None starts anew.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of the training stream or of an evaluation set."""

    index: int
    """Position in its stream; with the run seed it fixes the problem and the noise of its rollouts."""
    tokens: tuple[int, ...]
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What one barrier produced: P prompts with G rollouts each."""

    prompts: Sequence[Prompt]
    tokens: Sequence[Sequence[NDArray[np.int64]]]
    """[P][G] response tokens, the end-of-sequence token included where there is one."""
    log_probs: Sequence[Sequence[NDArray[np.float32]]]
    """[P][G] log-probability of each response token under the sampling policy."""
    truncated: NDArray[np.bool_]
    """[P, G] whether the response hit the cap without its end token."""
    decode_steps: int
    row_steps: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[P, G] response tokens."""
        return np.array([[len(rollout) for rollout in group] for group in self.tokens], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBatch:
    """The rollouts that one training step updates on, flattened: [R] rows."""

    prompts: Sequence[Prompt]
    tokens: Sequence[NDArray[np.int64]]
    log_probs: Sequence[NDArray[np.float32]]
    advantages: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStats:
    """What an update reports; None where no optimizer step was taken."""

    optimizer_steps: int
    loss: float | None
    grad_norm: float | None
    clip_frac: float | None
    ratio_deviation_max: float | None
    weights_finite: bool = True
    """Whether every weight is a number still; an update with a finite gradient can overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationScores:
    """Per problem, over its samples."""

    right: list[int]
    output_tokens: list[int]
    truncated: list[int]


class StepEngine(Protocol):
    """Generates and trains for `benchmarks.loop`; nothing is decided here."""

    response_cap: int
    """Most tokens a response may have."""

    def draw(self, first_index: int, count: int, progress: float) -> Sequence[Prompt]:
        """Prompts `first_index` ... of the seed's stream; `progress` is rollouts / R_h, capped at 1."""
        ...

    def generate(self, prompts: Sequence[Prompt], group_size: int, step: int) -> Rollouts:
        """One barrier: `group_size` rollouts of each prompt under the present policy."""
        ...

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        """[P, G] reward of each rollout, 1 for right and 0 for wrong, no penalty; NaN where scoring itself failed."""
        ...

    def train(self, batch: TrainBatch, algorithm: AlgorithmSpec, step: int) -> TrainStats:
        """Update the policy once on the batch."""
        ...

    def evaluate(self, problems: int, samples: int) -> EvaluationScores:
        """Sample each of the first `problems` held-out problems `samples` times."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Weights and optimizer state; with the spec they fix every later step bit for bit."""
        ...

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a `state`."""
        ...

    def save_model(self, folder: Path) -> None:
        """Write the present policy in the format that transformers loads."""
        ...
