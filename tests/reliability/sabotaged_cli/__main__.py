"""`python -m benchmarks`, which dies: ``python -m tests.reliability.sabotaged_cli MOMENT COUNT <arguments>``."""

from __future__ import annotations

import sys

from benchmarks.cli import main
from benchmarks.commands import Reports
from reports import build, keep, sensitivity
from tests.reliability.sabotage import arm_command

if __name__ == "__main__":
    if sys.argv[1] != "none":
        arm_command(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:], reports=Reports(build=build, keep=keep, sensitivity=sensitivity)))
