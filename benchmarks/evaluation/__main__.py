"""`python -m benchmarks.evaluation`: the evaluation commands alone, without what training needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.evaluation.cli import add_commands
from benchmarks.terminal import Parser, exit_code


def main(argv: Sequence[str]) -> int:
    """Run a command line."""
    parser = Parser(prog="python -m benchmarks.evaluation", description=__doc__, allow_abbrev=False)
    add_commands(parser.add_subparsers(title="commands", required=True, metavar="COMMAND"))

    def command() -> int:
        arguments = parser.parse_args(argv)
        code: int = arguments.func(arguments)
        return code

    return exit_code(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
