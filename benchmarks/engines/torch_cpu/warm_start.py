"""The policy that every arm starts from: trained on demonstrations until it is right often enough to learn from.

It stops by accuracy, not by step count: after a fixed number of steps the accuracy depends on the seed. The
result lies under a name that holds a hash of everything it depends on, and is the same, byte for byte,
whichever process built it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.engines.torch_cpu.export import write_model
from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.engines.torch_cpu.scoring import accuracy, score_problems
from benchmarks.engines.torch_cpu.update import token_batch, token_log_probs
from benchmarks.noise import Stream, generator, rollout_uniforms
from benchmarks.store import write_json
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY, ChainTask
from sagc.errors import SagcError, unknown_name

SUMMARY, TIMINGS = "warm_start.json", "timings.json"
MODEL = DecoderConfig(vocab_size=len(VOCABULARY), max_positions=256)
"""Longest prompt 27 tokens, longest response 160; a demonstration may exceed the latter [ours]."""
Progress = Callable[[int, float], None]
"""Told (step, sampled accuracy) at every check."""
Batch = tuple[list[tuple[int, ...]], list[NDArray[np.int64]]]
"""Prompts and responses of some rows."""


class WarmStartError(SagcError, RuntimeError):
    """The warm start did not reach its accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStartSettings:
    """How the warm start is trained; every value is [ours]."""

    recipe: int = 1
    """Raise it when code changes what these settings build: caches of the old recipe are then left alone."""
    seed: int = 2
    """Chosen after a look at seeds 0 to 3 on `steady`: sampled accuracy .31, .37, .36 and .45, greedy .79, .95,
    .87 and .95. Seed 2 is the one that lies well inside the wanted range, .30 to .45 and at most .95."""
    learning_rate: float = 2e-3
    ramp_steps: int = 30
    """The learning rate rises over these, then stays."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    batch_size: int = 32
    bucket_batches: int = 16
    """Batches that are drawn together, sorted by length and shuffled as batches."""
    target_accuracy: float = 0.30
    """Sampled accuracy that ends it,"""
    check_problems: int = 256
    """on this many problems,"""
    check_every: int = 25
    """looked at after every so many steps,"""
    max_steps: int = 700
    """and reached after at most this many."""
    held_out_problems: int = 1024
    """For the numbers that are stored beside the weights."""


WARM_START = WarmStartSettings()


def warm_start(
    task_name: str, cache: Path, progress: Progress | None = None, settings: WarmStartSettings = WARM_START
) -> Path:
    """The folder of the task's warm start, in the format that transformers loads; built if it is not there.

    Args:
        task_name: a row of `TASKS`.
        cache: where warm starts are kept.
        progress: told how far it is, while it is being built.
        settings: how it is trained.

    Raises:
        ConfigError: for an unknown task.
        WarmStartError: if the accuracy is not reached.

    Degenerate cases: of two processes that ask at once one builds and the other waits; a build that was cut
    short leaves nothing under the final name.
    """
    if task_name not in TASKS:
        raise unknown_name("task", task_name, TASKS)
    task = TASKS[task_name]
    folder = cache / warm_start_name(task, settings)
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(folder.with_name(folder.name + ".lock")):
        if not folder.exists():
            _build(task, settings, folder, progress or (lambda step, accuracy: None))
    return folder


def warm_start_name(task: ChainTask, settings: WarmStartSettings = WARM_START) -> str:
    """Task and a hash of everything that the weights depend on."""
    return f"warm-start-{task.name}-{_digest(_identity(task, settings))}"


def _identity(task: ChainTask, settings: WarmStartSettings) -> dict[str, object]:
    return {
        "settings": asdict(settings),
        "model": asdict(MODEL),
        "demonstrator": asdict(task.demonstrator),
        "steps": asdict(task.all_steps),
        "response_cap": task.response_cap,
        "vocabulary": VOCABULARY,
        "torch": torch.__version__,
    }


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; the system lets go of it when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(task: ChainTask, settings: WarmStartSettings, folder: Path, progress: Progress) -> None:
    torch.set_num_threads(1)  # more threads add up in another order, and the bytes change
    cpu, wall = time.process_time(), time.perf_counter()
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    model, checks = _train(task, settings, progress)
    trained_cpu_s = time.process_time() - cpu
    write_model(model, unfinished, VOCABULARY, eos=EOS, pad=PAD)
    write_json(unfinished / SUMMARY, _summary(model, task, settings, checks))
    timings = {
        "cpu_s": time.process_time() - cpu,
        "training_cpu_s": trained_cpu_s,
        "wall_s": time.perf_counter() - wall,
    }
    write_json(unfinished / TIMINGS, timings)
    unfinished.rename(folder)


def _train(task: ChainTask, settings: WarmStartSettings, progress: Progress) -> tuple[Decoder, list[dict[str, float]]]:
    """The model at the first check that reaches the target accuracy, and all checks."""
    model = Decoder(MODEL, torch.Generator().manual_seed(settings.seed))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
    )
    ramp = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / settings.ramp_steps))
    batches = _batches(task, settings)
    checks: list[dict[str, float]] = []
    for step in range(1, settings.max_steps + 1):
        batch = token_batch(*next(batches), PAD)
        log_probs = token_log_probs(model, batch)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(-log_probs[batch.mask].mean())
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        ramp.step()
        if step % settings.check_every == 0:
            noise = partial(_noise, settings.seed, Stream.WARM_START, step, task.response_cap)
            scores = score_problems(model, task, task.warm_up_check(settings.check_problems), noise)
            checks.append({"step": step, "accuracy": accuracy(scores)})
            progress(step, accuracy(scores))
            if accuracy(scores) >= settings.target_accuracy:
                return model, checks
    best = max((check["accuracy"] for check in checks), default=0.0)
    raise WarmStartError(
        f"sampled accuracy of the warm start of {task.name!r} must be at least {settings.target_accuracy} within "
        f"{settings.max_steps} steps, got {best}; raise max_steps or lower target_accuracy"
    )


def _batches(task: ChainTask, settings: WarmStartSettings) -> Iterator[Batch]:
    """Endless batches of (prompts, responses), each of rows of similar length."""
    rng = generator(settings.seed, Stream.WARM_START, 0)
    size = settings.batch_size
    while True:
        traces = [task.demonstration(rng) for _ in range(size * settings.bucket_batches)]
        traces.sort(key=lambda trace: len(trace[0]) + len(trace[1]))
        for batch in rng.permutation(settings.bucket_batches):
            rows = traces[batch * size : (batch + 1) * size]
            yield ([prompt for prompt, _ in rows], [np.array(response, dtype=np.int64) for _, response in rows])


def _noise(
    seed: int, stream: Stream, step: int, length: int, problems: Sequence[int], samples: int
) -> NDArray[np.float32]:
    return rollout_uniforms(seed, stream, step, problems, samples, length)


def _summary(
    model: Decoder, task: ChainTask, settings: WarmStartSettings, checks: list[dict[str, float]]
) -> dict[str, object]:
    """What the weights depend on, and how good they are on the held-out problems."""
    problems = task.held_out(settings.held_out_problems)
    sampled = score_problems(
        model, task, problems, partial(_noise, settings.seed, Stream.EVALUATION, 0, task.response_cap)
    )
    greedy = score_problems(model, task, problems, None)
    return {
        **_identity(task, settings),
        "task": task.name,
        "steps_taken": checks[-1]["step"],
        "checks": checks,
        "sampled_accuracy": accuracy(sampled),
        "greedy_accuracy": accuracy(greedy),
        "output_tokens_mean": sum(sampled.output_tokens) / len(problems),
        "truncated_frac": sum(sampled.truncated) / len(problems),
    }
