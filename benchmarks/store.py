"""The run folder: the only place that knows its file names and line formats.

<run_id>/config.json         the resolved RunSpec, with the task and algorithm rows it names
<run_id>/steps.jsonl         one StepRecord a line
<run_id>/timings.jsonl       one StepTiming a line
<run_id>/evaluations.jsonl   one EvaluationRecord a line
<run_id>/sittings.jsonl      where and from which step each process began that has worked on it
<run_id>/outcome.json        how it ended; missing while it runs
<run_id>/model/              the final model
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.record import EvaluationRecord, Outcome, StepRecord, StepTiming
from benchmarks.spec import RunSpec
from benchmarks.typed import from_json, parse_json
from sagc.errors import SagcError

CONFIG, STEPS, TIMINGS, EVALUATIONS, OUTCOME = (
    "config.json",
    "steps.jsonl",
    "timings.jsonl",
    "evaluations.jsonl",
    "outcome.json",
)
SITTINGS = "sittings.jsonl"
MODEL = "model"
"""Folder of a finished run's model."""
Line = TypeVar("Line", StepRecord, StepTiming, EvaluationRecord)


class RecordError(SagcError, ValueError):
    """A record file that cannot be read; the text names file, line and cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """Everything a run wrote."""

    folder: Path
    config: dict[str, Any]
    steps: list[StepRecord]
    timings: list[StepTiming]
    evaluations: list[EvaluationRecord]
    outcome: Outcome | None
    """None: the run is going on, or its process died before it could say how it ended."""

    @property
    def run_id(self) -> str:
        """The run's folder name."""
        return self.folder.name


class RunWriter:
    """Appends a run's records, one flushed line each: no death of the process loses one.

    A power failure may lose the last seconds; a run then goes on from a checkpoint whose records are there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: (folder / name).open("a", encoding="utf-8") for name in (STEPS, TIMINGS, EVALUATIONS)}

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        """One training step, as two lines of two files."""
        self._append(STEPS, record)
        self._append(TIMINGS, timing)

    def evaluation(self, record: EvaluationRecord) -> None:
        """One evaluation."""
        self._append(EVALUATIONS, record)

    def close(self) -> None:
        """Nothing more will be appended."""
        for file in self._files.values():
            file.close()

    def _append(self, name: str, record: Any) -> None:
        file = self._files[name]
        file.write(json.dumps(asdict(record), separators=(",", ":"), allow_nan=False) + "\n")
        file.flush()


def write_json(path: Path, data: Any) -> None:
    """Write `data` so that `path` holds either the old text or the whole new one."""
    write_bytes(path, (json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` so that `path` holds either the old bytes or all of the new ones."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The JSON document in `path`.

    Raises:
        RecordError: if it is missing or not JSON.
    """
    try:
        return parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{path} must be a JSON document, got {error}; delete the run folder to run it again"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """The resolved configuration of the run in `folder`.

    Raises:
        RecordError: if it is missing or no configuration of a run.
    """
    path = folder / CONFIG
    config = read_json(path)
    try:
        from_json(_Config, config)
    except ValueError as error:
        raise RecordError(
            f"{path} must be a run's configuration, got {error}; delete the run folder to run it again"
        ) from error
    found: dict[str, Any] = config
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Config:
    """What `config.json` holds; see `benchmarks.settings.resolved_config`."""

    name: str
    config_hash: str
    spec: RunSpec
    task: dict[str, Any]
    algorithm: dict[str, Any]


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """The records of a `.jsonl` file; a last line without its newline is still being written and is left out.

    Raises:
        RecordError: on a line that is not such a record.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            yield _record(path, f"line {number}", line, kind)


def read_slice(path: Path, kind: type[Line], start: int, end: int) -> list[Line]:
    """The records of lines `start` to `end` of a `.jsonl` file, or to its last whole line.

    Degenerate cases: none from a missing file, or from one that has fewer lines than `start`.

    Raises:
        RecordError: on a line that is not such a record.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        numbered = itertools.islice(enumerate(file, start=1), start, end)
        return [_record(path, f"line {number}", line, kind) for number, line in numbered if line.endswith(b"\n")]


def _record(path: Path, place: str, line: bytes, kind: type[Line]) -> Line:
    try:
        record = from_json(kind, parse_json(line))
        if isinstance(record, StepRecord | EvaluationRecord):
            record.check()
    except ValueError as error:
        raise RecordError(
            f"{path}, {place} must be a {kind.__name__}, got {line[:60]!r} ({error}); "
            "delete the run folder to run it again"
        ) from error
    return record


def cut_records(folder: Path, step: int) -> None:
    """Take a run's records back to the end of training step `step`, and its outcome away, to go on from there."""
    (folder / OUTCOME).unlink(missing_ok=True)
    for name in (STEPS, TIMINGS, EVALUATIONS):
        path = folder / name
        kept = []
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
            if not _belongs(line, step):
                break
            kept.append(line)
        write_bytes(path, b"".join(kept))


def _belongs(line: bytes, step: int) -> bool:
    """Whether a line is whole and of a step up to `step`; what a full disk has cut is neither."""
    try:
        found = parse_json(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(found, int) and found <= step


def read_run(folder: Path) -> RunData:
    """Everything that the run in `folder` has written so far.

    Raises:
        RecordError: if a file cannot be read.
    """
    return RunData(
        folder=folder,
        config=read_config(folder),
        steps=list(read_lines(folder / STEPS, StepRecord)),
        timings=list(read_lines(folder / TIMINGS, StepTiming)),
        evaluations=list(read_lines(folder / EVALUATIONS, EvaluationRecord)),
        outcome=read_outcome(folder),
    )


def check_whole(run: RunData) -> None:
    """Refuse a run that says it finished and lacks records.

    Degenerate cases: no timings at all mean that time was not measured.

    Raises:
        RecordError: naming the file and what is missing.
    """
    if run.outcome is None or run.outcome.status != "finished":
        return
    steps = list(range(1, run.outcome.steps + 1))
    timed = [record.step for record in run.timings] or steps
    for name, found in ((STEPS, [record.step for record in run.steps]), (TIMINGS, timed)):
        if found != steps:
            raise RecordError(
                f"{run.folder / name} must hold steps 1 to {run.outcome.steps} of a finished run, got {len(found)} "
                "lines; delete the run folder and run it again"
            )
    if not any(evaluation.final for evaluation in run.evaluations):
        raise RecordError(
            f"{run.folder / EVALUATIONS} must hold the final evaluation of a finished run, got "
            f"{len(run.evaluations)} lines without it; delete the run folder and run it again"
        )


def read_outcome(folder: Path) -> Outcome | None:
    """How the run in `folder` ended; None while it has not said so.

    Raises:
        RecordError: if the file cannot be read.
    """
    path = folder / OUTCOME
    if not path.exists():
        return None
    try:
        return from_json(Outcome, read_json(path))
    except RecordError:
        raise
    except ValueError as error:
        raise RecordError(f"{path} must be an outcome, got {error}; delete the run folder to run it again") from error


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write how the run in `folder` ended."""
    write_json(folder / OUTCOME, asdict(outcome))


def add_sitting(folder: Path, sitting: dict[str, Any]) -> list[dict[str, Any]]:
    """Note that a process begins to work on the run.

    Args:
        folder: of the run.
        sitting: provenance, and the training step that it goes on from.

    Returns:
        The earlier ones, in order.

    Degenerate cases: a line that cannot be read is left out; it says nothing of what the run found.
    """
    path = folder / SITTINGS
    earlier = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with suppress(ValueError):
            earlier.append(parse_json(line))
    earlier = [line for line in earlier if isinstance(line, dict)]
    write_bytes(path, b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in [*earlier, sitting]))
    return earlier


class Tail(Generic[Line]):
    """Follows a `.jsonl` file that is being written: each `read` gives the whole lines that are new.

    Degenerate cases: a missing file has no lines yet; a last line without its newline waits for the next `read`.
    """

    def __init__(self, path: Path, kind: type[Line], offset: int = 0) -> None:
        self.path = path
        self.kind: type[Line] = kind
        self.offset = offset
        """Bytes given out so far."""

    def read(self, limit: int | None = None) -> list[Line]:
        """The records that were completed since the last call.

        Args:
            limit: byte to stop at, the end of a line; None reads all there is.

        Raises:
            RecordError: on a line that is not such a record.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read() if limit is None else file.read(limit - self.offset)
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        place = f"after byte {self.offset}"
        records = [_record(self.path, place, line, self.kind) for line in whole.split(b"\n")[:-1]]
        self.offset += len(whole)
        return records
