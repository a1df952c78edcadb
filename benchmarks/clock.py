"""Where the time of a training step goes: process CPU-seconds and wall-clock by phase."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.record import PHASES, StepTiming


class PhaseClock:
    """Adds up the phases of the step in progress.

    Evaluation and checkpoints run outside every phase, so they are in no step's cost.
    """

    def __init__(self) -> None:
        self._reset()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge what happens inside to the phase `name`."""
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self.cpu_s[name] += time.process_time() - cpu
            self.wall_s[name] += time.perf_counter() - wall

    def finish_step(self, step: int, generated_tokens: int, rollouts: int) -> StepTiming:
        """The timing of the step that ends now; the next step starts at zero.

        The record of a step is written after this, so its writing is charged to the logging phase of the
        step that follows.
        """
        seconds = self.wall_s["rollout"]
        timing = StepTiming(
            step=step,
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
            throughput_tokens_per_s=generated_tokens / seconds,
            rollouts_per_s=rollouts / seconds,
            load_average=os.getloadavg()[0],
        )
        self._reset()
        return timing

    def _reset(self) -> None:
        self.cpu_s = dict.fromkeys(PHASES, 0.0)
        self.wall_s = dict.fromkeys(PHASES, 0.0)
