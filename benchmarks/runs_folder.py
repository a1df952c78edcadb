"""The folder of all runs, and what stands in it beside the run folders, which hold records and nothing else.

<run_id>/                          see `benchmarks.store`
reproduction-<profile>/plan.json   the planned runs and how far each is
.cache/                            warm starts
.logs/<run_id>.txt                 what the run's process printed, its traceback included
.tracking/<name>.json              how much of a run MLflow has
.lock                              held by the one command that works in the folder
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sagc.errors import ConfigError

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """The folder that holds every run, and what stands in it beside them."""

    path: Path

    def run(self, run_id: str) -> Path:
        """The folder of one run."""
        return self.path / run_id

    def reproduction(self, profile: str) -> Path:
        """The folder of one reproduction: its plan and its report."""
        return self.path / f"reproduction-{profile}"

    @property
    def cache(self) -> Path:
        """Where engines keep warm starts."""
        return self.path / ".cache"

    def log(self, run_id: str) -> Path:
        """What the process of a run printed."""
        return self.path / ".logs" / f"{run_id}.txt"

    def cursor(self, name: str) -> Path:
        """How much of a run, or of a reproduction, MLflow has."""
        return self.path / ".tracking" / f"{name}.json"

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
            for folder in (self.path, self.path / ".cache", self.path / ".logs", self.path / ".tracking"):
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
