"""What a run writes down, one dataclass per line of its files.

`steps.jsonl` holds `StepRecord` (no clock in it), `timings.jsonl` `StepTiming`, `evaluations.jsonl`
`EvaluationRecord`, `outcome.json` `Outcome`. For one seed everything but timings and outcome is
byte-identical on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["finished", "failed", "killed", "diverged", "stalled"]
PHASES = ("rollout", "reward", "update", "controller", "logging")
"""The phases of a training step whose cost is measured; evaluation is kept apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One training step. Counts are of this step alone; readers add them up."""

    step: int
    """1-based."""
    group_size: int
    """G_t, rollouts per prompt."""
    num_prompts: int
    """P_t, groups that the step set out to train."""
    first_prompt: int
    """Index in the seed's prompt stream of the first prompt drawn in this step."""
    lengths: list[list[int]]
    """Tokens of every rollout that the step waited for, by group, in draw order: filtered and surplus
    groups included."""
    straggler_rate: float | None
    """Share of counted groups with a straggler at the task's threshold; None when no group counts."""
    straggler_groups: int
    counted_groups: int
    """Groups of at least two rollouts."""
    straggler_rollouts: int
    """Rollouts at or over the threshold times their reference (hits), in counted groups."""
    controller: dict[str, float]
    """The policy's numbers in force during this step (they chose `group_size`); empty for static arms."""
    controller_next: dict[str, float]
    """The same after this step's observation."""
    decision: dict[str, Any]
    """What the policy decided for the next step: group_size, num_prompts, budget_infeasible."""
    barriers: int
    """Times the step waited for a batch of rollouts (1 + refill rounds)."""
    barrier_rollouts: list[int]
    """Rollouts behind each barrier."""
    barrier_longest: list[int]
    """Longest rollout of each barrier, tokens."""
    generated_tokens: int
    decode_steps: int
    row_steps: int
    """Rows decoded, summed over decode steps."""
    groups_generated: int
    groups_filtered: int
    """Groups dropped by dynamic sampling because all their rewards were equal."""
    groups_trained: int
    groups_surplus: int
    """Informative groups drawn beyond `num_prompts` and discarded."""
    degenerate_groups: int
    """Generated groups whose rewards are all equal, a group of one included."""
    rollouts_generated: int
    rollouts_trained: int
    accuracy: float
    """Share of the step's generated rollouts that are right, before any filter."""
    reward_mean: float
    """Mean shaped reward of all generated rollouts, before any filter."""
    overlong_penalty_mean: float
    """Mean soft overlong penalty of all generated rollouts, at most 0."""
    truncated_rollouts: int
    trained_tokens: int
    """Tokens of trained rollouts with a non-zero advantage."""
    optimizer_steps: int
    loss: float | None
    """Mean policy loss over the step's optimizer steps; None when there was none."""
    grad_norm: float | None
    """Mean gradient norm before clipping."""
    clip_frac: float | None
    """Share of trained tokens on the clipped branch of the objective."""
    ratio_deviation_max: float | None
    """Largest |ratio - 1| in the step's first mini-batch: trainer against sampler probabilities."""
    refill_exhausted: bool = False
    """Dynamic sampling reached its bound before it had `num_prompts` informative groups."""
    reward_errors: int = 0
    """Rollouts that could not be scored, apart from wrong answers; they count as wrong."""

    def check(self) -> None:
        """Refuse what no step can have been.

        Raises:
            ValueError: naming the fields that contradict each other.
        """
        if not self.barriers == len(self.barrier_rollouts) == len(self.barrier_longest):
            raise ValueError(f"barrier_rollouts and barrier_longest must have one number for each of {self.barriers}")
        if missing := {"group_size", "num_prompts", "budget_infeasible"} - self.decision.keys():
            raise ValueError(f"decision must have {min(missing)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTiming:
    """The clock side of one training step; never compared byte by byte."""

    step: int
    cpu_s: dict[str, float]
    """Process CPU-seconds by phase."""
    wall_s: dict[str, float]
    """Wall-clock seconds by phase."""
    throughput_tokens_per_s: float
    """Generated tokens / wall-clock rollout seconds."""
    rollouts_per_s: float
    """Generated rollouts / wall-clock rollout seconds."""
    load_average: float
    """The machine's one-minute load average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """One evaluation of the policy on held-out problems, sampled at temperature 1."""

    step: int
    """Training steps done before it."""
    milestone: int
    """k: min(prompts / P_h, rollouts / R_h) has passed k / milestones; 0 at the start."""
    final: bool
    set: str
    """Name of the evaluation set."""
    samples: int
    """Samples per problem."""
    prompts: int
    """Prompts drawn so far."""
    rollouts: int
    """Rollouts generated so far."""
    right: list[int]
    """Per problem: right answers among the samples."""
    output_tokens: list[int]
    """Per problem: output tokens summed over the samples."""
    truncated: list[int]
    """Per problem: truncated samples."""

    def check(self) -> None:
        """Refuse what no evaluation can have been.

        Raises:
            ValueError: naming the fields that contradict each other.
        """
        if not len(self.right) == len(self.output_tokens) == len(self.truncated):
            raise ValueError("right, output_tokens and truncated must have one number per problem")
        if self.samples < 1 or max((*self.right, *self.truncated), default=0) > self.samples:
            raise ValueError(f"right and truncated must be at most the {self.samples} samples of a problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended."""

    status: Status
    reason: str
    """One line; empty when finished."""
    steps: int
    prompts: int
    rollouts: int
    cpu_s: float | None
    """Process CPU-seconds of the run, evaluation included; None: the process died before it could say."""
    wall_s: float
    evaluation_cpu_s: float | None
    """Process CPU-seconds of the evaluations alone; None likewise."""
    provenance: dict[str, Any] = field(default_factory=dict)
