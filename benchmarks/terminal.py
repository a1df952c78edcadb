"""What every command line of the suite does alike: one line for what went wrong, and its exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from sagc.errors import ConfigError, SagcError

FINISHED, NOT_ALL_FINISHED, BAD_INPUT, STOPPED = 0, 1, 2, 130
"""Exit codes of a command."""
BROKEN_PIPE = 141
"""Exit code of a command whose reader has gone: 128 + SIGPIPE, as the shell's own tools."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error of the suite."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ConfigError(f"{message}; see `{self.prog} --help`")


def folder(text: str) -> Path:
    """The type of an option that names the runs folder."""
    if not text:
        raise argparse.ArgumentTypeError("must be a folder, got ''; leave the option out for runs")
    return Path(text)


def exit_code(command: Callable[[], int]) -> int:
    """Run a command; what the user can mend is one line on standard error."""
    try:
        code = command()
        if sys.stdout is not None:  # closed by the shell
            sys.stdout.flush()
    except SagcError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # whoever read our output, `head` say, has seen enough
        _silence()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _silence()
            place = "standard output and the disk" if error.filename is None else repr(error.filename)
            print(f"error: {place} must have room, got {error.strerror}; free some and go on", file=sys.stderr)
            return NOT_ALL_FINISHED
        if error.filename is None:
            raise
        print(f"error: {error.filename!r} must be usable, got {error.strerror}; name another", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:  # training counts it instead; this is an evaluation or a report
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return STOPPED
    return code


def _silence() -> None:
    """Nobody takes our output: what is left of it must not fail once more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
