"""Runs a plan: one fresh process per run, a few at a time, each with an honest end.

    waiting -> running -> finished | failed | killed | diverged | stalled
    waiting -> not started      (its source did not finish, its task could not be prepared, or the user stopped)

A finished run is never repeated; any other goes on from its newest checkpoint by the same command, or starts anew
where it has none.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks import worker
from benchmarks.checkpoint import Saved, saved_steps
from benchmarks.endings import ending, finished_before, last_line, partial_outcome
from benchmarks.engines import CHECKPOINTS, EngineFactory
from benchmarks.processes import Stop, process_context
from benchmarks.record import Status, StepRecord
from benchmarks.resume import go_back_to_checkpoint
from benchmarks.runs_folder import RunsFolder
from benchmarks.settings import resolved_config
from benchmarks.spec import RunSpec
from benchmarks.store import CONFIG, STEPS, read_lines, read_outcome, write_json, write_outcome
from benchmarks.suite import Plan, PlannedRun
from sagc.errors import SagcError

State = Literal["waiting", "running", Status, "not started"]
TICK_S = 0.5
"""How often the running runs are looked at."""


@dataclass(slots=True)
class Run:
    """A planned run and how far it is."""

    planned: PlannedRun
    spec: RunSpec
    """With the schedule, once the source has finished."""
    state: State = "waiting"
    reason: str = ""
    folder: Path | None = None
    """None as long as its run_id is not known: a follower before its source has finished."""
    reused: bool = False
    """It had finished before this command."""
    resumed_at: int | None = None
    """Training step that it goes on from; None: it begins at the beginning."""

    @property
    def name(self) -> str:
        """See `PlannedRun.name`."""
        return self.planned.name


class Observer(Protocol):
    """Is told what happens; it never changes it."""

    def said(self, text: str) -> None:
        """Something that the user should know."""
        ...

    def started(self, run: Run) -> None:
        """The run's process is about to write a fresh folder."""
        ...

    def ended(self, run: Run) -> None:
        """The run has its final state, for this command."""
        ...

    def ticked(self) -> None:
        """Some time has passed."""
        ...


@dataclass(slots=True)
class _Child:
    process: ForkServerProcess
    run: Run
    """For a preparation the run that asked for it."""
    prepares: tuple[str, str] | None
    """(engine, task) that it prepares; None for a run."""
    log: Path
    started: float


class Runner:
    """Runs a plan in the folder `folder`.

    Args:
        plan: what to run, in order.
        folder: where; this process must hold its lock.
        engines: the table of engines.
        jobs: most processes at a time.
        provenance: goes into every outcome.
        stop: what the user asked for.

    Raises:
        ConfigError: if a finished run of the plan has another configuration than the one planned.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        folder: RunsFolder,
        engines: Mapping[str, EngineFactory],
        jobs: int,
        provenance: dict[str, Any],
        stop: Stop,
    ) -> None:
        self.runs = [Run(planned, planned.spec) for planned in plan.runs]
        self._by_name = {run.name: run for run in self.runs}
        self._folder, self._engines, self._jobs = folder, engines, jobs
        self._provenance, self._stop = provenance, stop
        self._observers: tuple[Observer, ...] = ()
        self._children: dict[int, _Child] = {}
        self._prepared: dict[tuple[str, str], str] = {}
        """(engine, task) -> "running", "done", or why it failed."""
        self._stops_sent = 0
        self._held: list[Run] = []
        """Runs that a process of an earlier command was still writing."""
        for run in self.runs:
            if run.planned.source is None:
                self._locate(run)  # refuses a folder that holds something else before anything starts
        self._context = process_context({run.spec.engine for run in self.runs})

    def observe(self, *observers: Observer) -> None:
        """Tell these from now on what happens."""
        self._observers += observers

    def run(self) -> None:
        """Run everything that can be run; returns when each run has its final state."""
        for run in self.runs:
            if run.reused:
                self._settle(run, "finished", "")
        self._name_other_commits()
        while any(run.state in ("waiting", "running") for run in self.runs):
            self._pass_stop_on()
            self._launch()
            for sentinel in wait(list(self._children), timeout=TICK_S):
                assert isinstance(sentinel, int)
                self._reap(self._children.pop(sentinel))
            for observer in self._observers:
                observer.ticked()

    def _launch(self) -> None:
        """Start or settle every waiting run that has what it needs, as far as there are cores."""
        for run in self.runs:
            if run.state != "waiting":
                continue
            if self._stop.requests:
                self._settle(run, "not started", "stopped by the user before it began")
            elif run.folder is None:
                self._follow(run)
            elif len(self._children) < self._jobs:
                try:
                    self._advance(run)
                except (SagcError, OSError) as error:  # its folder alone: the others go on
                    self._settle(run, "not started", f"its folder cannot be used: {error}")

    def _locate(self, run: Run) -> None:
        """Find the run's folder, and whether it needs to be run at all."""
        run.folder = self._folder.run(run.spec.run_id)
        run.reused = finished_before(run.folder, resolved_config(run.spec))

    def _name_other_commits(self) -> None:
        """A finished run is used whatever code it comes from; the user should know before the report says it."""
        outcomes = [read_outcome(run.folder) for run in self.runs if run.reused and run.folder is not None]
        commits = [str(outcome.provenance.get("commit")) for outcome in outcomes if outcome is not None]
        others = [commit for commit in commits if commit != str(self._provenance.get("commit"))]
        if others:
            names = ", ".join(sorted({commit[:12] for commit in others}))
            self._say(f"{len(others)} finished runs come from other code ({names}); another --runs repeats them")

    def _follow(self, run: Run) -> None:
        """Hand the run the group sizes of its source, once that has ended; it starts at the next look."""
        assert run.planned.source is not None
        source = self._by_name[run.planned.source]
        if source.state in ("waiting", "running"):
            return
        if source.state != "finished" or source.folder is None:
            self._settle(run, "not started", f"{source.name}, which it follows, is {source.state}")
            return
        try:
            schedule = tuple(record.group_size for record in read_lines(source.folder / STEPS, StepRecord))
            run.spec = replace(run.spec, schedule=schedule, schedule_source=source.spec.run_id)
            self._locate(run)
        except (SagcError, OSError) as error:
            self._settle(run, "not started", str(error))
        if run.reused:
            self._settle(run, "finished", "")

    def _advance(self, run: Run) -> None:
        """Start the run, or first what it needs."""
        if self._folder.held(run.spec.run_id):
            if run not in self._held:
                self._held.append(run)
                self._say(f"{run.name}: the process of a command that was killed still ends its step; waiting for it")
            return
        needs = (run.spec.engine, run.spec.task)
        prepared = self._prepared.get(needs)
        if prepared == "done":
            self._start(run)
        elif prepared is None:
            self._prepared[needs] = "running"
            self._say(f"preparing {needs[1]} for {needs[0]}: what all its runs start from")
            self._spawn(worker.prepare, run, f"prepare-{needs[0]}-{needs[1]}", prepares=needs)
        elif prepared != "running":
            self._settle(run, "not started", prepared)

    def _start(self, run: Run) -> None:
        assert run.folder is not None
        if run in self._held:
            self._locate(run)  # that process may have finished it
            if run.reused:
                self._settle(run, "finished", "")
                return
        find = CHECKPOINTS.get(run.spec.engine, saved_steps)
        saved = go_back_to_checkpoint(run.folder, lambda text: self._say(f"{run.name}: {text}"), find)
        if saved is not None:
            run.resumed_at = saved.step
            self._say(f"{run.name} had not finished: it goes on after step {run.resumed_at}")
        else:
            if run.folder.exists():
                self._say(f"{run.name} had not finished and has no checkpoint: it starts anew")
                shutil.rmtree(run.folder)
            run.folder.mkdir()
            write_json(run.folder / CONFIG, resolved_config(run.spec))
        run.state = "running"
        for observer in self._observers:
            observer.started(run)
        self._spawn(worker.run, run, run.spec.run_id, prepares=None, resume_from=saved)

    def _spawn(
        self,
        target: Any,
        run: Run,
        name: str,
        prepares: tuple[str, str] | None,
        resume_from: Saved | None = None,
    ) -> None:
        log = self._folder.log(name)
        job = worker.Job(
            spec=run.spec,
            engine=self._engines[run.spec.engine],
            cache=self._folder.cache,
            folder=run.folder or self._folder.path,
            log=log,
            provenance=self._provenance,
            resume_from=resume_from,
        )
        process = self._context.Process(target=target, args=(job,), name=name, daemon=True)
        process.start()
        self._children[process.sentinel] = _Child(process, run, prepares, log, time.monotonic())

    def _reap(self, child: _Child) -> None:
        """Take note of a process that has ended."""
        child.process.join()
        exit_code = child.process.exitcode
        assert exit_code is not None
        child.process.close()
        if child.prepares:
            done = "done" if exit_code == 0 else f"preparing {child.prepares[1]} failed: {last_line(child.log)}"
            self._prepared[child.prepares] = done
            if done != "done" and not self._stop.requests:
                self._say(f"{done} (all of it: {child.log})")
            return
        run = child.run
        assert run.folder is not None
        status, reason = ending(exit_code, last_line(child.log), stopped=self._stop.requests > 0)
        try:
            outcome = read_outcome(run.folder)
            if outcome is None:
                wall_s = time.monotonic() - child.started
                outcome = partial_outcome(run.folder, status, reason, wall_s, self._provenance)
                write_outcome(run.folder, outcome)
            status, reason = outcome.status, outcome.reason
        except (SagcError, OSError) as error:  # a full disk, say: the next start marks it
            reason = f"{reason}; not on record: {error}"
        self._settle(run, status, reason)

    def _settle(self, run: Run, state: State, reason: str) -> None:
        run.state, run.reason = state, reason
        for observer in self._observers:
            observer.ended(run)

    def _pass_stop_on(self) -> None:
        """Once: ask the processes to end after the step in progress. Twice: end them now."""
        if self._stop.requests == self._stops_sent:
            return
        self._stops_sent = self._stop.requests
        if self._children:
            now = self._stops_sent > 1
            self._say("stopping now" if now else "stopping after the step in progress; Ctrl-C again stops at once")
            for child in self._children.values():
                (child.process.kill if now else child.process.terminate)()

    def _say(self, text: str) -> None:
        for observer in self._observers:
            observer.said(text)
