"""The torch engine: one run of `benchmarks.loop` on one CPU thread.

Everything random is keyed by (run seed, step, prompt, sample), so the engine holds no random state: the
policy and its optimizer are all that changes.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from baselines.algorithms import AlgorithmSpec
from benchmarks import loop
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.checkpoint import read_checkpoint
from benchmarks.engines.protocol import Capabilities, EvaluationScores, Prompt, Rollouts, Sink, TrainBatch, TrainStats
from benchmarks.engines.torch_cpu.export import read_model, write_model
from benchmarks.engines.torch_cpu.sampler import sample
from benchmarks.engines.torch_cpu.scoring import score_problems
from benchmarks.engines.torch_cpu.state import load_training_state, training_state
from benchmarks.engines.torch_cpu.update import update_policy
from benchmarks.engines.torch_cpu.warm_start import WARM_START, WarmStartSettings, warm_start
from benchmarks.noise import Stream, generator, rollout_uniforms
from benchmarks.record import Outcome
from benchmarks.spec import RunSpec
from benchmarks.store import MODEL
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY
from sagc.errors import ConfigError, unknown_name
from sagc.protocol import Policy


class TorchStepEngine:
    """Generates and trains for `benchmarks.loop`.

    Args:
        spec: the run; its task, seed and training settings are used.
        model_folder: the model to start from, in the format that transformers loads.

    Raises:
        ConfigError: for an unknown task.
    """

    def __init__(self, spec: RunSpec, model_folder: Path) -> None:
        if spec.task not in TASKS:
            raise unknown_name("task", spec.task, TASKS)
        torch.set_num_threads(1)  # more threads add up in another order, and the bytes change
        self.task = TASKS[spec.task]
        self.response_cap = self.task.response_cap
        self._spec = spec
        self._model = read_model(model_folder)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=spec.training.learning_rate, betas=spec.training.betas, weight_decay=0.0
        )

    def draw(self, first_index: int, count: int, progress: float) -> Sequence[Prompt]:
        """See `StepEngine.draw`."""
        indices = range(first_index, first_index + count)
        return [self.task.training_prompt(self._spec.seed, index, progress) for index in indices]

    def generate(self, prompts: Sequence[Prompt], group_size: int, step: int) -> Rollouts:
        """See `StepEngine.generate`; a prompt's index is its place in the whole stream, so refills get new noise."""
        indices = [prompt.index for prompt in prompts]
        uniforms = rollout_uniforms(self._spec.seed, Stream.ROLLOUTS, step, indices, group_size, self.response_cap)
        samples = sample(
            self._model,
            [prompt.tokens for prompt in prompts],
            group_size,
            self.response_cap,
            uniforms,
            eos=EOS,
            pad=PAD,
        )
        starts = range(0, len(prompts) * group_size, group_size)
        return Rollouts(
            prompts=prompts,
            tokens=[samples.tokens[start : start + group_size] for start in starts],
            log_probs=[samples.log_probs[start : start + group_size] for start in starts],
            truncated=samples.truncated.reshape(len(prompts), group_size),
            decode_steps=samples.decode_steps,
            row_steps=samples.row_steps,
        )

    def score(self, rollouts: Rollouts) -> NDArray[np.float64]:
        """See `StepEngine.score`."""
        groups = zip(rollouts.prompts, rollouts.tokens, strict=True)
        return np.array([[self._reward(prompt, row) for row in group] for prompt, group in groups])

    def _reward(self, prompt: Prompt, response: NDArray[np.int64]) -> float:
        try:
            return self.task.verify(prompt, response)
        except Exception:  # whatever a verifier raises at what a model wrote, it is no wrong answer
            traceback.print_exc()
            return math.nan

    def train(self, batch: TrainBatch, algorithm: AlgorithmSpec, step: int) -> TrainStats:
        """See `StepEngine.train`; a batch without a non-zero advantage leaves policy and optimizer as they were."""
        order = generator(self._spec.seed, Stream.MINI_BATCHES, step).permutation(len(batch.prompts))
        return update_policy(self._model, self._optimizer, batch, order, algorithm, self._spec.training, PAD)

    def evaluate(self, problems: int, samples: int) -> EvaluationScores:
        """See `StepEngine.evaluate`; a problem meets the same noise at every step and in every arm of a seed."""
        return score_problems(self._model, self.task, self.task.held_out(problems), self._evaluation_noise, samples)

    def state(self) -> dict[str, NDArray[Any]]:
        """See `StepEngine.state`."""
        return training_state(self._model, self._optimizer)

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `StepEngine.load_state`."""
        load_training_state(self._model, self._optimizer, arrays)

    def save_model(self, folder: Path) -> None:
        """See `StepEngine.save_model`."""
        write_model(self._model, folder, VOCABULARY, eos=EOS, pad=PAD)

    def _evaluation_noise(self, problems: Sequence[int], samples: int) -> NDArray[np.float32]:
        return rollout_uniforms(self._spec.seed, Stream.EVALUATION, 0, problems, samples, self.response_cap)


class TorchCpuEngine:
    """Runs a `RunSpec` with the tiny policy; `prepare` must have been called on the same object.

    Args:
        settings: how the warm start is trained.
    """

    name = "torch_cpu"
    capabilities = Capabilities(learns=True, measures_time=True, resumes_exactly=True)

    def __init__(self, settings: WarmStartSettings = WARM_START) -> None:
        self._settings = settings
        self._cache: Path | None = None

    def prepare(self, spec: RunSpec, cache: Path) -> None:
        """Build the task's warm start under `cache`, or find it there; progress goes to standard output."""
        self._cache = cache
        warm_start(spec.task, cache, _print_progress, self._settings)

    def run(self, spec: RunSpec, policy: Policy[Any], sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        """See `Engine.run`; the model of a finished run is written to `folder` / model.

        Raises:
            ConfigError: without `prepare`.
            CheckpointError: for a checkpoint that cannot be read.
        """
        if self._cache is None:
            raise ConfigError("prepare must be called before run, got run first; call prepare with the cache folder")
        engine = TorchStepEngine(spec, warm_start(spec.task, self._cache, settings=self._settings))
        resume = None if resume_from is None else read_checkpoint(resume_from)
        outcome = loop.train(engine, spec, policy, sink, checkpoints=folder / CHECKPOINTS, resume=resume)
        if outcome.status == "finished":
            engine.save_model(folder / MODEL)
        return outcome


def _print_progress(step: int, accuracy: float) -> None:
    print(f"warm start: step {step}, sampled accuracy {accuracy:.3f}", flush=True)
