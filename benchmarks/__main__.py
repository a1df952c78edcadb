"""The composition root: the one place of `benchmarks` that knows `reports`."""

from __future__ import annotations

import sys

from benchmarks.cli import main
from benchmarks.commands import Reports
from reports import build, keep, sensitivity

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], reports=Reports(build=build, keep=keep, sensitivity=sensitivity)))
