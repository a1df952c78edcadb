"""Training and evaluation rows in the form that verl's data set reads, written as parquet.

    python -m benchmarks.engines.verl.data steady --seed 0 --prompts 4096 --held-out 64 --out DIR
    python -m benchmarks.engines.verl.data evaluation --out data/evaluation
    python -m benchmarks.engines.verl.data dapo_math --source DAPO-Math-17k.parquet --out data/dapo_math

A row has `data_source`, `prompt` (chat messages), `reward_model.ground_truth` and `extra_info`.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.protocol import Prompt
from benchmarks.engines.verl.rewards import ANSWER_TYPE
from benchmarks.evaluation.problems import LoadOptions, load_problems
from benchmarks.evaluation.prompts import BOXED, ask
from benchmarks.evaluation.sets import select
from benchmarks.store import write_json
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import ChainTask, decode
from sagc.errors import ConfigError, unknown_name

TRAIN, HELD_OUT, COUNTS = "train.parquet", "held_out.parquet", "counts.json"
DAPO_MATH, EVALUATION = "dapo_math", "evaluation"
PERMUTATION_SEED = 0
"""Of the options of multiple choice: one order throughout training, so that evaluations can be compared."""
FIVE_SETS = ("aime_2023", "aime_2024", "aime_2025", "amc_2023_40", "gpqa_diamond")
"""What training is evaluated on, and decontaminated against."""
NGRAM = 8
"""Words in a row that two statements must share to count as the same problem (as open-r1 does)."""
_ANSWER_FORM = re.compile(
    r"^Solve the following math problem step by step\..*?\n\n(?P<statement>.*)\n\n"
    r'Remember to put your answer on its own line after "Answer:"\.?\s*$',
    re.DOTALL,
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningCounts:
    """What became of the rows of a training set."""

    read: int
    duplicates: int
    """Rows whose statement stands earlier in the set."""
    contaminated: int
    """Statements that an evaluation set holds, or that share `NGRAM` words in a row with one."""
    unreadable: int
    """Rows whose gold is no integer."""
    kept: int


def chain_rows(task: ChainTask, seed: int, count: int) -> list[Row]:
    """The first `count` prompts of the seed's training stream.

    Raises:
        ConfigError: for a task whose prompts depend on how far a run is: a file cannot hold them.
    """
    if task.first_steps != task.last_steps:
        raise ConfigError(
            f"task must have the same prompts throughout a run, got {task.name!r}, whose prompts drift; "
            "verl reads them from a file: use the task steady, or another engine"
        )
    return [_chain_row(task, task.training_prompt(seed, index, 0.0), "train") for index in range(count)]


def held_out_rows(task: ChainTask, count: int) -> list[Row]:
    """The first `count` held-out problems."""
    return [_chain_row(task, prompt, "held_out") for prompt in task.held_out(count)]


def _chain_row(task: ChainTask, prompt: Prompt, split: str) -> Row:
    text = " ".join(decode(prompt.tokens))
    return row(task.name, text, str(prompt.answer), index=prompt.index, split=split, answer_type="chain")


def row(data_source: str, text: str, gold: str, *, index: int, split: str, answer_type: str) -> Row:
    """One row of a data set.

    Args:
        data_source: name of the set; decides how an answer is verified.
        text: what the user says.
        gold: the right answer.
        index: place of the row in its set.
        split: ``train`` or the name of an evaluation set.
        answer_type: a row of `benchmarks.evaluation.scoring.ANSWER_TYPES`, or ``chain``.
    """
    return {
        "data_source": data_source,
        "prompt": [{"role": "user", "content": text}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": gold},
        "extra_info": {"index": index, "split": split, ANSWER_TYPE: answer_type},
    }


def clean(rows: Iterable[Mapping[str, Any]], against: Iterable[str]) -> tuple[list[Row], CleaningCounts]:
    """De-duplicate and decontaminate DAPO-Math-17k, whose every problem stands there about a hundred times.

    The instruction that is baked into its prompts ("Answer: $Answer") is replaced by the boxed one, which is what
    the scorer reads.

    Args:
        rows: with `prompt` (messages) and `reward_model.ground_truth`, as published.
        against: statements of the evaluation sets.

    Returns:
        The rows kept, in their first order, and the counts; these add up to the rows read.
    """
    exact, ngrams = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for statement in against:
        evaluated = normal_words(statement)
        exact.add(tuple(evaluated))
        ngrams.update(_ngrams(evaluated))
    seen: set[tuple[str, ...]] = set()
    kept: list[Row] = []
    read = duplicates = contaminated = unreadable = 0
    for raw in rows:
        read += 1
        statement = bare_statement(raw["prompt"][-1]["content"])
        words = tuple(normal_words(statement))
        gold = str(raw["reward_model"]["ground_truth"]).strip()
        if words in seen:
            duplicates += 1
        elif words in exact or not ngrams.isdisjoint(_ngrams(words)):
            contaminated += 1
        elif not re.fullmatch(r"-?\d+", gold):
            unreadable += 1
        else:
            text = f"{statement}\n\n{BOXED}"
            kept.append(row(DAPO_MATH, text, gold, index=len(kept), split="train", answer_type="integer"))
        seen.add(words)
    counts = CleaningCounts(
        read=read, duplicates=duplicates, contaminated=contaminated, unreadable=unreadable, kept=len(kept)
    )
    return kept, counts


def bare_statement(text: str) -> str:
    """The problem without the instruction that DAPO-Math-17k wraps around it; other text stays as it is."""
    match = _ANSWER_FORM.match(text)
    return (match["statement"] if match else text).strip()


def normal_words(statement: str) -> list[str]:
    """The words by which two copies of a problem are told to be one: letters and digits, no case, no layout."""
    text = unicodedata.normalize("NFKC", statement).lower()
    return re.findall(r"[^\W_]+", text)


def _ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + NGRAM]) for start in range(len(words) - NGRAM + 1))


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write `rows` as parquet, whole or not at all.

    Raises:
        ConfigError: if there are none.
    """
    import pyarrow as pa  # a second of imports; and only the preparation of data needs it
    import pyarrow.parquet as pq

    if not rows:
        raise ConfigError(f"{path.name} must have rows, got none; check where the data come from")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(list(rows)), temporary)
    temporary.replace(path)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a parquet or jsonl file, a batch at a time: the published training set has 1.8 million.

    Raises:
        ConfigError: if it is neither.
    """
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    else:
        raise ConfigError(f"data must be a .parquet or .jsonl file, got {str(path)!r}; convert it")


def prepare_chain(task_name: str, seed: int, prompts: int, held_out: int, folder: Path) -> None:
    """Write a tiny task's training stream and held-out problems to `folder`."""
    if task_name not in TASKS:
        raise unknown_name("task", task_name, TASKS)
    task = TASKS[task_name]
    write_rows(folder / TRAIN, chain_rows(task, seed, prompts))
    write_rows(folder / HELD_OUT, held_out_rows(task, held_out))


def prepare_evaluation(names: Sequence[str], options: LoadOptions, folder: Path) -> None:
    """Write evaluation sets to `folder`, a file each, with the prompts of `benchmarks evaluate`.

    Raises:
        ConfigError, SetError: on an unknown set, or one that cannot be loaded or is not what it should be.
    """
    for chosen in select(names):
        questions = [ask(chosen, problem, PERMUTATION_SEED) for problem in load_problems(chosen, options)]
        rows = [
            row(chosen.name, asked.text, asked.gold, index=index, split="evaluation", answer_type=chosen.answer_type)
            for index, asked in enumerate(questions)
        ]
        write_rows(folder / f"{chosen.name}.parquet", rows)


def prepare_dapo_math(source: Path, against: Mapping[str, Sequence[str]], folder: Path) -> CleaningCounts:
    """Write the cleaned training set to `folder`, with its counts.

    Args:
        source: DAPO-Math-17k as published (parquet or jsonl).
        against: evaluation set -> its statements.
        folder: where to.
    """
    rows, counts = clean(read_rows(source), [text for statements in against.values() for text in statements])
    write_rows(folder / TRAIN, rows)
    sizes = {name: len(statements) for name, statements in against.items()}
    write_json(folder / COUNTS, {**asdict(counts), "decontaminated_against": sizes})
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: see the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines.verl.data", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in TASKS:
        chain = commands.add_parser(name, help=TASKS[name].summary)
        chain.add_argument("--seed", type=int, default=0)
        chain.add_argument("--prompts", type=int, default=8192)
        chain.add_argument("--held-out", type=int, default=256)
        chain.add_argument("--out", type=Path, required=True)
    for name, what in ((EVALUATION, "evaluation sets"), (DAPO_MATH, "DAPO-Math-17k, cleaned")):
        questions = commands.add_parser(name, help=what)
        questions.add_argument("--sets", default=",".join(FIVE_SETS), help="evaluation sets (default: %(default)s)")
        questions.add_argument("--data", type=Path, help="a folder with a file per set, instead of the Hub")
        questions.add_argument("--gold-format", default="integer", help="how the files in --data write integers")
        questions.add_argument("--out", type=Path, required=True)
        if name == DAPO_MATH:
            questions.add_argument("--source", type=Path, required=True, help="the published set, parquet or jsonl")
    given = parser.parse_args(arguments)
    if given.what in TASKS:
        prepare_chain(given.what, given.seed, given.prompts, given.held_out, given.out)
        return
    names, options = given.sets.split(","), LoadOptions(data=given.data, gold_format=given.gold_format)
    if given.what == EVALUATION:
        prepare_evaluation(names, options, given.out)
        return
    against = {item.name: [p.statement for p in load_problems(item, options)] for item in select(names)}
    print(json.dumps(asdict(prepare_dapo_math(given.source, against, given.out))))


if __name__ == "__main__":
    main()
