"""Accuracy of a policy: one response to each problem, checked by the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.protocol import EvaluationScores, Prompt
from benchmarks.engines.torch_cpu.model import Decoder
from benchmarks.engines.torch_cpu.sampler import sample
from benchmarks.tasks.modular_chain import EOS, PAD, ChainTask

CHUNK = 128
"""Problems decoded together, in their own order."""
Noise = Callable[[Sequence[int]], NDArray[np.float32]]
"""From problem indices to [problems, response_cap] uniform numbers."""


def score_problems(
    model: Decoder, task: ChainTask, problems: Sequence[Prompt], noise: Noise | None
) -> EvaluationScores:
    """Answer every problem once.

    Args:
        model: the policy.
        task: verifies, and caps the response.
        problems: what to answer.
        noise: of each problem's response, sampled at temperature 1; None decodes greedily.
    """
    right: list[int] = []
    output_tokens: list[int] = []
    truncated: list[int] = []
    for first in range(0, len(problems), CHUNK):
        chunk = problems[first : first + CHUNK]
        samples = sample(
            model,
            [problem.tokens for problem in chunk],
            1,
            task.response_cap,
            noise([problem.index for problem in chunk]) if noise else None,
            eos=EOS,
            pad=PAD,
        )
        right += [int(task.verify(problem, row)) for problem, row in zip(chunk, samples.tokens, strict=True)]
        output_tokens += [len(row) for row in samples.tokens]
        truncated += [int(flag) for flag in samples.truncated]
    return EvaluationScores(right=right, output_tokens=output_tokens, truncated=truncated)


def accuracy(scores: EvaluationScores) -> float:
    """Share of problems that are right, one sample each."""
    return sum(scores.right) / len(scores.right)
