"""What outlives a verl process: the state file in its checkpoints, and how its run ended in MLflow. Imports no verl."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from pathlib import Path

from sagc.errors import StateError
from sagc.types import JsonDict

STATE_FILE = "sagc.json"
"""In each checkpoint folder, written before verl's own tracker file says that the checkpoint is there."""


def write_state(path: Path, state: JsonDict) -> None:
    """Write `state` so that `path` holds all of it or is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(state_text(state))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def state_text(state: JsonDict) -> str:
    """The text of a state file."""
    return json.dumps(state, indent=1, sort_keys=True, allow_nan=False) + "\n"


def read_state(path: Path) -> JsonDict:
    """The state in `path`.

    Raises:
        StateError: if it is missing or damaged.
    """
    try:
        state: JsonDict = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != 1 or not {"policy", "decision", "totals"} <= state.keys():
            raise ValueError("not the format of this version")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path} must hold the controller's state, got {error}; resume from a checkpoint that the sagc trainer "
            "wrote, or start anew with trainer.resume_mode=disable"
        ) from error
    return state


def end_as_failed(loggers: Container[str]) -> None:
    """End the MLflow run that verl opened as FAILED; verl itself ends every run as FINISHED, a crashed one too.

    Args:
        loggers: names of the trackers that verl logs to; without MLflow among them nothing is done.
    """
    if "mlflow" in loggers:
        import mlflow

        mlflow.end_run(status="FAILED")
