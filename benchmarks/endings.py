"""How a run ended, said by those who outlive it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from benchmarks.record import Outcome, Status, StepRecord, StepTiming
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import (
    CONFIG,
    OUTCOME,
    STEPS,
    TIMINGS,
    RecordError,
    check_whole,
    read_json,
    read_lines,
    read_outcome,
    read_run,
    write_outcome,
)
from sagc.errors import ConfigError

_SENT_BY_SOMEBODY = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Any other signal is a crash."""
DIED = "the command died before it ended; found at the next start"
"""Reason of what nobody was left to say."""


def finished_before(folder: Path, config: dict[str, Any]) -> bool:
    """Whether `folder` holds a finished run with this configuration.

    Raises:
        ConfigError: if it holds a run of another one: the code has changed what the run's name stands for.
        RecordError: if it holds a finished run that lacks records.
        RecordError: if it cannot be read.
    """
    if not (folder / CONFIG).exists():  # nothing there, or killed before it had begun
        return False
    # the spec is in the folder's name, as a hash; the rows that it names are not
    changed = differences(read_json(folder / CONFIG), config)
    if changed:
        raise ConfigError(
            f"run folder must hold the run that its name says, got {str(folder)!r} with {', '.join(changed[:4])}; "
            "delete it, or choose another folder with --runs"
        )
    outcome = read_outcome(folder)
    if outcome is None or outcome.status != "finished":
        return False
    check_whole(read_run(folder))
    return True


def differences(found: Any, wanted: Any, name: str = "") -> list[str]:
    """``key found (now wanted)`` for every setting that differs between two configurations."""
    if not (isinstance(found, dict) and isinstance(wanted, dict)):
        return [] if found == wanted else [f"{name} {found!r} (now {wanted!r})"]
    return [
        line
        for key in sorted(found.keys() | wanted.keys())
        for line in differences(found.get(key), wanted.get(key), f"{name}.{key}" if name else key)
    ]


def ending(exit_code: int, last_words: str, stopped: bool) -> tuple[Status, str]:
    """Status and reason of a run whose process ended without writing an outcome.

    Args:
        exit_code: of the process; minus the number of the signal that ended it.
        last_words: last line of its log.
        stopped: whether the user had asked to stop.
    """
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        killed = -exit_code in _SENT_BY_SOMEBODY
        return ("killed" if killed else "failed"), f"its process was ended by {name}"
    if stopped:
        return "killed", f"stopped by the user; its process ended with exit code {exit_code}"
    if exit_code == 0:
        return "failed", "its process ended without saying how the run ended"
    return "failed", last_words or f"its process ended with exit code {exit_code}"


def partial_outcome(folder: Path, status: Status, reason: str, wall_s: float, provenance: dict[str, Any]) -> Outcome:
    """The outcome of a run that could not write its own, from the records it left."""
    steps = list(read_lines(folder / STEPS, StepRecord))
    return Outcome(
        status=status,
        reason=reason,
        steps=len(steps),
        prompts=sum(record.groups_generated for record in steps),
        rollouts=sum(record.rollouts_generated for record in steps),
        cpu_s=None,
        wall_s=wall_s,
        evaluation_cpu_s=None,
        provenance=provenance,
    )


def mark_the_dead(folder: RunsFolder) -> list[str]:
    """Write the outcome of every run that died together with its command; needs the lock of the folder.

    Returns:
        What the user should know: runs whose folder cannot be read or written.

    Degenerate cases: a run whose process still ends its step is left to that.
    """
    problems = []
    for run in folder.runs():
        if (run / OUTCOME).exists() or folder.held(run.name):
            continue
        try:
            timings = read_lines(run / TIMINGS, StepTiming)
            wall_s = sum(sum(timing.wall_s.values()) for timing in timings)
            write_outcome(run, partial_outcome(run, "killed", DIED, wall_s, {}))
        except (RecordError, OSError) as error:
            problems.append(f"{run.name} died and cannot be marked: {error}")
    return problems


def last_line(log: Path) -> str:
    """The last words of a log, shortened to one line; empty if there are none."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
