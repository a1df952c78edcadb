"""`python -m benchmarks.evaluation`: the evaluation commands alone, without what training needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from benchmarks.evaluation.cli import BAD_INPUT, add_commands
from sagc.errors import ConfigError, SagcError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str]) -> int:
    """Run a command line; bad input is one line and code 2."""
    parser = _Parser(prog="python -m benchmarks.evaluation", description=__doc__, allow_abbrev=False)
    add_commands(parser.add_subparsers(title="commands", required=True, metavar="COMMAND"))
    try:
        arguments = parser.parse_args(argv)
        code: int = arguments.func(arguments)
    except SagcError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
