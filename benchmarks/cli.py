"""The command line: `python -m benchmarks`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.commands import (
    Parts,
    Reports,
    archive,
    list_tables,
    log_evaluation,
    report,
    reproduce,
    run,
    sweep,
    sync_mlflow,
)
from benchmarks.engines import ENGINES, EngineFactory
from benchmarks.evaluation.cli import add_commands as add_evaluation
from benchmarks.provenance import usable_cores
from benchmarks.settings import SECTIONS, Overrides
from benchmarks.terminal import Parser, exit_code, folder
from sagc import __version__

EXAMPLES = """examples:
  python -m benchmarks list                          what there is to run
  python -m benchmarks reproduce --plan              what the reproduction would run
  python -m benchmarks reproduce --arms static_8,sagc --seeds 1
  python -m benchmarks run --task steady --algorithm grpo --arm sagc --seed 0

Ctrl-C ends the runs after the step in progress; the same command then goes on with what has not finished.
Exit code: 0 all runs finished, 1 some did not, 2 bad input (nothing was started), 130 stopped by Ctrl-C.
"""


def main(argv: Sequence[str], *, reports: Reports, engines: Mapping[str, EngineFactory] = ENGINES) -> int:
    """Run a command line.

    Args:
        argv: the arguments.
        reports: builds reports.
        engines: the table of engines.

    Returns:
        The exit code.
    """

    def command() -> int:
        arguments = parser().parse_args(argv)
        code: int = arguments.command(arguments, Parts(engines, reports))
        return code

    return exit_code(command)


def parser() -> Parser:
    """The parser of the command line."""
    root = Parser(
        prog="python -m benchmarks",
        description="Runs the experiments that test the claims about SAGC (straggler-aware group control).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"sagc {__version__}")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_list(commands)
    _add_run(commands)
    _add_reproduce(commands)
    _add_report(commands)
    _add_sweep(commands)
    _add_archive(commands)
    _add_sync(commands)
    add_evaluation(commands, log_evaluation)
    root.set_defaults(command=lambda arguments, parts: arguments.func(arguments))  # of the evaluation's commands
    return root


def _add(commands: Any, name: str, function: Callable[..., int], summary: str) -> Parser:
    command: Parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    command.set_defaults(command=function)
    return command


def _add_list(commands: Any) -> None:
    command = _add(commands, "list", list_tables, "show what can be named: arms, algorithms, tasks, engines, profiles")
    command.add_argument("table", nargs="?", help="only this table")


def _add_run(commands: Any) -> None:
    command = _add(commands, "run", run, "train one run and record it")
    command.add_argument("--task", required=True, help="a row of `list tasks`")
    command.add_argument("--algorithm", required=True, help="a row of `list algorithms`")
    command.add_argument("--arm", required=True, help="what chooses the group size: a row of `list arms`")
    command.add_argument("--seed", type=int, default=0, help="training seed (default: %(default)s)")
    command.add_argument("--engine", default="torch_cpu", help="a row of `list engines` (default: %(default)s)")
    command.add_argument(
        "--batch-policy",
        default=Overrides().batch_policy,
        help="what stays the same when G changes: fixed_rollouts or fixed_prompts (default: %(default)s)",
    )
    command.add_argument("--rollouts-per-step", type=int, metavar="N", help="rollouts of a training step")
    command.add_argument("--horizon-prompts", type=int, metavar="N", help="the run ends after N prompts and ...")
    command.add_argument("--horizon-rollouts", type=int, metavar="N", help="... N rollouts, whichever comes last")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"change a setting, e.g. controller.threshold=3; sections: {', '.join(SECTIONS)}; may be repeated",
    )
    _add_places(command)


def _add_reproduce(commands: Any) -> None:
    command = _add(commands, "reproduce", reproduce, "train every run of a profile, then build the report")
    _add_profile(command)
    command.add_argument("--seeds", type=int, metavar="N", help="seeds 0 ... N-1 instead of the profile's")
    for name in ("tasks", "algorithms", "arms"):
        command.add_argument(
            f"--{name}",
            type=_names,
            default=(),
            metavar="A,B",
            help=f"only these {name}; one that the profile does not hold is added to all that is left of it",
        )
    command.add_argument("--plan", action="store_true", help="show what would run, and run nothing")
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="compose and validate every command of an engine that starts processes, and run nothing",
    )
    _add_places(command)


def _add_report(commands: Any) -> None:
    command = _add(commands, "report", report, "build the report again from the records; nothing is trained")
    _add_profile(command)
    command.add_argument("--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="where the records are")
    command.add_argument("--out", type=Path, metavar="FOLDER", help="where to write it instead of the profile's place")


def _add_sweep(commands: Any) -> None:
    summary = "what each controller setting does, replayed on recorded rollout lengths; nothing is trained"
    command = _add(commands, "sweep", sweep, summary)
    _add_profile(command)
    command.add_argument("--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="where the records are")
    command.add_argument("--task", default="steady", help="whose runs are replayed (default: %(default)s)")
    command.add_argument("--algorithm", default="grpo", help="whose runs are replayed (default: %(default)s)")
    command.add_argument(
        "--arm", default="static_32", help="its groups must hold the largest candidate (default: %(default)s)"
    )


def _add_archive(commands: Any) -> None:
    command = _add(commands, "archive", archive, "keep a finished reproduction: report, packed records and digests")
    _add_profile(command)
    command.add_argument("--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="where the records are")
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to keep it")
    command.add_argument("--readme", type=Path, metavar="FILE", help="put the results between its markers")


def _add_sync(commands: Any) -> None:
    summary = "deliver to MLflow what it does not have yet, each step once; nothing is trained"
    command = _add(commands, "sync-mlflow", sync_mlflow, summary)
    command.add_argument("--profile", help="only the latest reproduction of this profile (default: every run)")
    command.add_argument("--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="where the records are")


def _add_profile(command: Parser) -> None:
    command.add_argument(
        "--profile", default="cpu", help="a row of `list profiles`, or your own TOML file (default: %(default)s)"
    )


def _add_places(command: Parser) -> None:
    command.add_argument(
        "--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="where records go (default: %(default)s)"
    )
    command.add_argument(
        "--jobs", type=int, default=usable_cores(), metavar="N", help="runs at a time (default: one per core)"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"must name at least one, got {text!r}; leave the option out for all")
    return names
