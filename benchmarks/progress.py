"""What the terminal shows: lines that stay, and on a terminal a block below them that is drawn again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from benchmarks.record import StepRecord
from benchmarks.runner import Run
from benchmarks.settings import expected_rollouts, expected_seconds
from benchmarks.store import STEPS, Tail
from benchmarks.suite import PlannedRun

QUIET_S = 30.0
"""Without a terminal a running run is mentioned this often."""
DRAW_S = 1.0
"""On a terminal the block is drawn again this often."""


class RunView:
    """How far one run is, read from its records."""

    def __init__(self, run: Run) -> None:
        assert run.folder is not None
        self.run = run
        self.prompts = self.rollouts = 0
        self.last: StepRecord | None = None
        self._tail: Tail[StepRecord] = Tail(run.folder / STEPS, StepRecord)

    def refresh(self) -> None:
        """Read the steps that are new."""
        for record in self._tail.read():
            self.prompts += record.groups_generated
            self.rollouts += record.rollouts_generated
            self.last = record

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1."""
        return min(self.run.spec.horizon.progress(self.prompts, self.rollouts), 1.0)

    @property
    def infeasible(self) -> bool:
        """Whether the controller says that its budget cannot be held."""
        return self.last is not None and bool(self.last.decision["budget_infeasible"])


class Console:
    """Tells the user what happens; an `Observer`.

    Args:
        runs: every planned run.
        stream: where to write; None: standard output.
        clock: seconds, for the time left.
    """

    def __init__(
        self, runs: Sequence[Run], stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs, self._stream, self._clock = runs, stream or sys.stdout, clock
        self._terminal = self._stream.isatty()
        self._views: dict[str, RunView] = {}
        self._warned: set[str] = set()
        self._drawn_lines = 0
        self._began = self._drawn_at = clock()
        self._worked = 0.0
        """Rollouts that this command has finished; reused runs do not tell how fast the machine is."""

    def said(self, text: str) -> None:
        """Show a line that stays."""
        self._erase()
        print(text, file=self._stream, flush=True)

    def started(self, run: Run) -> None:
        """Follow the run."""
        self._views[run.name] = RunView(run)
        if not self._terminal:
            self.said(f"started      {run.name}")

    def ended(self, run: Run) -> None:
        """Show how it ended, with what it reached."""
        done = sum(other.state not in ("waiting", "running") for other in self._runs)
        view = self._views.pop(run.name, None)
        if run.reused:
            facts = "finished before, not repeated"
        elif view is None:
            facts = run.reason
        else:
            view.refresh()
            self._worked += view.share * expected_rollouts(run.spec)
            facts = "; ".join(part for part in (run.reason, describe(view.last)) if part)
        self.said(f"[{done}/{len(self._runs)}] {run.state:<11} {run.name}  {facts}")

    def ticked(self) -> None:
        """Draw the running runs again, if it is time."""
        now = self._clock()
        if now - self._drawn_at < (DRAW_S if self._terminal else QUIET_S):
            return
        self._drawn_at = now
        for view in self._views.values():
            view.refresh()
            if view.infeasible and view.run.name not in self._warned:
                self._warned.add(view.run.name)
                self.said(f"note: {view.run.name}: the straggler budget lies below the smallest group size's risk")
        lines = [f"  {view.share:4.0%}  {view.run.name}  {describe(view.last)}" for view in self._views.values()]
        self._draw([*lines, f"  {self._time_left(now)}"])

    def finish(self) -> None:
        """Nothing more will be drawn."""
        self._erase()

    def _time_left(self, now: float) -> str:
        waiting = sum(expected_rollouts(run.spec) for run in self._runs if run.state == "waiting")
        running = [(view.share, expected_rollouts(view.run.spec)) for view in self._views.values()]
        done = self._worked + sum(share * total for share, total in running)
        ahead = waiting + sum((1 - share) * total for share, total in running)
        finished = sum(run.state not in ("waiting", "running") for run in self._runs)
        return f"{finished} of {len(self._runs)} runs done, {time_left(now - self._began, done, ahead)}"

    def _draw(self, lines: Sequence[str]) -> None:
        self._erase()
        if self._terminal:  # a line that wraps would count as two when the block is taken away
            columns = shutil.get_terminal_size().columns
            lines = [line[: columns - 1] for line in lines]
        print("\n".join(lines), file=self._stream, flush=True)
        self._drawn_lines = len(lines) if self._terminal else 0

    def _erase(self) -> None:
        """Take the block away: up over its lines, then clear to the end of the screen."""
        if self._drawn_lines:
            print(f"\033[{self._drawn_lines}F\033[J", end="", file=self._stream, flush=True)
            self._drawn_lines = 0


def describe(record: StepRecord | None) -> str:
    """The facts of a step that fit on a line."""
    if record is None:
        return "no step yet"
    rate = "-" if record.straggler_rate is None else f"{record.straggler_rate:.2f}"
    return f"step {record.step}, G {record.group_size}, straggler rate {rate}, accuracy {record.accuracy:.2f}"


def time_left(elapsed_s: float, done: float, ahead: float) -> str:
    """The time that the work ahead takes at the speed so far.

    Args:
        elapsed_s: seconds that the work done took.
        done: work done, in any unit.
        ahead: work left, in the same unit.
    """
    if not ahead:
        return "nothing left to train"
    if done <= 0:
        return "time left not known yet"
    seconds = round(elapsed_s * ahead / done)
    return f"about {seconds // 60} min {seconds % 60:02d} s left"


def plan_lines(runs: Sequence[PlannedRun]) -> list[str]:
    """A table of planned runs with the rollouts and CPU-seconds that each is expected to take."""
    expected = {run.name: (expected_rollouts(run.spec), expected_seconds(run.spec)) for run in runs}
    known = [seconds for _, seconds in expected.values() if seconds is not None]
    total = sum(known) if len(known) == len(expected) else None
    rows = [*expected.items(), ("all", (sum(rollouts for rollouts, _ in expected.values()), total))]
    width = max(len(name) for name, _ in rows)
    lines = [
        f"  {name:<{width}}  {rollouts:>9,}  {'-' if seconds is None else f'{seconds:,.0f}':>9}"
        for name, (rollouts, seconds) in rows
    ]
    return [
        f"  {'run':<{width}}   rollouts  CPU-seconds",
        *lines,
        "  expected: an adaptive arm is taken to stay at its first G; CPU-seconds are a guess from another machine",
    ]


def status_lines(runs: Sequence[Run]) -> list[str]:
    """Every planned run and how it ended, then the counts."""
    width = max(len(run.name) for run in runs)
    lines = [f"  {run.state:<11}  {run.name:<{width}}  {run.reason}".rstrip() for run in runs]
    counts = {state: sum(run.state == state for run in runs) for state in dict.fromkeys(run.state for run in runs)}
    return [*lines, "  " + ", ".join(f"{count} {state}" for state, count in counts.items())]
