"""What MLflow is shown of a run: numbers, tags and parameters, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.metrics import Metrics, evaluation_metrics, sendable, step_metrics, timing_metrics
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.store import EVALUATIONS, STEPS, TIMINGS, read_slice

LONGEST_PARAM = 250
"""Characters of a setting shown as a parameter: MLflow cuts long ones, so they stand in config.json alone."""
BATCH_LINES = 100
"""Most lines of a file that are sent at a time [ours]: what piles up while MLflow is away stays in the files."""
FILES: dict[str, type[StepRecord] | type[StepTiming] | type[EvaluationRecord]] = {
    STEPS: StepRecord,
    TIMINGS: StepTiming,
    EVALUATIONS: EvaluationRecord,
}


class Value(NamedTuple):
    """One number of one metric."""

    key: str
    value: float
    step: int


def read_values(
    folder: Path, start: dict[str, int], end: dict[str, int] | None
) -> tuple[list[Value], dict[str, int], list[str]]:
    """The metrics of the records between two places in a run's files.

    Args:
        folder: the run.
        start: lines of each file to skip.
        end: line of each file to stop at; None: the last whole one, `BATCH_LINES` lines on at most.

    Returns:
        The values, the line of each file that was read up to, and the key of every number that MLflow cannot hold.
    """
    values: list[Value] = []
    upto: dict[str, int] = {}
    refused: list[str] = []
    for name, kind in FILES.items():
        stop = start[name] + BATCH_LINES if end is None else end[name]
        records: list[Any] = read_slice(folder / name, kind, start[name], stop)
        for record in records:
            good, bad = sendable(record_metrics(record))
            values += [Value(key, value, record.step) for key, value in good.items()]
            refused += bad
        upto[name] = start[name] + len(records)
    return values, upto, refused


def record_metrics(record: StepRecord | StepTiming | EvaluationRecord) -> Metrics:
    """The metrics of one line of any record file."""
    if isinstance(record, StepRecord):
        return step_metrics(record)
    return timing_metrics(record) if isinstance(record, StepTiming) else evaluation_metrics(record)


def run_tags(run_id: str, config: dict[str, Any]) -> dict[str, str]:
    """What a run can be found by in MLflow."""
    spec = config["spec"]
    names = ("task", "algorithm", "arm", "engine", "seed", "batch_policy")
    return {
        "sagc.kind": "run",
        "sagc.run_id": run_id,
        "sagc.config_hash": config["config_hash"],
        **{f"sagc.{name}": str(spec[name]) for name in names},
    }


def run_params(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """The settings that are short enough to show as parameters; all of them stand in config.json."""
    params: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            params |= run_params(value, f"{prefix}{key}.")
        elif key != "schedule" and value is not None and len(str(value)) <= LONGEST_PARAM:
            params[prefix + key] = str(value)
    return params
