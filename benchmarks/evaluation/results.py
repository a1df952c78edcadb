"""From stored completions to verdicts, metrics and records; neither model nor set is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.evaluation.generations import Generation, check_tokens, read_generations
from benchmarks.evaluation.metrics import Sample, set_metrics
from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.protocols import Sampling
from benchmarks.evaluation.rules import Verdict
from benchmarks.record import EvaluationRecord
from benchmarks.store import CONFIG, EVALUATIONS, RecordError, read_json, write_json
from benchmarks.typed import from_json, parse_json
from sagc.errors import ConfigError

VERDICTS, METRICS = "verdicts.jsonl", "metrics.json"
MAX_ERROR_FRAC = 0.01
"""With more failures of the scorer than this share the numbers are not to be trusted [ours]."""

BySet = Mapping[str, Mapping[str, Sequence[Sample]]]
"""Set -> problem -> its samples."""
Metrics = Mapping[str, Mapping[str, float | None]]
"""Set -> name -> number; None is "not measured"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSet:
    """What `config.json` says of a set; see `Evaluation.config`."""

    rows: int
    problems: str
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What an evaluation came to."""

    folder: Path
    metrics: Metrics
    changed: int | None
    """Verdicts that differ from the stored ones; None if there were none."""
    temperature: dict[str, float]
    """Set -> temperature of its samples."""

    def warnings(self) -> list[str]:
        """What a reader should know before the numbers."""
        lines = []
        for name, numbers in self.metrics.items():
            repeats, errors = numbers["duplicate_completions"], numbers["error_frac"]
            if repeats and self.temperature[name] > 0:
                lines.append(f"warning: {name}: {repeats:.0f} completions repeat an earlier one of their problem")
            if errors and errors > MAX_ERROR_FRAC:
                lines.append(
                    f"error: {name}: the scorer failed on {errors:.1%} of the completions, more than "
                    f"{MAX_ERROR_FRAC:.0%}; see `detail` in {self.folder / VERDICTS}"
                )
        return lines

    @property
    def trustworthy(self) -> bool:
        """Whether the scorer worked."""
        return all((numbers["error_frac"] or 0) <= MAX_ERROR_FRAC for numbers in self.metrics.values())


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One line of `verdicts.jsonl`."""

    set: str
    problem: str
    sample: int
    right: bool
    status: str
    answer: str | None
    detail: str
    tokens: int
    truncated: bool


def flat(metrics: Metrics) -> dict[str, float]:
    """Everything that was measured, as ``<set>/<name>``: legal names for MLflow."""
    return {
        f"{set_name}/{name}": value
        for set_name, numbers in metrics.items()
        for name, value in numbers.items()
        if value is not None
    }


def score_folder(folder: Path, ks: Sequence[int], pool: ScoringPool) -> Results:
    """Score the completions of an evaluation and write verdicts, records and metrics.

    Args:
        folder: an evaluation's folder.
        ks: the k of pass@k and maj@k; empty for 1 and n.
        pool: scores.

    Raises:
        RecordError: if the folder holds no whole evaluation.
        ConfigError: on a k out of range.
    """
    asked, generations = read_evaluation(folder)
    verdicts = pool.score_many([(line.answer_type, line.gold, line.output) for line in generations])
    by_set: dict[str, dict[str, list[Sample]]] = {}
    for line, verdict in zip(generations, verdicts, strict=True):
        sample = Sample(verdict, line.tokens, line.finish == "length", line.text)
        by_set.setdefault(line.set, {}).setdefault(line.problem, []).append(sample)
    metrics = {
        name: set_metrics(list(problems.values()), ks or _default_ks(problems)) for name, problems in by_set.items()
    }
    lines = [_verdict_line(line, verdict) for line, verdict in zip(generations, verdicts, strict=True)]
    changed = _count_changed(folder, lines)
    _write_lines(folder / VERDICTS, [asdict(line) for line in lines])
    _write_lines(folder / EVALUATIONS, [asdict(_record(name, problems)) for name, problems in by_set.items()])
    write_json(folder / METRICS, metrics)
    temperature = {name: entry.sampling.temperature for name, entry in asked.items()}
    return Results(folder=folder, metrics=metrics, changed=changed, temperature=temperature)


def check_ks(ks: Sequence[int], samples: int) -> None:
    """Refuse a k that needs more samples than there will be.

    Raises:
        ConfigError: naming the first.
    """
    for k in ks:
        if not 1 <= k <= samples:
            raise ConfigError(
                f"k must be at least 1 and at most the {samples} samples of a problem, got {k}; see --samples"
            )


def read_evaluation(folder: Path) -> tuple[dict[str, AskedSet], list[Generation]]:
    """Sets and completions of an evaluation.

    Raises:
        RecordError: if the folder holds no whole evaluation.
    """
    if not (folder / CONFIG).is_file():
        raise RecordError(f"folder must be an evaluation's, got {str(folder)!r}; name one that `evaluate` wrote")
    asked, generations = _asked(folder), read_generations(folder)
    _check_complete(folder, asked, generations)
    return asked, generations


def read_scored(folder: Path) -> tuple[dict[str, AskedSet], list[VerdictLine]]:
    """Sets and verdicts of an evaluation, one verdict for each completion.

    Raises:
        RecordError: if the folder holds no whole evaluation, or was not scored since it was.
    """
    asked, generations = read_evaluation(folder)
    verdicts = read_verdicts(folder)
    completions = sorted((line.set, line.problem, line.sample, line.tokens) for line in generations)
    if completions != sorted((line.set, line.problem, line.sample, line.tokens) for line in verdicts):
        raise RecordError(f"{folder / VERDICTS} must hold a verdict on every completion, got others; run `rescore`")
    return asked, verdicts


def read_verdicts(folder: Path) -> list[VerdictLine]:
    """The stored verdicts of an evaluation.

    Raises:
        RecordError: if there are none, or a line is none.
    """
    path = folder / VERDICTS
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(
            f"{path} must be readable, got {error.strerror}; run `evaluate` or `rescore` first"
        ) from error
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            lines.append(from_json(VerdictLine, parse_json(line)))
            check_tokens(lines[-1].tokens)
        except ValueError as error:
            raise RecordError(f"{path}, line {number} must be a verdict, got {line[:60]!r}; run `rescore`") from error
    return lines


def _asked(folder: Path) -> dict[str, AskedSet]:
    config = read_json(folder / CONFIG)
    try:
        return {name: from_json(AskedSet, entry) for name, entry in config["sets"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"{folder / CONFIG} must be an evaluation's, got one without sets; name another folder"
        ) from error


def _check_complete(folder: Path, asked: Mapping[str, AskedSet], generations: Sequence[Generation]) -> None:
    """An evaluation that is going on has no score yet."""
    for name, entry in asked.items():
        sizes: dict[str, int] = {}
        for line in generations:
            if line.set == name:
                sizes[line.problem] = sizes.get(line.problem, 0) + 1
        planned, samples = entry.rows, entry.sampling.samples
        if len(sizes) != planned or set(sizes.values()) != {samples}:
            raise RecordError(
                f"{folder} must hold {planned} x {samples} completions of {name}, got {sum(sizes.values())}; "
                "give the `evaluate` command again, it goes on where it stopped"
            )


def _default_ks(problems: Mapping[str, Sequence[Sample]]) -> list[int]:
    return sorted({1, len(next(iter(problems.values())))})


def _verdict_line(line: Generation, verdict: Verdict) -> VerdictLine:
    return VerdictLine(
        line.set, line.problem, line.sample, *verdict, tokens=line.tokens, truncated=line.finish == "length"
    )


def _count_changed(folder: Path, lines: Sequence[VerdictLine]) -> int | None:
    if not (folder / VERDICTS).exists():
        return None
    try:
        old = {(line.set, line.problem, line.sample): line for line in read_verdicts(folder)}
    except RecordError:  # damaged: they are written anew
        return None
    return sum(old.get((line.set, line.problem, line.sample)) != line for line in lines)


def _record(name: str, problems: Mapping[str, Sequence[Sample]]) -> EvaluationRecord:
    """The set in the form of a training run's evaluations: at step 0, of a model that nobody trains here."""
    return EvaluationRecord(
        step=0,
        milestone=0,
        final=True,
        set=name,
        samples=len(next(iter(problems.values()))),
        prompts=0,
        rollouts=0,
        right=[sum(sample.verdict.right for sample in samples) for samples in problems.values()],
        output_tokens=[sum(sample.tokens for sample in samples) for samples in problems.values()],
        truncated=[sum(sample.truncated for sample in samples) for samples in problems.values()],
    )


def _write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    temporary.replace(path)
