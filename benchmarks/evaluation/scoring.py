"""The score of one output: the same function for evaluation and for the training reward.

    score("integer", "70", r"... so the answer is \\boxed{070}.")   # Verdict(right=True, ...)

What the integer and letter rules decide takes microseconds, in the calling process. The rest goes to a worker
process with a wall-clock limit per answer. No signal, event loop or `multiprocessing` is used, so it works alike from
the main thread, another thread, an asyncio task (which it blocks for as long as it takes), a child process and a Ray
actor.
"""

from __future__ import annotations

import atexit
import os
import threading

from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.rules import ANSWER_TYPES, Comparison, Status, Verdict, decide

__all__ = ["ANSWER_TYPES", "SHARED_WORKERS", "ScoringPool", "Status", "Verdict", "score", "score_in_this_process"]

SHARED_WORKERS = 2
"""Most worker processes that `score` keeps in one process [ours]; each starts when it is first needed."""


def score(answer_type: str, gold: str, text: str) -> Verdict:
    """Whether the output `text` gives the answer `gold`.

    Args:
        answer_type: ``integer``, ``latex``, ``choice`` or another row of `ANSWER_TYPES`.
        gold: the right answer; for ``choice`` its letter.
        text: the whole output of the model, thinking included.

    Returns:
        The verdict. A scorer that was stopped at its limit or failed is told apart by `Verdict.status`.

    Raises:
        ConfigError: on an unknown answer type.
        ScorerError: if no worker can be started.
    """
    decided = decide(answer_type, gold, text)
    return _shared.pool().compare(decided) if isinstance(decided, Comparison) else decided


def score_in_this_process(answer_type: str, gold: str, text: str) -> Verdict:
    """`score` without a worker and so without a limit: for trusted text only, it may never return."""
    decided = decide(answer_type, gold, text)
    if not isinstance(decided, Comparison):
        return decided
    from benchmarks.evaluation.symbolic import equivalent  # a second of imports that `score` does not need

    return decided.verdict(equivalent(*decided))


class _Shared:
    """The pool behind `score`, made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ScoringPool | None = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def pool(self) -> ScoringPool:
        with self._lock:
            if self._pool is None:
                self._pool = ScoringPool(workers=SHARED_WORKERS)
            return self._pool


_shared = _Shared()


def _forget() -> None:
    """Give a forked child a pool of its own: two processes must not read from one worker's pipe."""
    global _shared
    _shared = _Shared()


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _shared.close())
