"""`generations.jsonl`: every completion, one line each, written batch by batch.

The requests of a run form a fixed list, cut into fixed batches. The file always holds the first batches, each
whole, so a run that was killed goes on with the first batch that is not there, and ends with the file of a run
that never was. No clock is in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, get_args

from benchmarks.evaluation.samplers import Finish
from benchmarks.store import RecordError
from benchmarks.typed import parse_json

FILE = "generations.jsonl"
MAX_TOKENS = 10**9
"""No completion is longer [ours]."""


class Key(NamedTuple):
    """Which completion a line holds."""

    set: str
    problem: str
    sample: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One line: all that scoring needs, so that neither model nor set is needed again."""

    set: str
    problem: str
    """Id of the problem."""
    sample: int
    """0 ... n - 1."""
    seed: int
    answer_type: str
    gold: str
    permutation: tuple[int, ...]
    """Order of the options, see `prompts.Question`."""
    prompt: str
    """Digest of the prompt's tokens."""
    opens_thinking: bool
    text: str
    tokens: int
    finish: Finish

    @property
    def key(self) -> Key:
        """Which completion it is."""
        return Key(self.set, self.problem, self.sample, self.seed)

    @property
    def output(self) -> str:
        """What is scored: the text with the thinking mark that the prompt has put before it."""
        return f"<think>{self.text}" if self.opens_thinking else self.text


class GenerationLog:
    """The file of one run, opened to go on with.

    Args:
        folder: the run's folder.
        batches: the run's requests, batch by batch.

    Raises:
        RecordError: if the file holds lines of another run.
    """

    def __init__(self, folder: Path, batches: Sequence[Sequence[Key]]) -> None:
        self._path = folder / FILE
        self.done = 0
        """Batches that are there whole."""
        end = 0
        lines = _complete_lines(self._path)
        for batch in batches:
            written = [next(lines, None) for _ in batch]
            if None in written:
                break
            for key, line in zip(batch, written, strict=True):
                assert line is not None
                self._expect(key, line)
            self.done += 1
            end += sum(len(line.content) + 1 for line in written if line is not None)
        if self._path.exists():
            os.truncate(self._path, end)  # the part of a batch that a killed run left behind

    def append(self, generations: Sequence[Generation]) -> None:
        """Write one batch, whole and to the disk."""
        lines = [json.dumps(asdict(line), separators=(",", ":"), allow_nan=False) + "\n" for line in generations]
        with self._path.open("ab") as file:
            file.write("".join(lines).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        self.done += 1

    def _expect(self, key: Key, line: _Line) -> None:
        found = _parse(self._path, line).key
        if found != key:
            raise RecordError(
                f"{self._path}, line {line.number} must be {key}, got {found}; move the file away: it is another run's"
            )


def read_generations(folder: Path) -> list[Generation]:
    """Every completion of a run.

    Raises:
        RecordError: if there is no file, or a line is no completion.
    """
    path = folder / FILE
    if not path.is_file():
        raise RecordError(f"{path} must be there, got nothing; name the folder that `evaluate` wrote")
    return [_parse(path, line) for line in _complete_lines(path)]


class _Line(NamedTuple):
    number: int
    content: bytes


def _complete_lines(path: Path) -> Iterator[_Line]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield _Line(number, line[:-1])


def _parse(path: Path, line: _Line) -> Generation:
    try:
        fields = parse_json(line.content)
        generation = Generation(**fields | {"permutation": tuple(fields["permutation"])})
        for name, kind in _KINDS.items():
            if not isinstance(getattr(generation, name), kind):
                raise TypeError(f"{name} is no {kind.__name__}")
        check_tokens(generation.tokens)
        if generation.finish not in get_args(Finish):
            raise ValueError(f"finish is {generation.finish!r}")
    except (TypeError, KeyError, ValueError) as error:
        raise RecordError(
            f"{path}, line {line.number} must be a completion, got {line.content[:60]!r} ({error}); remove the file"
        ) from error
    return generation


def check_tokens(tokens: int) -> None:
    """Refuse what is no length of a completion; raises ValueError."""
    if isinstance(tokens, bool) or not 0 <= tokens <= MAX_TOKENS:
        raise ValueError(f"{tokens} tokens")


_KINDS = {"set": str, "problem": str, "answer_type": str, "gold": str, "text": str, "finish": str} | {
    "sample": int,
    "seed": int,
    "tokens": int,
    "opens_thinking": bool,
}
