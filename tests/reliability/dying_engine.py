"""The fake engine in a process that is killed after a step, or may not write large files."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

from benchmarks.engines.protocol import Sink
from benchmarks.record import Outcome
from benchmarks.spec import RunSpec
from tests.benchmarks.fake_engine import FakeEngine


class DyingEngine(FakeEngine):
    """Dies by SIGKILL once step `dies_after` is on record."""

    def __init__(self, dies_after: int) -> None:
        super().__init__()
        self._dies_after = dies_after

    def run(self, spec: RunSpec, policy: Any, sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        return super().run(spec, policy, _DyingSink(sink, self._dies_after), folder, resume_from)


class _DyingSink:
    def __init__(self, sink: Sink, dies_after: int) -> None:
        self._sink, self._dies_after = sink, dies_after
        self.evaluation, self.stop_requested = sink.evaluation, sink.stop_requested

    def step(self, record: Any, timing: Any) -> None:
        self._sink.step(record, timing)
        if record.step == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)


class LimitedEngine(FakeEngine):
    """Works in a process whose files may not grow beyond `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def run(self, spec: RunSpec, policy: Any, sink: Sink, folder: Path, resume_from: Path | None) -> Outcome:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, self._limit))
        return super().run(spec, policy, sink, folder, resume_from)
