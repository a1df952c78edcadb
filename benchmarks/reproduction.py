"""Carries a plan out from start to honest end: store, lock, processes, MLflow, table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.endings import mark_the_dead
from benchmarks.engines import EngineFactory
from benchmarks.plan_file import PlanDocument, PlanFile, mark_dead_plans, read_plan
from benchmarks.processes import Stop
from benchmarks.progress import Console, status_lines
from benchmarks.provenance import moment, provenance
from benchmarks.record import Status
from benchmarks.runner import Run, Runner
from benchmarks.runs_folder import PLAN, RunsFolder
from benchmarks.suite import Plan
from benchmarks.terminal import FINISHED, NOT_ALL_FINISHED, STOPPED
from sagc.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What became of a plan."""

    runs: Sequence[Run]
    exit_code: int
    tracking: str
    """Address of the MLflow store."""


def carry_out(
    plan: Plan,
    *,
    folder: RunsFolder,
    engines: Mapping[str, EngineFactory],
    jobs: int,
    suite: str,
    profile: str | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Carried:
    """Run a plan and say how each run ended.

    Args:
        plan: what to run.
        folder: where.
        engines: the table of engines.
        jobs: most processes at a time.
        suite: name of the MLflow experiment.
        profile: of a reproduction, which keeps its plan in a folder and has a parent run; None for a single run.
        asked: how the profile was narrowed or widened; kept with the plan.

    Raises:
        ConfigError: before anything is written, if the folder or the MLflow store cannot be used.
    """
    from benchmarks import mirror, tracking  # MLflow takes seconds to import, which `list` and `--help` need not pay

    stop = Stop()
    with stop.listening():
        folder.check_writable()
        ignored = tracking.drop_ignored(os.environ)
        tracker = tracking.connect(folder, suite)
        with folder.lock():
            problems = mark_the_dead(folder)
            mark_dead_plans(folder)
            facts = provenance()
            runner = Runner(plan, folder=folder, engines=engines, jobs=jobs, provenance=facts, stop=stop)
            console = Console(runner.runs)
            misleading = [f"{name} is ignored: it would misdirect the records" for name in ignored]
            for note in (*plan.notes, *problems, *misleading):
                console.said(f"note: {note}")
            console.said(f"records: {folder.path}\nMLflow:  {tracker.uri}, experiment {suite}")
            parent = None if profile is None else folder.reproduction(profile).name
            plan_file = None
            if profile is not None:
                header = {"profile": profile, "suite": suite, "asked": asked, "provenance": facts, "started": moment()}
                plan_file = PlanFile(folder.reproduction(profile) / PLAN, runner.runs, header)
                runner.observe(plan_file)
            follower = mirror.Mirror(tracker, folder, parent, planned=[run.name for run in runner.runs])
            runner.observe(console, follower)
            runner.run()
            console.finish()
            finished = all(run.state == "finished" for run in runner.runs)
            status: Status = "finished" if finished else "killed" if stop.requests else "failed"
            delivery = follower.close(status, give_up=lambda: stop.requests > 1)
            lines = [*status_lines(runner.runs), *delivery_lines(delivery)]
            if plan_file is not None and plan_file.problem:
                lines.append(f"note: {plan_file.problem}")
            print("\n".join(["", "How every planned run ended:", *lines]))
    exit_code = FINISHED if finished else STOPPED if stop.requests else NOT_ALL_FINISHED
    return Carried(runs=runner.runs, exit_code=exit_code, tracking=tracker.uri)


def show_report(folder: RunsFolder, profile: str, *, suite: str, files: Sequence[Path], headline: str) -> str | None:
    """Attach a report to the reproduction's parent run in MLflow.

    Returns:
        None, or what MLflow said against it: a report is never lost to a store that is away.

    Degenerate cases: records that were never shown in MLflow, those of an unpacked archive say, stay so.
    """
    name = folder.reproduction(profile).name
    if not folder.shown(name):
        return None  # the records came from elsewhere, and no store has seen them
    from benchmarks import mirror, tracking

    try:
        tracking.drop_ignored(os.environ)
        mirror.attach_report(tracking.connect(folder, suite), folder, name, files, headline)
    except Exception as error:  # whatever MLflow raises, the report itself is written
        return f"MLflow did not take the report ({str(error).splitlines()[0][:200]}); `report` tries again"
    return None


def delivery_lines(delivery: Any) -> list[str]:
    """What the user should know about MLflow; nothing if all went well."""
    lines = []
    if delivery.undelivered:
        lines.append(
            f"MLflow lacks records of {delivery.undelivered} runs ({delivery.last_error}); nothing is lost: "
            "the record files have them, and `python -m benchmarks sync-mlflow` or the same command delivers them"
        )
    elif delivery.errors:
        lines.append(f"MLflow did not answer {delivery.errors} times ({delivery.last_error}); it has everything now")
    if delivery.refused:
        counts = ", ".join(f"{key} ({count})" for key, count in sorted(delivery.refused.items()))
        lines.append(f"MLflow cannot hold these numbers, which stand in the record files alone: {counts}")
    return lines


def asked_before(folder: RunsFolder, profile: str) -> dict[str, Any]:
    """How the latest reproduction of a profile was narrowed or widened.

    Raises:
        ConfigError: if there was none.
    """
    return asdict(plan_of(folder, profile).asked)


def run_folders(folder: RunsFolder, profile: str) -> list[Path]:
    """The folders of the runs of a profile's latest reproduction that have begun, in order.

    Raises:
        ConfigError: if there was none.
    """
    found = [folder.run(run.run_id) for run in plan_of(folder, profile).runs if run.run_id]
    return [run for run in found if run.exists()]


def plan_of(folder: RunsFolder, profile: str) -> PlanDocument:
    """The plan of a profile's latest reproduction.

    Raises:
        ConfigError: if there was none.
        RecordError: if it cannot be read.
    """
    reproduction = folder.reproduction(profile)
    if not (reproduction / PLAN).exists():
        raise ConfigError(
            f"profile must have been reproduced, got {profile!r} without {reproduction / PLAN}; "
            f"run `python -m benchmarks reproduce --profile {profile}` first"
        )
    return read_plan(reproduction)
