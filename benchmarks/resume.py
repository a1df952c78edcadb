"""Where an interrupted run goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.checkpoint import FOLDER, FindSaved, Saved, saved_steps
from benchmarks.record import StepRecord
from benchmarks.store import CONFIG, STEPS, RecordError, cut_records, read_lines


def go_back_to_checkpoint(folder: Path, say: Callable[[str], None], find: FindSaved = saved_steps) -> Saved | None:
    """Take a run's records back to its newest whole checkpoint whose records are all there.

    Args:
        folder: of a run that has not finished; may be missing.
        say: is told what a reader should know.
        find: finds the checkpoints of the run's engine.

    Returns:
        The checkpoint; None if the run must start anew: there is none, or records from before each are lost.
    """
    if not (folder / CONFIG).exists():  # nobody knows what the rest belongs to
        return None
    recorded = _recorded_steps(folder)
    for saved in find(
        folder,
        lambda path: say(f"checkpoint {path.name} is damaged; the one before it is used, if there is one"),
    ):
        if saved.step <= recorded:
            _clear_leftovers(folder)
            cut_records(folder, saved.step)
            return saved
        say(
            f"records of some of the {saved.step} steps before checkpoint {saved.path.name} are lost; it cannot be used"
        )
    return None


def _clear_leftovers(folder: Path) -> None:
    """Take away what a killed process left half written, under the names that nobody reads."""
    for path in (*folder.glob("*.tmp"), *folder.glob(f"{FOLDER}/*.tmp"), *folder.glob(".*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _recorded_steps(folder: Path) -> int:
    """The steps on record from the first on, without a gap and up to the first line that cannot be read."""
    count = 0
    try:
        for record in read_lines(folder / STEPS, StepRecord):
            if record.step != count + 1:
                break
            count += 1
    except RecordError:
        pass
    return count
