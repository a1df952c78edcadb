"""The process behind `pool.Worker`: reads comparisons as JSON lines, writes verdicts as JSON lines.

    {"gold": "1/2", "content": "0.5", "limit_s": 5.0}   ->   {"right": true}

It imports `math-verify` once, says {"ready": true}, and ends when its input closes.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import IO, Any

STARTUP_LIMIT_S = 120.0
"""Importing takes about a second, more on a loaded machine [ours]."""
MEMORY_BYTES = 4 * 2**30
"""Address space of a worker [ours]; the worst known input takes 0.3 GiB."""


def main() -> int:
    """Serve until the input closes."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever a library prints must not reach the replies
    _arm(STARTUP_LIMIT_S)
    _limit_memory()
    try:
        from benchmarks.evaluation.symbolic import equivalent

        equivalent("1/2", "0.5")  # the first comparison loads the grammar: up to a second
    except Exception as error:  # a wrong antlr runtime fails in many ways; the parent raises what it reads
        _reply(replies, {"error": f"{type(error).__name__}: {error}"})
        return 1
    _disarm()
    _reply(replies, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _arm(request["limit_s"])
        try:
            answer: dict[str, Any] = {"right": equivalent(request["gold"], request["content"])}
        except Exception as error:  # no input may end the scoring; the verdict is counted as an error
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        _disarm()
        _reply(replies, answer)
    return 0


def _arm(seconds: float) -> None:
    """Have the kernel kill this process in `seconds`, even inside C code and with the parent dead."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})  # the parent's mask is inherited
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _disarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES if hard < 0 else min(MEMORY_BYTES, hard), hard))


def _reply(replies: IO[str], message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
