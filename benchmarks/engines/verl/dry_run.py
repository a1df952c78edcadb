"""What a profile would start on a GPU node: every command, what it needs and what it costs, checked without a GPU."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baselines.arms import ARMS, ArmContext
from benchmarks.engines.verl.launcher import check_spec, engine_settings, run_paths
from benchmarks.engines.verl.overrides import RunPaths, overrides
from benchmarks.engines.verl.process import ROOT, verl_python
from benchmarks.spec import RunSpec
from sagc.errors import SagcError

PLACEHOLDER_SCHEDULE = (8,)
"""What an arm that follows another run replays in a dry run: its schedule is not there yet."""


class DryRunError(SagcError, RuntimeError):
    """The check itself could not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """One run that has not been started."""

    name: str
    overrides: tuple[str, ...]
    gpus: int
    gpu_hours: float
    error: str
    """Why verl would refuse it; empty if it would not."""

    @property
    def command(self) -> str:
        """What would be started, for a shell."""
        return shlex.join(["python", "-m", "verl.trainer.main_ppo", *self.overrides])


def command_line(spec: RunSpec, folder: Path) -> list[str]:
    """verl's overrides of one run, with the paths that it would have.

    Raises:
        ConfigError: for a spec that verl cannot run.
    """
    check_spec(spec)
    settings = engine_settings(spec)
    schedule = spec.schedule or PLACEHOLDER_SCHEDULE
    policy = ARMS[spec.arm].make(ArmContext(controller=spec.controller, seed=spec.seed, schedule=schedule))
    if settings.train_files:
        paths = run_paths(spec, settings, folder / spec.run_id, folder)
    else:  # made by the run itself
        paths = RunPaths(
            folder=folder / spec.run_id,
            model="WARM_START",
            tokenizer="TOKENIZER",
            train_files=("TRAIN.parquet",),
            evaluation_files=("HELD_OUT.parquet",),
        )
    return overrides(spec, policy, settings, paths)


def dry_run(specs: Sequence[RunSpec], folder: Path, python: str | None = None) -> list[DryRun]:
    """Compose and validate every run with verl's own config tree and validator.

    Args:
        specs: the runs of a profile.
        folder: where their records would go.
        python: interpreter of a verl environment; None: the one that `process.verl_python` finds.

    Raises:
        ConfigError: for a spec that verl cannot run, or without such an interpreter.
        DryRunError: if the check fails to run.
    """
    lines = [(spec, command_line(spec, folder.resolve())) for spec in specs]
    asked = "".join(json.dumps({"name": spec.run_id, "overrides": line}) + "\n" for spec, line in lines)
    ended = subprocess.run(
        [python or verl_python(), "-m", "benchmarks.engines.verl.compose"],
        input=asked,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "VERL_USE_EXTERNAL_MODULES": ""},
    )
    answers = {answer["name"]: answer["error"] for answer in map(json.loads, ended.stdout.splitlines())}
    if ended.returncode or answers.keys() != {spec.run_id for spec in specs}:
        raise DryRunError(f"verl must be importable, got exit code {ended.returncode}: {ended.stderr[-500:]}")
    return [
        DryRun(
            name=spec.run_id,
            overrides=tuple(line),
            gpus=engine_settings(spec).devices,
            gpu_hours=engine_settings(spec).gpu_hours_per_run,
            error=answers[spec.run_id],
        )
        for spec, line in lines
    ]


def report(runs: Sequence[DryRun]) -> str:
    """The dry run as text: a command a run, and the sum."""
    refused = [run for run in runs if run.error]
    parts = [f"# {run.name}: {run.gpus} GPU(s), about {run.gpu_hours:g} GPU-hours\n{run.command}" for run in runs]
    parts += [f"REFUSED {run.name}: {run.error}" for run in refused]
    hours = sum(run.gpu_hours for run in runs)
    parts.append(
        f"{len(runs)} runs, {len(runs) - len(refused)} accepted by verl's own validator, about {hours:g} GPU-hours (an "
        "estimate, not a measurement)"
    )
    return "\n\n".join(parts)
