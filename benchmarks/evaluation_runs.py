"""Evaluations in MLflow: each is one run there, however often it is shown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.evaluation.results import METRICS, flat
from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import Value
from benchmarks.store import CONFIG, read_json

if TYPE_CHECKING:
    from benchmarks.tracking import Tracker

EXPERIMENT = "sagc-evaluations"
"""The MLflow experiment of evaluations."""
TAG = "sagc.evaluation"
"""Tag with the `eval_id`."""


def show(folder: RunsFolder, evaluations: Sequence[Path]) -> str | None:
    """Show finished evaluations in MLflow, over what it has of them already.

    Returns:
        None, or what MLflow said against it: an evaluation is never lost to a store that is away.
    """
    try:
        tracker = _connect(folder)
        for evaluation in evaluations:
            _show(tracker, evaluation)
    except Exception as error:  # whatever MLflow raises, the folders hold the same
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return (
            f"MLflow did not take every evaluation ({reason[:200]}); `python -m benchmarks sync-mlflow` delivers them"
        )
    return None


def undelivered(folder: RunsFolder) -> Iterator[Path]:
    """The finished evaluations that MLflow does not hold; raises whatever MLflow does."""
    finished = [evaluation for evaluation in folder.evaluations() if (evaluation / METRICS).exists()]
    if finished:
        tracker = _connect(folder)
        yield from (evaluation for evaluation in finished if not tracker.has_closed(TAG, evaluation.name))


def _connect(folder: RunsFolder) -> Tracker:
    from benchmarks import tracking  # MLflow takes seconds to import

    tracking.drop_ignored(os.environ)
    return tracking.connect(folder, EXPERIMENT)


def _show(tracker: Tracker, evaluation: Path) -> None:
    from benchmarks import tracking

    config, metrics = read_json(evaluation / CONFIG), read_json(evaluation / METRICS)
    tags = {"sagc.kind": "evaluation", TAG: evaluation.name}
    run = tracker.find(TAG, evaluation.name) or tracker.open_run(evaluation.name, tags, None)
    tracker.params(run, {name: str(config[name]) for name in ("model", "engine", "seed")})
    tracker.log(run, [Value(key, value, 0) for key, value in flat(metrics).items()], int(time.time() * 1000))
    tracker.close(run, tracking.mlflow_status("finished"))
