"""Counter-based random numbers: a draw depends on its key alone, never on what was drawn before.

So a rollout's noise is a function of (run seed, step, prompt, sample), adding rollouts when G grows leaves
the first ones as they were, and a resumed run needs no saved random state.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Stream(IntEnum):
    """Independent uses of one seed."""

    PROMPTS = 0
    ROLLOUTS = 1
    MINI_BATCHES = 2
    HELD_OUT = 3
    EVALUATION = 4
    WARM_START = 5
    SCHEDULE = 6


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """A generator of its own for (seed, stream, key).

    Args:
        seed: run seed, 0 or more.
        stream: what the numbers are for.
        key: up to three more integers, 0 or more, e.g. step, prompt and sample.
    """
    counter = [0, *reversed(key), *[0] * (3 - len(key))]  # the lowest word counts the draws
    return np.random.Generator(np.random.Philox(key=[seed, int(stream)], counter=counter))


def rollout_uniforms(
    seed: int, stream: Stream, step: int, prompts: Sequence[int], samples: int, length: int
) -> NDArray[np.float32]:
    """Uniform numbers in [0, 1) for every token of every rollout.

    Args:
        seed: run seed.
        stream: `Stream.ROLLOUTS` or `Stream.EVALUATION`.
        step: training step.
        prompts: index of each prompt.
        samples: rollouts per prompt, G.
        length: most tokens of a rollout.

    Returns:
        [len(prompts) * samples, length], rollouts of one prompt next to each other.
    """
    rows = [
        generator(seed, stream, step, prompt, sample).random(length, dtype=np.float32)
        for prompt in prompts
        for sample in range(samples)
    ]
    return np.stack(rows) if rows else np.empty((0, length), dtype=np.float32)
