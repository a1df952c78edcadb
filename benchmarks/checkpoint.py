"""Checkpoints of a run: each is one file, whole or not there, and never unpickled.

    <run_id>/checkpoints/<step>.<first 16 hex digits of its sha256>.safetensors

Tensors are safetensors entries and everything else is JSON in the header. A new file is written under a temporary
name, flushed and renamed before an older one goes; the digest in the name tells a damaged file from a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from benchmarks.typed import parse_json
from sagc.errors import SagcError

FOLDER = "checkpoints"
"""Where they stand in a run's folder; gone once the run has finished."""
KEPT = 2
"""Whole checkpoints that stay: the newest, and the one before it in case the newest is damaged."""
_STATE = "state"


class CheckpointError(SagcError, ValueError):
    """A checkpoint that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run at the end of a training step."""

    step: int
    arrays: Mapping[str, NDArray[Any]]
    """Weights and optimizer state."""
    state: dict[str, Any]
    """Counters and policy state, JSON."""


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Add a checkpoint to `folder` and drop all but the newest two.

    Returns:
        The new file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.asarray(array, order="C") for name, array in checkpoint.arrays.items()}
    data = save(arrays, metadata={_STATE: json.dumps(checkpoint.state, sort_keys=True, allow_nan=False)})
    path = folder / f"{checkpoint.step:08d}.{_digest(data)}.safetensors"
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(folder)
    for old in _files(folder)[KEPT:]:
        old.unlink()
    return path


class Saved(NamedTuple):
    """A checkpoint that a run can go on from."""

    step: int
    """Training steps that the run had done."""
    path: Path


FindSaved = Callable[[Path, Callable[[Path], None]], Iterator[Saved]]
"""(folder of a run, told of every damaged checkpoint) -> the whole ones, newest first."""


def saved_steps(folder: Path, damaged: Callable[[Path], None]) -> Iterator[Saved]:
    """The whole checkpoints of a run, newest first.

    Args:
        folder: of the run.
        damaged: told of every file that is passed over because its content does not match its name.
    """
    for path in _files(folder / FOLDER):
        if _digest(path.read_bytes()) == path.name.split(".")[1]:
            yield Saved(checkpoint_step(path), path)
        else:
            damaged(path)


def checkpoint_step(path: Path) -> int:
    """Training steps that a checkpoint's run had done, from its name."""
    return int(path.name.split(".")[0])


def read_checkpoint(path: Path) -> Checkpoint:
    """What `write_checkpoint` wrote.

    Raises:
        CheckpointError: if the file holds something else.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            state = parse_json(file.metadata()[_STATE])
            arrays = {name: file.get_tensor(name) for name in file.offset_keys()}
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint must be one that a run wrote, got {str(path)!r} ({error}); delete it to use the one before it"
        ) from error
    return Checkpoint(step=checkpoint_step(path), arrays=arrays, state=state)


def _files(folder: Path) -> list[Path]:
    """Newest first; temporary files of a killed writer are not among them."""
    return sorted(folder.glob("[0-9]*.*.safetensors"), reverse=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
