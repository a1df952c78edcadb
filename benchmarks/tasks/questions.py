"""Published questions as a training task: only settings, since the questions are read from files by their engine."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.spec import Horizon
from sagc.config import SagcConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTask:
    """Questions with answers that `benchmarks.evaluation` scores."""

    name: str
    summary: str
    controller: SagcConfig
    horizon: Horizon
    rollouts_per_step: int
    prompts_per_step: int


DAPO_MATH = QuestionTask(
    name="dapo_math",
    summary="DAPO-Math-17k, de-duplicated and decontaminated, for pretrained models on GPUs",
    # at threshold 2 the public DAPO trace breaks a budget of .25 at every candidate
    controller=SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=3.0, rollouts_per_step=256),  # [ours]
    horizon=Horizon(prompts=640, rollouts=10_240),  # [ours]
    rollouts_per_step=256,  # [ours]
    prompts_per_step=32,  # [ours]
)
