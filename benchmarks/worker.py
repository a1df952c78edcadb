"""What happens inside the process of one run: it writes the run folder, and nothing else."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from baselines.arms import ARMS, ArmContext
from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.checkpoint import Saved
from benchmarks.engines import EngineFactory
from benchmarks.provenance import moment
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.runs_folder import RunsFolder
from benchmarks.spec import RunSpec
from benchmarks.store import RunWriter, add_sitting, write_outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is handed."""

    spec: RunSpec
    engine: EngineFactory
    cache: Path
    folder: Path
    log: Path
    """Takes everything that the process prints."""
    provenance: dict[str, Any]
    resume_from: Saved | None = None
    """A checkpoint that the run goes on from; the folder holds its records up to there."""


class StopFlag:
    """Whether the run should end after the step in progress: SIGTERM came, or the parent is gone."""

    def __init__(self) -> None:
        self._asked = False
        self._parent = multiprocessing.parent_process()
        # the terminal sends SIGINT to every process; only the parent decides what it means
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # see `benchmarks.shield`

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True

    @property
    def orphaned(self) -> bool:
        """Whether the parent is gone."""
        return self._parent is not None and not self._parent.is_alive()

    def raised(self) -> bool:
        """Whether to end."""
        return self._asked or self.orphaned


class FolderSink:
    """The `Sink` that writes a run folder."""

    def __init__(self, writer: RunWriter, stop: StopFlag) -> None:
        self._writer, self._stop = writer, stop

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """See `Sink.step`."""
        self._writer.step(record, timing)

    def evaluation(self, record: EvaluationRecord) -> None:
        """See `Sink.evaluation`."""
        self._writer.evaluation(record)

    def stop_requested(self) -> bool:
        """See `Sink.stop_requested`."""
        return self._stop.raised()


def run(job: Job) -> None:
    """Run `job.spec` to its end and write how it ended.

    An exception ends the process with its traceback in the log; the parent writes the outcome then.
    """
    stop = StopFlag()
    _print_to(job.log)
    with RunsFolder(job.folder.parent).hold(job.folder.name):
        if stop.orphaned:  # the next command may have read the folder before it was held
            return
        _run(job, stop)


def _run(job: Job, stop: StopFlag) -> None:
    sitting = {**job.provenance, "started": moment(), "resumed_at": job.resume_from and job.resume_from.step}
    earlier = add_sitting(job.folder, sitting)
    engine = job.engine()
    engine.prepare(job.spec, job.cache)  # finds what the process before has built
    context = ArmContext(controller=job.spec.controller, seed=job.spec.seed, schedule=job.spec.schedule)
    writer = RunWriter(job.folder)
    policy = ARMS[job.spec.arm].make(context)
    outcome = engine.run(
        job.spec, policy, FolderSink(writer, stop), job.folder, job.resume_from and job.resume_from.path
    )
    writer.close()
    provenance = {**sitting, "ended": moment()} | ({"earlier_sittings": earlier} if earlier else {})
    write_outcome(job.folder, replace(outcome, provenance={**outcome.provenance, **provenance}))
    if outcome.status == "finished":
        shutil.rmtree(job.folder / CHECKPOINTS, ignore_errors=True)  # there may be none


def prepare(job: Job) -> None:
    """Build what all runs of the job's task share."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _print_to(job.log)
    job.engine().prepare(job.spec, job.cache)


def _print_to(log: Path) -> None:
    """Send standard output and error to `log`, those of C code and of a crash included."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()
