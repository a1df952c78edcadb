"""`plan.json` of a reproduction: what was planned, how far each run is, and what it says to a later command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.endings import DIED
from benchmarks.record import Status
from benchmarks.runner import Run
from benchmarks.runs_folder import PLAN, RunsFolder
from benchmarks.store import RecordError, read_json, read_outcome, write_json
from benchmarks.typed import from_json
from sagc.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry:
    """One run of a plan."""

    name: str
    run_id: str | None
    """None as long as it is not known: a follower before its source has finished."""
    state: str
    reason: str
    follows: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How the profile was narrowed or widened."""

    seeds: int | None
    tasks: tuple[str, ...]
    algorithms: tuple[str, ...]
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """A whole `plan.json`."""

    profile: str
    suite: str
    """MLflow experiment."""
    asked: Asked
    provenance: dict[str, Any]
    started: dict[str, Any]
    runs: tuple[PlannedEntry, ...]


class PlanFile:
    """Keeps a reproduction's `plan.json` up to date; an `Observer`.

    Raises:
        ConfigError: if it cannot be written at the start; later that is noted in `problem` and stops no run.
    """

    def __init__(self, path: Path, runs: Sequence[Run], header: dict[str, Any]) -> None:
        self._path, self._runs, self._header = path, runs, header
        self.problem: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, self._document())
        except OSError as error:
            raise ConfigError(
                f"runs folder must be writable, got {error.strerror} for {path}; "
                "make room or choose another with --runs"
            ) from error

    def said(self, text: str) -> None:
        """See `Observer.said`; of no interest here."""

    def ticked(self) -> None:
        """See `Observer.ticked`; of no interest here."""

    def started(self, run: Run) -> None:
        """Note that it runs."""
        self._write()

    def ended(self, run: Run) -> None:
        """Note how it ended."""
        self._write()

    def _write(self) -> None:
        try:
            write_json(self._path, self._document())
            self.problem = None
        except OSError as error:
            self.problem = f"{self._path} is out of date ({error.strerror}); the next command mends it"

    def _document(self) -> dict[str, Any]:
        entries = [
            PlannedEntry(
                name=run.name,
                run_id=run.folder.name if run.folder else None,
                state=run.state,
                reason=run.reason,
                follows=run.planned.source,
            )
            for run in self._runs
        ]
        return {**self._header, "runs": [asdict(entry) for entry in entries]}


def read_plan(folder: Path) -> PlanDocument:
    """The plan in the folder of a reproduction.

    Raises:
        RecordError: if it cannot be read.
    """
    path = folder / PLAN
    try:
        return from_json(PlanDocument, read_json(path))
    except RecordError:
        raise
    except ValueError as error:
        raise RecordError(f"{path} must be a plan, got {error}; delete it and reproduce again") from error


def mark_dead_plans(folder: RunsFolder) -> None:
    """Give each run that a dead command left waiting or running the state that it is really in; needs the lock.

    Degenerate cases: a plan that cannot be read or written stays as it is; whoever needs it will say so.
    """
    for reproduction in folder.reproductions():
        try:
            plan = read_plan(reproduction)
            entries = [_as_it_is(folder, entry) for entry in plan.runs]
            if entries != list(plan.runs):
                write_json(reproduction / PLAN, {**asdict(plan), "runs": [asdict(entry) for entry in entries]})
        except (OSError, RecordError, ConfigError):
            continue


def _as_it_is(folder: RunsFolder, entry: PlannedEntry) -> PlannedEntry:
    if entry.state not in ("waiting", "running"):
        return entry
    outcome = read_outcome(folder.run(entry.run_id)) if entry.run_id else None
    if outcome is not None:
        state, reason = str(outcome.status), outcome.reason
    elif entry.state == "running":
        return entry  # its process may outlive the command
    else:
        state, reason = "not started", DIED
    return PlannedEntry(name=entry.name, run_id=entry.run_id, state=state, reason=reason, follows=entry.follows)


def plan_status(plan: PlanDocument) -> Status:
    """How a reproduction ended, all of its runs together."""
    states = {entry.state for entry in plan.runs}
    if states <= {"finished"}:
        return "finished"
    return "killed" if states & {"killed", "waiting", "running", "not started"} else "failed"
