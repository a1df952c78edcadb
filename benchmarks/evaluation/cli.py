"""The commands `evaluate`, `rescore`, `compare` and `sets`.

Each command raises `SagcError` with one line for bad input; whoever runs it prints the line and ends with code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from benchmarks.evaluation.compare import compare_lines
from benchmarks.evaluation.display import result_lines, set_lines
from benchmarks.evaluation.lock import LOCK_FILE, pin, read_lock, write_lock
from benchmarks.evaluation.pool import LIMIT_S, ScoringPool
from benchmarks.evaluation.problems import GOLD_FORMATS, LoadOptions, SetError, load_problems
from benchmarks.evaluation.protocols import PROTOCOLS, settings
from benchmarks.evaluation.results import Results, check_ks, score_folder
from benchmarks.evaluation.run import Evaluation, Part, claimed, sample_missing
from benchmarks.evaluation.samplers import BATCH_SIZES, SAMPLERS, check_engine
from benchmarks.evaluation.sets import SETS, select
from benchmarks.terminal import BAD_INPUT, FINISHED, folder
from sagc.errors import ConfigError, unknown_name

Log = Callable[[Path], None]
"""Takes the folder of a finished evaluation, to show it elsewhere."""
MAX_COMPLETIONS = 10**6
"""Of one set [ours]: all of them are planned before the first is generated."""
UNTRUSTWORTHY = 1
"""Exit code where the scorer failed too often."""


def add_commands(subparsers: Any, log: Log | None = None) -> None:
    """Add the commands to a parser; each sets `func`, from the arguments to the exit code.

    Args:
        subparsers: what `ArgumentParser.add_subparsers` returns.
        log: called with each finished evaluation; None keeps it in its folder alone.
    """
    _add_evaluate(subparsers, log)
    rescoring = _add(subparsers, "rescore", "score an evaluation again from its stored completions; needs no model")
    rescoring.add_argument("folder", type=Path, help="an evaluation's folder")
    _add_scoring(rescoring)
    rescoring.set_defaults(func=rescore)
    comparing = _add(subparsers, "compare", "two evaluations, paired by problem, with intervals")
    comparing.add_argument("first", type=Path, help="an evaluation's folder")
    comparing.add_argument("second", type=Path, help="another's")
    comparing.set_defaults(func=compare)
    listing = _add(subparsers, "sets", "every set with its rows, source, revision, licence, gate and hashes")
    listing.add_argument("--pin", action="store_true", help="fix the revisions and statements that the Hub hands out")
    listing.add_argument("--lock", type=Path, default=LOCK_FILE, metavar="FILE", help="the lock file")
    listing.set_defaults(func=sets)


def _add_evaluate(subparsers: Any, log: Log | None) -> None:
    command = _add(subparsers, "evaluate", "sample a model on evaluation sets and score it; goes on where it stopped")
    command.add_argument("--model", required=True, help="name on the Hub, folder, or .gguf file")
    command.add_argument("--revision", help="of the model on the Hub")
    command.add_argument(
        "--sets", required=True, type=_names, metavar="A,B", help="rows of `sets`, or toy for all toys"
    )
    command.add_argument("--engine", default="transformers", help="transformers or vllm (default: %(default)s)")
    command.add_argument("--data", type=Path, metavar="DIR", help="take <set>.jsonl, .json, .csv or .parquet from here")
    command.add_argument(
        "--gold-format", default="integer", metavar="F", help=f"how --data writes answers: {', '.join(GOLD_FORMATS)}"
    )
    command.add_argument("--protocol", help=f"sampling settings: {', '.join(PROTOCOLS)} (default: the set's own)")
    command.add_argument("--samples", type=int, metavar="N", help="completions per problem")
    command.add_argument("--temperature", type=float, metavar="T")
    command.add_argument("--top-p", type=float, metavar="P")
    command.add_argument("--max-tokens", type=int, metavar="N", help="most tokens of a completion")
    command.add_argument("--seed", type=int, default=0, help="of the run (default: %(default)s)")
    command.add_argument("--batch-size", type=int, metavar="N", help="completions generated and stored together")
    command.add_argument("--runs", type=folder, default=Path("runs"), metavar="FOLDER", help="(default: %(default)s)")
    _add_scoring(command)
    command.set_defaults(func=lambda arguments: evaluate(arguments, log))


def _add_scoring(command: argparse.ArgumentParser) -> None:
    command.add_argument("--k", type=_numbers, default=(), metavar="K,K", help="of pass@k and maj@k (default: 1 and n)")
    command.add_argument("--workers", type=int, metavar="N", help="scoring processes (default: one per core)")
    command.add_argument(
        "--limit-s", type=float, default=LIMIT_S, metavar="S", help="per answer (default: %(default)s)"
    )


def _add(subparsers: Any, name: str, summary: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = subparsers.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    return command


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in _names(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers, got {text!r}; write e.g. 1,4") from None


def evaluate(arguments: argparse.Namespace, log: Log | None = None) -> int:
    """Sample what is missing, score everything and show it."""
    evaluation = _planned(arguments)
    folder = arguments.runs / evaluation.eval_id
    with ScoringPool(arguments.workers, arguments.limit_s) as pool, claimed(folder, evaluation.config()):
        _sample(evaluation, folder)
        results = score_folder(folder, arguments.k, pool)
    if log is not None:
        log(folder)
    return _show(results)


def _planned(arguments: argparse.Namespace) -> Evaluation:
    """What the arguments ask for; every refusal comes before a model is loaded."""
    check_engine(arguments.engine)
    rows = select(arguments.sets)
    if not rows:
        raise ConfigError("sets must name at least one set, got none; see `sets`")
    changes = {name: getattr(arguments, name) for name in ("temperature", "top_p", "max_tokens", "samples")}
    samplings = {row.name: settings(arguments.protocol or row.protocol, **changes) for row in rows}
    for row in rows:
        check_ks(arguments.k, samplings[row.name].samples)
        if row.rows * samplings[row.name].samples > MAX_COMPLETIONS:
            raise ConfigError(
                f"samples must give at most {MAX_COMPLETIONS} completions of a set, got "
                f"{samplings[row.name].samples} for each of the {row.rows} problems of {row.name}; ask for fewer"
            )
    batch_size = BATCH_SIZES[arguments.engine] if arguments.batch_size is None else arguments.batch_size
    if not 1 <= batch_size <= MAX_COMPLETIONS:
        raise ConfigError(
            f"batch_size must be from 1 to {MAX_COMPLETIONS}, got {batch_size}; leave it out for the engine's own"
        )
    if arguments.data is not None and not arguments.data.is_dir():
        raise ConfigError(f"data must be a folder, got {str(arguments.data)!r}; it holds a file per set")
    if arguments.gold_format not in GOLD_FORMATS:
        raise unknown_name("gold_format", arguments.gold_format, GOLD_FORMATS)
    options = LoadOptions(data=arguments.data, gold_format=arguments.gold_format, lock=read_lock())
    return Evaluation(
        model=arguments.model,
        revision=arguments.revision,
        engine=arguments.engine,
        seed=arguments.seed,
        batch_size=batch_size,
        parts=[Part(row, load_problems(row, options), samplings[row.name]) for row in rows],
    )


def _sample(evaluation: Evaluation, folder: Path) -> None:
    total = sum(len(part.problems) * part.sampling.samples for part in evaluation.parts)
    with ExitStack() as shown:
        bar: Any = None

        def advance(completions: int, tokens: int) -> None:
            nonlocal bar
            if bar is None:  # only now, so that a model which cannot be loaded is one line
                bar = shown.enter_context(tqdm(total=total, initial=completions, unit="completion", dynamic_ncols=True))
            else:
                bar.set_postfix_str(f"{tokens / completions:.0f} tokens each", refresh=False)
                bar.update(completions)

        sample_missing(
            evaluation, folder, lambda: SAMPLERS[evaluation.engine](evaluation.model, evaluation.revision), advance
        )


def rescore(arguments: argparse.Namespace) -> int:
    """Score stored completions again."""
    with ScoringPool(arguments.workers, arguments.limit_s) as pool:
        return _show(score_folder(arguments.folder, arguments.k, pool))


def _show(results: Results) -> int:
    print("\n".join(result_lines(results)))
    if results.changed is not None:
        print(f"verdicts that differ from the stored ones: {results.changed}")
    print(f"records: {results.folder}")
    for line in results.warnings():
        print(line, file=sys.stderr)
    return FINISHED if results.trustworthy else UNTRUSTWORTHY


def compare(arguments: argparse.Namespace) -> int:
    """Show two evaluations side by side."""
    print("\n".join(compare_lines(arguments.first, arguments.second)))
    return FINISHED


def sets(arguments: argparse.Namespace) -> int:
    """Show the sets, and fix them first if asked to."""
    lock = read_lock(arguments.lock)
    failed: list[SetError] = []
    if arguments.pin:
        lock, failed = pin(SETS.values(), lock)
        write_lock(lock, arguments.lock)
    print("\n".join(set_lines(list(SETS.values()), lock)))
    for error in failed:
        print(f"not pinned: {' '.join(str(error).split())}", file=sys.stderr)
    return BAD_INPUT if failed else FINISHED
