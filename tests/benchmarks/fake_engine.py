"""An engine without a model: it proves the engine interface, and lets tests run the runner in a moment."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.algorithms import AlgorithmSpec
from benchmarks import loop
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.checkpoint import read_checkpoint
from benchmarks.engines import ENGINES, EngineFactory
from benchmarks.engines.protocol import Capabilities, EvaluationScores, Prompt, Rollouts, Sink, TrainBatch, TrainStats
from benchmarks.noise import Stream, generator
from benchmarks.record import Outcome
from benchmarks.spec import RunSpec
from sagc.protocol import Policy

ENDINGS = ("raise", "exit_0", "exit_1", "_exit", "SIGINT", "SIGTERM", "SIGKILL", "SIGSEGV")
"""Ways to end in the middle of a run, those of table B42 among them."""


class FakeSteps:
    """Lengths with a heavy tail and rewards by chance; `pause_s` a step."""

    response_cap = 64

    def __init__(self, seed: int, pause_s: float) -> None:
        self._seed, self._pause_s = seed, pause_s

    def draw(self, first_index: int, count: int, progress: float) -> Sequence[Prompt]:
        return [Prompt(index=first_index + i, tokens=(1,), answer=0) for i in range(count)]

    def generate(self, prompts: Sequence[Prompt], group_size: int, step: int) -> Rollouts:
        time.sleep(self._pause_s)
        noise = [generator(self._seed, Stream.ROLLOUTS, step, prompt.index) for prompt in prompts]
        lengths = np.array([np.minimum(8 + 4 * rng.geometric(0.6, group_size), self.response_cap) for rng in noise])
        return Rollouts(
            prompts=prompts,
            tokens=[[np.zeros(n, dtype=np.int64) for n in group] for group in lengths],
            log_probs=[[np.zeros(n, dtype=np.float32) for n in group] for group in lengths],
            truncated=lengths >= self.response_cap,
            decode_steps=int(lengths.max()),
            row_steps=int(lengths.sum()),
        )

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        return np.asarray(rollouts.lengths % 8 == 0, dtype=np.float64)

    def train(self, batch: TrainBatch, algorithm: AlgorithmSpec, step: int) -> TrainStats:
        return TrainStats(optimizer_steps=1, loss=0.5, grad_norm=1.0, clip_frac=0.0, ratio_deviation_max=0.0)

    def evaluate(self, problems: int, samples: int) -> EvaluationScores:
        right = [samples * (problem % 2) for problem in range(problems)]
        return EvaluationScores(right=right, output_tokens=[20 * samples] * problems, truncated=[0] * problems)

    def save_model(self, folder: Path) -> None:
        folder.mkdir()

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        assert not arrays


class FakeEngine:
    """Runs `FakeSteps` under the shared loop.

    Args:
        pause_s: how long a step takes.
        ending: one of `ENDINGS`, after the second step of the first run of `ends`; later runs of it are healthy.
        ends: the arm that ends so.
    """

    name = "fake"
    capabilities = Capabilities(learns=False, measures_time=True, resumes_exactly=True)

    def __init__(self, pause_s: float = 0.001, ending: str | None = None, ends: str = "static_8") -> None:
        self._pause_s, self._ending, self._ends = pause_s, ending, ends

    def prepare(self, spec: RunSpec, cache: Path) -> None:
        (cache / f"fake-{spec.task}").touch()

    def run(self, spec: RunSpec, policy: Policy[Any], sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        mark = folder.parent / ".logs" / f"{folder.name}.ended"
        if self._ending and spec.arm == self._ends and not mark.exists():
            mark.touch()
            sink = _EndingSink(sink, self._ending)
        resume = None if resume_from is None else read_checkpoint(resume_from)
        steps = FakeSteps(spec.seed, self._pause_s)
        return loop.train(steps, spec, policy, sink, checkpoints=folder / CHECKPOINTS, resume=resume)


class _EndingSink:
    def __init__(self, sink: Sink, ending: str) -> None:
        self._sink, self._ending, self._steps = sink, ending, 0
        self.evaluation, self.stop_requested = sink.evaluation, sink.stop_requested

    def step(self, record: Any, timing: Any) -> None:
        self._sink.step(record, timing)
        self._steps += 1
        if self._steps == 2:
            end(self._ending)


def end(ending: str) -> None:
    """End this process."""
    if ending == "raise":
        raise RuntimeError("the fake engine broke")
    if ending == "_exit":
        os._exit(0)
    if ending.startswith("exit_"):
        sys.exit(int(ending.removeprefix("exit_")))
    number = getattr(signal, ending)
    if number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


FAKES: dict[str, EngineFactory] = {
    **ENGINES,
    "fake": FakeEngine,
    "slow": partial(FakeEngine, pause_s=0.4),
    "stuck": partial(FakeEngine, pause_s=600.0),
    **{ending: partial(FakeEngine, ending=ending) for ending in ENDINGS},
}
