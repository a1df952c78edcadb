"""verl as an engine of the suite: starts the process, turns what it says into records, says how it ended."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.protocol import Capabilities, Sink
from benchmarks.engines.verl import tiny
from benchmarks.engines.verl.checkpoints import checkpointed_step
from benchmarks.engines.verl.events import EVENTS, STOP, EventReader
from benchmarks.engines.verl.overrides import RunPaths, overrides
from benchmarks.engines.verl.preflight import failures, preflight
from benchmarks.engines.verl.process import LOG, ROOT, VerlProcess, verl_python
from benchmarks.engines.verl.settings import VerlEngineSettings
from benchmarks.record import EvaluationRecord, Outcome, Status, StepRecord, StepTiming
from benchmarks.spec import RunSpec
from benchmarks.store import MODEL
from sagc.errors import ConfigError
from sagc.protocol import Policy

POLL_S = 0.5
ATTEMPTS = 2
"""Starts of a process that says nothing within `start_limit_s`: on a loaded machine one in twelve hung [ours]."""


@dataclass(slots=True)
class Progress:
    """What the process has said so far."""

    steps: int = 0
    prompts: int = 0
    rollouts: int = 0
    cpu_s: float = 0.0
    step_wall_s: float = 0.0
    """Of the steps alone."""
    evaluation_s: float = 0.0
    started: dict[str, Any] | None = None
    ended: tuple[Status, str] | None = None

    def take(self, event: dict[str, Any], sink: Sink | None) -> None:
        """Count one event, and hand its records on."""
        match event["kind"]:
            case "started":
                self.started = event
            case "ended":
                self.ended = event["status"], event["reason"]
            case "step":
                record, timing = StepRecord(**event["record"]), StepTiming(**event["timing"])
                self.steps = record.step
                self.prompts += record.groups_generated
                self.rollouts += record.rollouts_generated
                self.cpu_s += sum(timing.cpu_s.values())
                self.step_wall_s += sum(timing.wall_s.values())
                if sink is not None:
                    sink.step(record, timing)
            case "evaluation":
                self.evaluation_s += event["seconds"]
                if sink is not None:
                    sink.evaluation(EvaluationRecord(**event["record"]))


class VerlEngine:
    """Runs a `RunSpec` in a verl process; the profile's `[engine_settings]` say on what."""

    name = "verl"
    capabilities = Capabilities(learns=True, measures_time=True, resumes_exactly=False)

    def __init__(self) -> None:
        self._cache: Path | None = None

    def prepare(self, spec: RunSpec, cache: Path) -> None:
        """Build a tiny task's warm start, tokenizer and data under `cache`, or find them there; look at a GPU node.

        Raises:
            ConfigError: for a spec that verl cannot run, or a node that is not ready for it.
        """
        check_spec(spec)
        self._cache, settings = cache, engine_settings(spec)
        if not settings.train_files:
            tiny.prepare(spec, cache)
        if settings.hardware == "gpu":
            failed = failures(preflight(settings, spec.controller, cache, verl_python()))
            if failed:
                raise ConfigError(f"the node must be ready for this profile, got {failed}; nothing was started")

    def run(self, spec: RunSpec, policy: Policy[Any], sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        """See `Engine.run`. `resume_from` is the run's own folder of verl checkpoints.

        Raises:
            ConfigError: without `prepare`, without a Python that has verl, or for a spec that verl cannot run.
        """
        if self._cache is None:
            raise ConfigError("prepare must be called before run, got run first; call prepare with the cache folder")
        settings, folder = engine_settings(spec), folder.resolve()
        paths = run_paths(spec, settings, folder, self._cache)
        python, command = verl_python(), overrides(spec, policy, settings, paths)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).unlink(missing_ok=True)
        progress, code = Progress(), None
        _clear(paths.checkpoints, folder, resume_from is not None, progress)
        earlier_s, began = progress.step_wall_s + progress.evaluation_s, time.perf_counter()
        for _ in range(ATTEMPTS):
            process = VerlProcess(python, command, folder, settings.hardware)
            try:
                ended = _follow(process, settings, folder, sink, progress)
                code = process.exit_code()
            finally:
                process.close()
            if ended:
                break
            print(f"verl said nothing within {settings.start_limit_s:.0f} s: ended", flush=True)
        status, reason = _ending(code, progress, settings)
        if status == "finished":
            _keep_model(paths.checkpoints, folder / MODEL)
        return Outcome(
            status=status,
            reason=reason,
            steps=progress.steps,
            prompts=progress.prompts,
            rollouts=progress.rollouts,
            cpu_s=progress.cpu_s + progress.evaluation_s * settings.devices,
            wall_s=earlier_s + time.perf_counter() - began,
            evaluation_cpu_s=progress.evaluation_s * settings.devices,
            provenance={"engine": {**(progress.started or {}), "command": command}},
        )


def engine_settings(spec: RunSpec) -> VerlEngineSettings:
    """The profile's `[engine_settings]`.

    Raises:
        ConfigError: if they are missing or wrong.
    """
    return VerlEngineSettings.from_mapping(spec.engine_settings)


def check_spec(spec: RunSpec) -> None:
    """Refuse what verl cannot do.

    Raises:
        ConfigError: naming the setting and the cure.
    """
    engine_settings(spec)
    if spec.evaluation.problems != spec.evaluation.final_problems:
        raise ConfigError(
            f"evaluation.final_problems must equal evaluation.problems ({spec.evaluation.problems}) on verl, "
            f"got {spec.evaluation.final_problems}; verl validates on one set throughout: set both alike"
        )


def run_paths(spec: RunSpec, settings: VerlEngineSettings, folder: Path, cache: Path) -> RunPaths:
    """Where the run reads and writes."""
    if settings.train_files:
        return RunPaths(
            folder=folder,
            model=_located(settings.model) if (ROOT / settings.model).is_dir() else settings.model,
            tokenizer=None,
            train_files=tuple(map(_located, settings.train_files)),
            evaluation_files=tuple(map(_located, settings.evaluation_files)),
        )
    return tiny.paths(spec, folder, cache)


def _located(name: str) -> str:
    """A path of a profile, which is seen from the checkout: the process runs in its run's folder."""
    return str(ROOT / name)


def _clear(checkpoints: Path, folder: Path, resume: bool, progress: Progress) -> None:
    """Leave nothing of an earlier run, or nothing later than the checkpoint that this one goes on from.

    verl itself looks for the newest checkpoint in the run's own folder.
    """
    events = folder / EVENTS
    if not resume:
        shutil.rmtree(checkpoints, ignore_errors=True)
        events.unlink(missing_ok=True)
        return
    step = checkpointed_step(checkpoints)
    kept = [event for event in EventReader(events).new() if _belongs(event, step)]
    for event in kept:
        progress.take(event, None)
    temporary = events.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(event) + "\n" for event in kept), encoding="utf-8")
    temporary.replace(events)


def _belongs(event: dict[str, Any], step: int) -> bool:
    return event["kind"] in ("step", "evaluation") and event["record"]["step"] <= step


def _follow(process: VerlProcess, settings: VerlEngineSettings, folder: Path, sink: Sink, progress: Progress) -> bool:
    """Hand on what the process says until it ends; False if it said nothing within the limit."""
    reader = EventReader(folder / EVENTS, start=_size(folder / EVENTS))
    began, heard = time.monotonic(), False
    while True:
        code = process.exit_code()  # before the events: what is written before the end is read after it
        for event in reader.new():
            heard = True
            progress.take(event, sink)
        if code is not None:
            return True
        if not heard and time.monotonic() - began > settings.start_limit_s:
            return False
        if sink.stop_requested():
            (folder / STOP).touch()
        time.sleep(POLL_S)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _ending(code: int | None, progress: Progress, settings: VerlEngineSettings) -> tuple[Status, str]:
    """An end is what the process says itself; a process that says nothing has crashed."""
    if progress.ended is not None:
        return progress.ended
    if code is None:
        return "failed", f"verl said nothing within {settings.start_limit_s:.0f} s, {ATTEMPTS} times; see {LOG}"
    return "failed", f"the verl process ended with code {code} after step {progress.steps} without a word; see {LOG}"


def _keep_model(checkpoints: Path, target: Path) -> None:
    """The final model, in the format that transformers loads, in the run's folder."""
    source = checkpoints / f"global_step_{checkpointed_step(checkpoints)}" / "actor" / "huggingface"
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
