"""How processes are made, and how the user stops them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from types import FrameType

from benchmarks.engines import PRELOAD

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Stop:
    """How often the user has asked to stop."""

    def __init__(self) -> None:
        self.requests = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count Ctrl-C and SIGTERM instead of dying of them."""
        previous = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.requests += 1


def process_context(engines: Iterable[str]) -> ForkServerContext:
    """Fresh processes with one thread each, in which the frameworks of `engines` are imported already.

    A server process imports them once and forks for each run; nothing of one run is left in another.
    """
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"  # the runs share the cores between them; the bytes depend on it too
    context = multiprocessing.get_context("forkserver")
    frameworks = [PRELOAD[name] for name in engines if name in PRELOAD]
    context.set_forkserver_preload(["benchmarks.shield", "benchmarks.worker", *frameworks])
    return context
