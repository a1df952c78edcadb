"""What the verl process tells its parent, one JSON object a line in a file; read and written here alone.

    {"kind": "started", ...}       versions, faults of verl that this run met or only names
    {"kind": "step", "record": {...}, "timing": {...}, "rows": [...]}      rows of the training file that it drew
    {"kind": "evaluation", "record": {...}, "seconds": 1.5}
    {"kind": "resumed", "step": N, "state": {...}}
    {"kind": "ended", "status": "finished", "reason": ""}

A process that dies says nothing more: the parent tells that from an end by the missing last line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EVENTS = "verl-events.jsonl"
STOP = "verl-stop"
"""A file of this name asks the process to end after the step in progress."""


class EventWriter:
    """Appends events, each flushed: the parent follows the file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, **content: Any) -> None:
        """Add one event."""
        self._file.write(json.dumps({"kind": kind, **content}, separators=(",", ":"), allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """No event comes any more."""
        self._file.close()


class EventReader:
    """Reads what has been added to the file since the last look; a line still being written is left for the next."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path, self._offset = path, start

    def new(self) -> Iterator[dict[str, Any]]:
        """Events since the last call; none while the file is not there."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                event: dict[str, Any] = json.loads(line)
                yield event
