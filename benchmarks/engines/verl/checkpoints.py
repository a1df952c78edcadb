"""verl's own checkpoints, as far as the suite must know them.

<run_id>/checkpoints/latest_checkpointed_iteration.txt   training step of the newest whole one, written last
<run_id>/checkpoints/global_step_<N>/sagc.json           the controller's state, beside weights and optimizer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.checkpoint import FOLDER, Saved
from sagc.integrations.verl_state import STATE_FILE

TRACKER = "latest_checkpointed_iteration.txt"


def checkpointed_step(checkpoints: Path) -> int:
    """The training step of the newest checkpoint; 0 without one, or if verl's tracker file is no number."""
    tracker = checkpoints / TRACKER
    text = tracker.read_text(encoding="utf-8", errors="replace").strip() if tracker.exists() else ""
    return int(text) if text.isascii() and text.isdigit() else 0


def saved_steps(folder: Path, damaged: Callable[[Path], None]) -> Iterator[Saved]:
    """The checkpoint that verl would go on from, if it is there: verl looks at no other.

    Args:
        folder: of the run.
        damaged: told of a checkpoint that lacks its state. Of the tensors verl keeps no digest: one that cannot be
            read ends the run as failed, in verl's own words.
    """
    checkpoints = folder / FOLDER
    step = checkpointed_step(checkpoints)
    if not step:
        return
    newest = checkpoints / f"global_step_{step}"
    if (newest / STATE_FILE).is_file():
        yield Saved(step, checkpoints)
    else:
        damaged(newest)
