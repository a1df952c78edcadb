"""Where an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.checkpoint import FOLDER, checkpoint_step, newest_checkpoint
from benchmarks.record import StepRecord
from benchmarks.store import STEPS, cut_records, read_lines


def go_back_to_checkpoint(folder: Path, say: Callable[[str], None]) -> Path | None:
    """Take a run's records back to its newest whole checkpoint.

    Args:
        folder: of a run that has not finished; may be missing.
        say: is told what a reader should know.

    Returns:
        The checkpoint; None if the run must start anew: there is none, or records from before it are lost.
    """
    checkpoint = newest_checkpoint(
        folder / FOLDER,
        damaged=lambda path: say(f"checkpoint {path.name} is damaged; the one before it is used, if there is one"),
    )
    if checkpoint is None:
        return None
    step = checkpoint_step(checkpoint)
    cut_records(folder, step)
    steps = [record.step for record in read_lines(folder / STEPS, StepRecord)]
    if steps != list(range(1, step + 1)):
        say(f"records of some of the {step} steps before its checkpoint are lost")
        return None
    return checkpoint
