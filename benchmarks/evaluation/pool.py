"""Worker processes that compare answers, each answer under a wall-clock limit.

A worker is a process of its own, talked to by lines of JSON. It sets a kernel timer when it starts on an answer;
at the limit the kernel kills it, in whatever C code it hangs. So the limit holds from any thread, starts with
the item and not in a queue, and ends a hanging worker even after its parent was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.evaluation.rules import Comparison, Verdict, decide
from sagc.errors import ConfigError, SagcError

LIMIT_S = 5.0
"""Wall-clock limit for one comparison [ours]; ordinary ones take 2 to 50 ms."""
COMMAND = (sys.executable, "-m", "benchmarks.evaluation.worker")
_ROOT = Path(__file__).resolve().parents[2]


class ScorerError(SagcError):
    """No scoring worker can be started."""


class Worker:
    """One worker process; it starts when first asked and again after it was killed. Not for two threads at once."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def compare(self, comparison: Comparison) -> Verdict:
        """The verdict on `comparison`, at most the limit after the worker began with it."""
        process = self._started()
        reply = self._ask(process, {"gold": comparison.gold, "content": comparison.content, "limit_s": self._limit_s})
        if reply is not None and "right" in reply:
            return comparison.verdict(bool(reply["right"]))
        if reply is not None:
            return Verdict(False, "error", detail=str(reply["error"]))
        code = process.wait()
        self.close()
        self._start()  # the next worker loads while the caller goes on
        if code == -signal.SIGALRM:
            return Verdict(False, "timeout", detail=f"stopped after {self._limit_s:g} s")
        return Verdict(False, "error", detail=f"the scoring worker ended with code {code}")

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what was not written can no longer be
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()  # it died while idle
        process = self._process or self._start()
        if not self._ready:
            reply = self._read(process)
            if reply is None or "ready" not in reply:
                detail = f"code {process.wait()}" if reply is None else reply["error"]
                self.close()
                raise ScorerError(
                    f"the scoring worker must start, got {detail}; "
                    f"run `{' '.join(COMMAND[1:])}` with this Python to see why"
                )
            self._ready = True
        return process

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the parent alone; the worker ends when its input closes
        )
        return self._process

    def _ask(self, process: subprocess.Popen[bytes], request: dict[str, Any]) -> dict[str, Any] | None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        return self._read(process)

    @staticmethod
    def _read(process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        """The worker's next line; None if it ended without one."""
        assert process.stdout is not None
        line = process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None


class ScoringPool:
    """Scores outputs with several workers. Safe to share between threads; close it, or use it in a `with` block."""

    def __init__(self, workers: int | None = None, limit_s: float = LIMIT_S) -> None:
        """Processes start when they are first needed.

        Args:
            workers: most worker processes, at least 1; None takes one per core that this process may use.
            limit_s: wall-clock seconds for one comparison, above 0.
        """
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        if count < 1:
            raise ConfigError(f"workers must be at least 1, got {count!r}; pass the number of processes that may score")
        if not limit_s > 0:
            raise ConfigError(f"limit_s must be above 0, got {limit_s!r}; pass the seconds that one answer may take")
        self._workers = [Worker(limit_s) for _ in range(count)]
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # last in, first out: few answers start few workers
        for worker in self._workers:
            self._idle.put(worker)

    def compare(self, comparison: Comparison) -> Verdict:
        """The verdict on one comparison; waits for an idle worker first, without a limit."""
        worker = self._idle.get()
        try:
            return worker.compare(comparison)
        finally:
            self._idle.put(worker)

    def score_many(
        self, items: Sequence[tuple[str, str, str]], progress: Callable[[int], None] = lambda count: None
    ) -> list[Verdict]:
        """The verdicts on `items`, in their order.

        Args:
            items: (answer type, gold, output) of each.
            progress: called with the number of items that have got their verdict since the last call.
        """
        decided = [decide(*item) for item in items]
        waiting: dict[Comparison, list[int]] = {}  # equal answers are compared once
        for index, decision in enumerate(decided):
            if isinstance(decision, Comparison):
                waiting.setdefault(decision, []).append(index)
        progress(len(items) - sum(map(len, waiting.values())))
        verdicts = self._compare_all(list(waiting), lambda comparison: progress(len(waiting[comparison])))
        return [verdicts[decision] if isinstance(decision, Comparison) else decision for decision in decided]

    def _compare_all(
        self, comparisons: Sequence[Comparison], done: Callable[[Comparison], None]
    ) -> dict[Comparison, Verdict]:
        verdicts: dict[Comparison, Verdict] = {}
        with ThreadPoolExecutor(max_workers=len(self._workers)) as threads:
            futures = {threads.submit(self.compare, comparison): comparison for comparison in comparisons}
            try:
                for future in as_completed(futures):
                    verdicts[futures[future]] = future.result()
                    done(futures[future])
            except BaseException:  # Ctrl-C included: leave the thousands that wait undone
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return verdicts

    def close(self) -> None:
        """End every worker; call it when no score is under way."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> ScoringPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
