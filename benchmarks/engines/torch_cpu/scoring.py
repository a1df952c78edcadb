"""Accuracy of a policy: responses to each problem, checked by the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.protocol import EvaluationScores, Prompt
from benchmarks.engines.torch_cpu.model import Decoder
from benchmarks.engines.torch_cpu.sampler import sample
from benchmarks.tasks.modular_chain import EOS, PAD, ChainTask

CHUNK = 512
"""Responses decoded together, problems in their own order."""
Noise = Callable[[Sequence[int], int], NDArray[np.float32]]
"""From problem indices and samples to [problems * samples, response_cap] uniform numbers."""


def score_problems(
    model: Decoder, task: ChainTask, problems: Sequence[Prompt], noise: Noise | None, samples: int = 1
) -> EvaluationScores:
    """Answer every problem.

    Args:
        model: the policy.
        task: verifies, and caps the response.
        problems: what to answer.
        noise: of the responses, sampled at temperature 1; None decodes greedily.
        samples: responses per problem.
    """
    right: list[int] = []
    output_tokens: list[int] = []
    truncated: list[int] = []
    size = max(CHUNK // samples, 1)
    for first in range(0, len(problems), size):
        chunk = problems[first : first + size]
        drawn = sample(
            model,
            [problem.tokens for problem in chunk],
            samples,
            task.response_cap,
            noise([problem.index for problem in chunk], samples) if noise else None,
            eos=EOS,
            pad=PAD,
        )
        for number, problem in enumerate(chunk):
            rows = drawn.tokens[number * samples : (number + 1) * samples]
            right.append(sum(int(task.verify(problem, row)) for row in rows))
            output_tokens.append(sum(len(row) for row in rows))
        truncated += drawn.truncated.reshape(len(chunk), samples).sum(axis=1).tolist()
    return EvaluationScores(right=right, output_tokens=output_tokens, truncated=truncated)


def accuracy(scores: EvaluationScores) -> float:
    """Share of problems that are right, of one sample each."""
    return sum(scores.right) / len(scores.right)
