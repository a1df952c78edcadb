"""Imported by the server process of `benchmarks.processes` alone, before anything else: SIGTERM waits there.

Whoever ends a whole process group (`timeout`, a service manager) signals the server too. It would die, its parent would
take every run for dead, and nobody could stop them. A run unblocks the signal once it knows what to do with it; one
that was sent before is kept until then. The server itself ends with its parent.
"""

from __future__ import annotations

import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
