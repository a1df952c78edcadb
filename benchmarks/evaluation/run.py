"""One evaluation: what is asked of which model, and the sampling of what is not there yet.

    <eval_id>/config.json         everything that the completions depend on
    <eval_id>/generations.jsonl   one completion a line, see `generations`
    <eval_id>/verdicts.jsonl      one verdict a line, in the same order     \
    <eval_id>/evaluations.jsonl   one `EvaluationRecord` per set             } see `results`; `rescore` writes them anew
    <eval_id>/metrics.json        every number                              /
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.evaluation.generations import FILE, Generation, GenerationLog, Key
from benchmarks.evaluation.problems import EvaluationSet, Problem
from benchmarks.evaluation.prompts import Prompt, Question, ask
from benchmarks.evaluation.protocols import Sampling, sample_seed
from benchmarks.evaluation.samplers import Request, Sampler
from benchmarks.runs_folder import EVALUATION
from benchmarks.store import CONFIG, MODEL, write_json
from sagc.errors import ConfigError

_EDGE_BYTES = 2**20


class Part(NamedTuple):
    """One set of an evaluation."""

    row: EvaluationSet
    problems: Sequence[Problem]
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What is asked of a model."""

    model: str
    revision: str | None
    engine: str
    seed: int
    batch_size: int
    parts: Sequence[Part]

    def config(self) -> dict[str, Any]:
        """Everything that the completions depend on, as JSON."""
        return {
            "model": self.model,
            "model_files": fingerprint(Path(self.model)),
            "revision": self.revision,
            "engine": self.engine,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "sets": {
                part.row.name: {
                    "rows": len(part.problems),
                    "problems": _digest([part.row.examples, part.row.prompt, *part.problems]),
                    "sampling": asdict(part.sampling),
                }
                for part in self.parts
            },
        }

    @property
    def eval_id(self) -> str:
        """The folder's name: readable, and different whenever a completion could differ."""
        path = Path(self.model)
        stem = path.parent.name if path.name == MODEL else path.name  # the final model of a run goes by the run
        config = self.config()
        if config["model_files"] is not None:  # its files say what it is, wherever they lie
            del config["model"], config["revision"]
        return f"{EVALUATION}{stem or MODEL}-s{self.seed}-{_digest(config)[:8]}"

    def batches(self) -> Iterator[tuple[Part, list[Item]]]:
        """The fixed partition of all completions, by problem and sample; no batch crosses sets."""
        for part in self.parts:
            items = self._items(part)
            while batch := list(islice(items, self.batch_size)):
                yield part, batch

    def _items(self, part: Part) -> Iterator[Item]:
        for problem in part.problems:
            question = ask(part.row, problem, self.seed)
            for sample in range(part.sampling.samples):
                seed = sample_seed(self.seed, part.row.name, problem.id, sample)
                yield Item(Key(part.row.name, problem.id, sample, seed), question)


class Item(NamedTuple):
    """One completion to be had."""

    key: Key
    question: Question


def sample_missing(
    evaluation: Evaluation,
    folder: Path,
    make_sampler: Callable[[], Sampler],
    progress: Callable[[int, int], None] = lambda completions, tokens: None,
) -> int:
    """Generate the batches that the folder does not hold yet; a whole folder needs no model.

    Args:
        evaluation: what is asked.
        folder: the evaluation's own folder.
        make_sampler: loads the model.
        progress: called with the completions and tokens that came since the last call; first, once the model is
            loaded, with the completions that were there before and no tokens.

    Returns:
        Completions that were generated now.

    Raises:
        ConfigError: if a prompt and its completion do not fit the model's window, before anything is generated.
        RecordError: if the folder holds another evaluation's completions.
    """
    batches = list(evaluation.batches())
    log = GenerationLog(folder, [[item.key for item in items] for _, items in batches])
    there, missing = batches[: log.done], batches[log.done :]
    if not missing:
        return 0
    sampler = make_sampler()
    prompts = {
        (part.row.name, item.key.problem): sampler.encode((*part.row.examples, item.question.text))
        for part, items in missing
        for item in items
        if item.key.sample == 0 or item is items[0]
    }
    for part in evaluation.parts:
        _check_window(part, [prompt for (name, _), prompt in prompts.items() if name == part.row.name], sampler.window)
    progress(sum(len(items) for _, items in there), 0)
    for part, items in missing:
        asked = [prompts[part.row.name, item.key.problem] for item in items]
        generations = _generate(sampler, part, items, asked)
        log.append(generations)
        progress(len(items), sum(generation.tokens for generation in generations))
    return sum(len(items) for _, items in missing)


def _generate(sampler: Sampler, part: Part, items: Sequence[Item], prompts: Sequence[Prompt]) -> list[Generation]:
    requests = [Request(prompt.token_ids, item.key.seed) for prompt, item in zip(prompts, items, strict=True)]
    completions = sampler.complete(requests, part.sampling)
    return [
        Generation(
            **item.key._asdict(),
            answer_type=part.row.answer_type,
            gold=item.question.gold,
            permutation=item.question.permutation,
            prompt=prompt.digest,
            opens_thinking=prompt.opens_thinking,
            text=completion.text,
            tokens=completion.tokens,
            finish=completion.finish,
        )
        for item, prompt, completion in zip(items, prompts, completions, strict=True)
    ]


def _check_window(part: Part, prompts: Sequence[Prompt], window: int) -> None:
    """A prompt is never cut, and a completion never shorter than the protocol says."""
    room = window - max((len(prompt.token_ids) for prompt in prompts), default=0)
    if part.sampling.max_tokens > room:
        raise ConfigError(
            f"max_tokens must be at most {max(room, 0)} for {part.row.name} (the model's window of {window} less "
            f"the longest prompt), got {part.sampling.max_tokens}; pass --max-tokens"
        )


@contextmanager
def claimed(folder: Path, config: dict[str, Any]) -> Iterator[None]:
    """The folder, made if need be and held against other processes.

    Raises:
        ConfigError: if it cannot be written, or another process works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise ConfigError(
            f"runs must be a folder that can be written, got {str(folder.parent)!r} ({error.strerror}); pass --runs"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"eval_id must be free, got {folder.name!r} with another process in it; wait until it ends"
            ) from None
        write_json(folder / CONFIG, config)
        try:
            yield
        finally:
            if not (folder / FILE).exists():  # refused before anything was generated: leave no trace
                for name in (CONFIG, ".lock"):
                    (folder / name).unlink()
                with suppress(OSError):  # the user's own files are in it
                    folder.rmdir()


def fingerprint(model: Path) -> str | None:
    """16 hex digits over a local model's files; None for a name on the Hub.

    Of a large file only size, beginning and end are read, which is where a retrained model differs too.
    """
    files = sorted(path for path in model.rglob("*") if path.is_file()) if model.is_dir() else [model]
    if not all(path.exists() for path in files):
        return None
    return _digest([(path.name, path.stat().st_size, _edges(path)) for path in files])


def _edges(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_EDGE_BYTES)
        file.seek(max(path.stat().st_size - _EDGE_BYTES, 0))
        return hashlib.sha256(head + file.read(_EDGE_BYTES)).hexdigest()


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
