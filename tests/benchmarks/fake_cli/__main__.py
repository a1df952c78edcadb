"""`python -m benchmarks` with the fake engines in its table; run as ``python -m tests.benchmarks.fake_cli``.

A package, as `benchmarks` is: a run's process imports the main module again unless it is called ``__main__``.
"""

from __future__ import annotations

import sys

from benchmarks.cli import main
from benchmarks.commands import Reports
from reports import build, keep, sensitivity
from tests.benchmarks.fake_engine import FAKES

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], reports=Reports(build=build, keep=keep, sensitivity=sensitivity), engines=FAKES))
