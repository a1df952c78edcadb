from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from benchmarks.store import OUTCOME
from reports.figures import CONTROL, QUALITY, draw
from reports.runs import load
from tests.reports.records import World, plan, write

WORLD = World(arms=("static_8", "sagc"), algorithms=("grpo",))


def pictures(folders: list[Path], world: World, out: Path) -> dict[str, np.ndarray]:
    out.mkdir()
    return {name: imread(out / name) for name, _ in draw(load(folders, plan(world)).comparisons, out)}


def test_figures_show_the_records(tmp_path: Path) -> None:
    base = pictures(write(tmp_path / "base", WORLD), WORLD, tmp_path / "a")
    better = replace(WORLD, accuracy={"sagc": 0.7})
    other = pictures(write(tmp_path / "better", better), better, tmp_path / "b")
    assert np.array_equal(base[CONTROL], other[CONTROL])  # accuracy is not in it
    assert not np.array_equal(base[QUALITY], other[QUALITY])


def test_figures_grow_with_the_comparisons(tmp_path: Path) -> None:
    both = replace(WORLD, algorithms=("grpo", "dapo"))
    one = pictures(write(tmp_path / "one", WORLD), WORLD, tmp_path / "a")
    two = pictures(write(tmp_path / "two", both), both, tmp_path / "b")
    assert two[QUALITY].shape[1] > one[QUALITY].shape[1]
    assert two[QUALITY].shape[0] == one[QUALITY].shape[0]


@pytest.mark.parametrize("left", [0, 1])
def test_a_comparison_without_finished_runs_keeps_its_panel(tmp_path: Path, left: int) -> None:
    folders = write(tmp_path / "runs", WORLD)[: 3 * left]  # nothing at all, or one arm that did not finish
    for folder in folders:
        (folder / OUTCOME).unlink()
    assert set(pictures(folders, WORLD, tmp_path / "out")) == {CONTROL, QUALITY}
