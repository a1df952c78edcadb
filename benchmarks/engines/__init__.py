"""The engines: each turns one `RunSpec` into records; nothing is decided there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.checkpoint import FindSaved, Saved
from benchmarks.engines.protocol import Engine
from benchmarks.spec import RunSpec

EngineFactory = Callable[[], Engine]
"""Makes an engine in the process that will run it; a function or class that pickle finds by name."""


def make_torch_cpu() -> Engine:
    """Train a model of about 0.1 M parameters with torch, one CPU thread per run."""
    from benchmarks.engines.torch_cpu.engine import TorchCpuEngine

    return TorchCpuEngine()


def make_verl() -> Engine:
    """Train with verl's V1 trainer in a process of its own, on GPUs or, on a tiny task, on a CPU."""
    from benchmarks.engines.verl.launcher import VerlEngine

    return VerlEngine()


ENGINES: dict[str, EngineFactory] = {"torch_cpu": make_torch_cpu, "verl": make_verl}
"""A factory imports its framework only when it is called, so that naming an engine costs nothing."""


def _dry_run_verl(specs: Sequence[RunSpec], folder: Path) -> str:
    from benchmarks.engines.verl.dry_run import dry_run, report

    return report(dry_run(specs, folder))


def _saved_by_verl(folder: Path, damaged: Callable[[Path], None]) -> Iterator[Saved]:
    from benchmarks.engines.verl.checkpoints import saved_steps

    return saved_steps(folder, damaged)


CHECKPOINTS: dict[str, FindSaved] = {"verl": _saved_by_verl}
"""Engines whose checkpoints are their framework's, from which a run goes on with other rollouts than it would have had.

All others write those of `benchmarks.checkpoint` and go on exactly.
"""
TASKS_OF: dict[str, tuple[str, ...]] = {"torch_cpu": ("steady", "growing")}
"""The tasks that an engine can run; one that is not here says so itself."""
DRY_RUNS: dict[str, Callable[[Sequence[RunSpec], Path], str]] = {"verl": _dry_run_verl}
"""Engines with settings of their own, which can say what they would start: (runs, runs folder) -> text."""
PRELOAD: dict[str, str] = {"torch_cpu": "benchmarks.engines.torch_cpu.engine"}
"""The module to import once for all of an engine's processes."""
