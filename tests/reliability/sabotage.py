"""Ways to die: SIGKILL at a chosen moment inside the real code, in a run's process or in the command's own.

The code under test knows nothing of this: the moments are patched in from outside, in processes that end there.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from benchmarks import checkpoint, loop, resume, store, tracking
from benchmarks.engines.torch_cpu import engine as torch_engine
from benchmarks.engines.torch_cpu.engine import TorchCpuEngine, TorchStepEngine
from benchmarks.record import Outcome
from benchmarks.spec import RunSpec
from benchmarks.store import RunWriter

WORKER_MOMENTS = (
    "rollout",
    "update",
    "between optimizer steps",
    "half a record",
    "evaluation",
    "checkpoint half written",
    "checkpoint not renamed",
    "checkpoint renamed",
    "any time",
    "model",
)
"""In the process of a run."""
COMMAND_MOMENTS = ("MLflow run created", "MLflow batch sent", "MLflow run closed", "records half cut")
"""In the process of the command; its runs go with it, as on a machine that loses power."""


def die() -> NoReturn:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_with_all() -> NoReturn:
    """End every process of this command at once."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise AssertionError


def die_in(seconds: float) -> None:
    """End this process a little later, whatever it does then."""

    def wait() -> None:
        time.sleep(seconds)
        die()

    threading.Thread(target=wait, daemon=True).start()


def at_call(
    count: int, function: Callable[..., Any], end: Callable[[], NoReturn], *, after: bool
) -> Callable[..., Any]:
    """`function`, but its `count`-th call ends in death: before it has done anything, or after all of it."""
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            end()
        result = function(*arguments, **named)
        if calls == count:
            end()
        return result

    return call


def within_call(count: int, function: Callable[..., Any], share: float) -> Callable[..., Any]:
    """`function`, but death comes within its `count`-th call, after this share of the time that the last one took."""
    calls, last = 0, 0.0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls, last
        calls += 1
        began = time.perf_counter()
        if calls == count:
            die_in(last * share)
        result = function(*arguments, **named)
        if calls == count:
            die()
        last = time.perf_counter() - began
        return result

    return call


class Sabotaged(TorchCpuEngine):
    """The torch engine in a process that dies at a moment.

    Args:
        moments: arm and seed -> moment of `WORKER_MOMENTS` and a number that fixes the rest.
    """

    def __init__(self, moments: Mapping[tuple[str, str, int], tuple[str, int]]) -> None:
        super().__init__()
        self._moments = moments

    def run(self, spec: RunSpec, policy: Any, sink: Any, folder: Path, resume_from: Path | None) -> Outcome:
        moment = self._moments.get((spec.algorithm, spec.arm, spec.seed))
        if moment is not None:
            arm_worker(*moment)
        return super().run(spec, policy, sink, folder, resume_from)


def arm_worker(moment: str, number: int) -> None:
    """Make this process die at `moment`; where in the run follows from `number`."""
    chance, which = random.Random(number), 1 + number % 2
    patches: dict[str, Callable[[], None]] = {
        "rollout": lambda: _patch(
            torch_engine, "sample", lambda f: within_call(chance.randint(2, 20), f, chance.random())
        ),
        "update": lambda: _patch(
            torch_engine, "update_policy", lambda f: within_call(chance.randint(2, 20), f, chance.random())
        ),
        "between optimizer steps": lambda: _patch(
            torch_engine, "update_policy", lambda f: _killed_after_first_step(chance.randint(2, 20), f)
        ),
        "half a record": lambda: _patch(RunWriter, "_append", lambda f: _half_line(chance.randint(3, 40), f)),
        "evaluation": lambda: _patch(
            TorchStepEngine, "evaluate", lambda f: within_call(chance.randint(2, 3), f, chance.random())
        ),
        "checkpoint half written": lambda: _patch(loop, "write_checkpoint", lambda f: _half_checkpoint(which, f)),
        "checkpoint not renamed": lambda: _patch(
            checkpoint, "os", lambda real: _shim(real, fsync=at_call(which, real.fsync, die, after=True))
        ),
        "checkpoint renamed": lambda: _patch(
            checkpoint, "_sync_directory", lambda f: at_call(which, f, die, after=False)
        ),
        "any time": lambda: die_in(0.2 + 2 * chance.random()),
        "model": lambda: _patch(TorchStepEngine, "save_model", lambda f: at_call(1, f, die, after=True)),
    }
    patches[moment]()


def arm_command(moment: str, count: int) -> None:
    """Make this command and all its processes die at the `count`-th `moment`."""
    tracker = tracking.Tracker
    patches: dict[str, Callable[[], None]] = {
        "MLflow run created": lambda: _patch(
            tracker, "open_run", lambda f: at_call(count, f, die_with_all, after=True)
        ),
        "MLflow batch sent": lambda: _patch(tracker, "log", lambda f: at_call(count, f, die_with_all, after=True)),
        "MLflow run closed": lambda: _patch(tracker, "close", lambda f: at_call(count, f, die_with_all, after=True)),
        "records half cut": lambda: _patch(resume, "cut_records", lambda f: _half_cut(f)),
    }
    patches[moment]()


def _patch(where: Any, name: str, change: Callable[[Any], Any]) -> None:
    setattr(where, name, change(getattr(where, name)))


def _shim(real: Any, **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: getattr(real, name) for name in dir(real)} | changes)


def _half_line(count: int, append: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def call(writer: Any, name: str, record: Any) -> None:
        nonlocal calls
        calls += 1
        if calls < count:
            append(writer, name, record)
            return
        file = writer._files[name]
        file.write('{"step":7,"group_size":')
        file.flush()
        die()

    return call


def _half_checkpoint(count: int, write: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def call(folder: Path, found: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            whole = write(folder / "aside", found)
            half = whole.read_bytes()[: whole.stat().st_size // 2]
            (folder / whole.name.replace(".safetensors", ".tmp")).write_bytes(half)
            die()
        return write(folder, found)

    return call


def _killed_after_first_step(count: int, update: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def call(model: Any, optimizer: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= count:
            optimizer.step = at_call(1, optimizer.step, die, after=True)
        return update(model, optimizer, *arguments)

    return call


def _half_cut(cut: Callable[..., Any]) -> Callable[..., Any]:
    def call(folder: Path, step: int) -> None:
        store.write_bytes = at_call(2, store.write_bytes, die_with_all, after=True)
        cut(folder, step)

    return call
