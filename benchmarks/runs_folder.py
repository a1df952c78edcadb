"""The folder of all runs, and what stands in it beside the run folders, which hold records and nothing else.

<run_id>/                          see `benchmarks.store`
eval-<model>-<seed>-<digest>/      see `benchmarks.evaluation.run`
reproduction-<profile>/plan.json   the planned runs and how far each is
.cache/                            warm starts
.logs/<run_id>.txt                 what the run's process printed, its traceback included
.logs/<run_id>.lock                held by the process that writes the run
.tracking/<store>/<name>.json      how much of a run an MLflow store has
.lock                              held by the one command that works in the folder
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.store import CONFIG
from sagc.errors import ConfigError

EVALUATION = "eval-"
"""How the folders of evaluations on public sets begin; `benchmarks.evaluation.run` says what is in them."""
PLAN = "plan.json"


def _name(name: str) -> str:
    """`name`, if it is a plain one."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", name):
        raise ConfigError(f"name must be letters, digits, ., - and _, got {name!r}; delete the plan that holds it")
    return name


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """The folder that holds every run, and what stands in it beside them."""

    path: Path

    def run(self, run_id: str) -> Path:
        """The folder of one run.

        Raises:
            ConfigError: on a name that leads out of the runs folder, or to what is no run's.
        """
        return self.path / _name(run_id)

    def runs(self) -> list[Path]:
        """The folder of every run that has begun, by name."""
        found = (path.parent for path in self.path.glob(f"[!.]*/{CONFIG}"))
        return sorted(folder for folder in found if not folder.name.startswith(EVALUATION))

    def evaluations(self) -> list[Path]:
        """The folder of every evaluation, by name."""
        return sorted(path.parent for path in self.path.glob(f"{EVALUATION}*/{CONFIG}"))

    def reproduction(self, profile: str) -> Path:
        """The folder of one reproduction: its plan and its report."""
        return self.path / f"reproduction-{_name(profile)}"

    def reproductions(self) -> list[Path]:
        """The folder of every reproduction, by name."""
        return sorted(path.parent for path in self.path.glob(f"reproduction-*/{PLAN}"))

    @property
    def cache(self) -> Path:
        """Where engines keep warm starts."""
        return self.path / ".cache"

    def log(self, run_id: str) -> Path:
        """What the process of a run printed."""
        return self.path / ".logs" / f"{_name(run_id)}.txt"

    @property
    def cursors(self) -> Path:
        """Where it stands how much of each run MLflow has; see `benchmarks.cursor`."""
        return self.path / ".tracking"

    def shown(self, name: str) -> bool:
        """Whether any MLflow store has been shown that run or reproduction."""
        return any(self.cursors.glob(f"*/{_name(name)}.json"))

    @contextmanager
    def hold(self, run_id: str) -> Iterator[None]:
        """Wait until no other process writes the run, then be the one that does.

        A process that outlives a killed command writes on until its step has ended. The descriptor is not inherited,
        so the lock goes with this process, however it ends.
        """
        with self._run_lock(run_id).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def held(self, run_id: str) -> bool:
        """Whether a process writes the run."""
        with self._run_lock(run_id).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _run_lock(self, run_id: str) -> Path:
        return self.path / ".logs" / f"{_name(run_id)}.lock"

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written, without making anything.

        Raises:
            ConfigError: naming the folder.
        """
        nearest = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"runs folder must be writable, got {str(self.path)!r}; choose another with --runs")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and hold it for this process; the system lets go when the process ends, however it ends.

        Raises:
            ConfigError: if another process holds it, naming that process, or if it cannot be written.
        """
        try:
            for folder in (self.path, self.cache, self.path / ".logs", self.cursors):
                folder.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"runs folder must be writable, got {str(self.path)!r} ({error.strerror}); choose another with --runs"
            ) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise ConfigError(
                    f"runs folder must be free, got {str(self.path)!r}, in use by process {file.read().strip()}; "
                    "wait for it to end or choose another with --runs"
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
