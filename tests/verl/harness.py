"""Runs of verl's whole stack on a CPU, with a hard limit and everything that they said kept."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from baselines.arms import ARMS, ArmContext
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.engines import ENGINES
from benchmarks.engines.verl.launcher import VerlEngine
from benchmarks.record import EvaluationRecord, Outcome, StepRecord, StepTiming
from benchmarks.spec import Horizon, RunSpec
from benchmarks.suite import load_profile, plan
from sagc.protocol import Policy

NEEDS_VERL = "needs the verl environment: nox -s tests_verl"
LIMIT_S = 420.0
"""No process may take longer, from its start to its end."""


class Collector:
    """A sink that keeps everything, and can do something after a step.

    Args:
        after: training step -> what to do once its record is there.
        stop_after: ask the run to end after this step.
    """

    def __init__(self, after: dict[int, Callable[[], None]] | None = None, stop_after: int | None = None) -> None:
        self.steps: list[StepRecord] = []
        self.timings: list[StepTiming] = []
        self.evaluations: list[EvaluationRecord] = []
        self._after, self._stop_after = after or {}, stop_after
        self._deadline = time.monotonic() + LIMIT_S

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        self.steps.append(record)
        self.timings.append(timing)
        self._after.get(record.step, lambda: None)()

    def evaluation(self, record: EvaluationRecord) -> None:
        self.evaluations.append(record)

    def stop_requested(self) -> bool:
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"the verl process took over {LIMIT_S} s")
        return self._stop_after is not None and bool(self.steps) and self.steps[-1].step >= self._stop_after


def kill_everything() -> None:
    """SIGKILL for the verl process and all that it started."""
    for process in psutil.Process().children(recursive=True):
        process.kill()


def tiny_spec(algorithm: str, arm: str, horizon: Horizon, engine_settings: dict[str, Any], **changes: Any) -> RunSpec:
    """A run of the profile `verl-cpu` with changes."""
    runs = plan(load_profile("verl-cpu", ENGINES), engines=ENGINES).runs
    spec = next(run.spec for run in runs if (run.spec.algorithm, run.spec.arm) == (algorithm, arm))
    merged = {**spec.engine_settings, **engine_settings}
    merged["overrides"] = [*spec.engine_settings["overrides"], *engine_settings.get("overrides", [])]
    return replace(spec, horizon=horizon, engine_settings=merged, **changes)


def policy_of(spec: RunSpec) -> Policy[Any]:
    return ARMS[spec.arm].make(ArmContext(controller=spec.controller, seed=spec.seed, schedule=spec.schedule))


def train(spec: RunSpec, sink: Collector, folder: Path, resume: bool = False) -> Outcome:
    """Run `spec` in `folder`; the warm start is found in, or put into, $SAGC_TEST_CACHE."""
    engine = VerlEngine()
    engine.prepare(spec, Path(os.environ.get("SAGC_TEST_CACHE", folder.parent / "cache")))
    return engine.run(spec, policy_of(spec), sink, folder, folder / CHECKPOINTS if resume else None)


def changes_of_size(steps: list[StepRecord]) -> int:
    sizes = [step.group_size for step in steps]
    return sum(one != other for one, other in itertools.pairwise(sizes))
