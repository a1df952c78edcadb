"""Delivers to MLflow what it does not have yet, from the record files; nothing is trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import evaluation_runs
from benchmarks.endings import mark_the_dead
from benchmarks.plan_file import mark_dead_plans, plan_status, read_plan
from benchmarks.processes import Stop
from benchmarks.record import Status
from benchmarks.reproduction import delivery_lines, plan_of
from benchmarks.runs_folder import RunsFolder

SINGLE_RUNS = "sagc-runs"
"""The MLflow experiment of runs that no reproduction has planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Runs for one MLflow experiment."""

    suite: str
    parent: str | None
    status: Status
    """Of the whole."""
    runs: Sequence[Path]


def parcels(folder: RunsFolder, profile: str | None) -> list[Parcel]:
    """Every run that has records, by experiment; with `profile` those of its latest reproduction alone.

    Raises:
        ConfigError: if the profile was not reproduced there.
        RecordError: if a plan cannot be read.
    """
    if profile is not None:
        plan_of(folder, profile)  # there, or refused
    found: list[Parcel] = []
    for reproduction in [folder.reproduction(profile)] if profile else folder.reproductions():
        plan = read_plan(reproduction)
        runs = [folder.run(entry.run_id) for entry in plan.runs if entry.run_id]
        begun = [run for run in runs if run in folder.runs()]
        found.append(Parcel(suite=plan.suite, parent=reproduction.name, status=plan_status(plan), runs=begun))
    if profile is None:
        planned = {run for parcel in found for run in parcel.runs}
        alone = [run for run in folder.runs() if run not in planned]
        found.append(Parcel(suite=SINGLE_RUNS, parent=None, status="finished", runs=alone))
    return [parcel for parcel in found if parcel.runs]


def sync(folder: RunsFolder, profile: str | None) -> tuple[bool, list[str]]:
    """Bring MLflow up to the record files.

    Args:
        folder: the runs folder; no other command may work in it.
        profile: None for all runs.

    Returns:
        Whether MLflow has everything now, and what the user should know.

    Raises:
        ConfigError: if the folder is in use, or the MLflow store does not answer.
    """
    from benchmarks import delivery, tracking  # MLflow takes seconds to import

    stop, lines, complete = Stop(), [], True
    with stop.listening(), folder.lock():
        lines += [f"{name} is ignored: it would misdirect the records" for name in tracking.drop_ignored(os.environ)]
        lines += mark_the_dead(folder)
        mark_dead_plans(folder)
        for parcel in parcels(folder, profile):
            tracker = tracking.connect(folder, parcel.suite)
            courier = delivery.Courier(tracker, folder, parcel.parent)
            new = [run for run in parcel.runs if not courier.cursor(run.name).closed]
            if not new and (parcel.parent is None or courier.cursor(parcel.parent).closed):
                lines.append(f"{parcel.suite}: {len(parcel.runs)} runs, all there already")
                continue
            for run in new:
                courier.follow(delivery.Followed(run, courier.cursor(run.name)))
            done = courier.finish(parcel.status, give_up=lambda: stop.requests > 0)
            complete &= not done.undelivered
            lines.append(f"{parcel.suite}: {len(parcel.runs)} runs, {len(new) - done.undelivered} brought up to date")
            lines += delivery_lines(done)
        if profile is None and (late := list(evaluation_runs.undelivered(folder))):
            problem = evaluation_runs.show(folder, late)
            complete &= problem is None
            lines.append(problem or f"{evaluation_runs.EXPERIMENT}: {len(late)} evaluations brought up to date")
    return complete, lines
