"""The warm start: its cache, its stop rule, its bytes and, slowly, its accuracy."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engines.torch_cpu.export import read_model
from benchmarks.engines.torch_cpu.warm_start import (
    MODEL,
    SUMMARY,
    TIMINGS,
    WarmStartError,
    WarmStartSettings,
    warm_start,
    warm_start_name,
)
from benchmarks.tasks.modular_chain import GROWING, STEADY
from sagc.errors import ConfigError

TINY = WarmStartSettings(target_accuracy=0.0, check_every=2, max_steps=2, check_problems=8, held_out_problems=8)
"""Two optimizer steps and no demand on accuracy."""
IN_A_PROCESS = f"""
import sys
from pathlib import Path
from benchmarks.engines.torch_cpu.warm_start import WarmStartSettings, warm_start
print(warm_start("steady", Path(sys.argv[1]), settings={TINY!r}))
"""
ROOT = Path(__file__).parents[4]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != TIMINGS}


def start_process(cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", IN_A_PROCESS, str(cache)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_a_warm_start_is_a_readable_model_with_its_numbers(tmp_path: Path) -> None:
    checks: list[tuple[int, float]] = []
    folder = warm_start("growing", tmp_path, lambda step, accuracy: checks.append((step, accuracy)), TINY)
    assert folder == tmp_path / warm_start_name(GROWING, TINY)
    assert read_model(folder).config == MODEL
    summary = json.loads((folder / SUMMARY).read_text())
    assert [(check["step"], check["accuracy"]) for check in summary["checks"]] == checks
    assert summary["steps_taken"] == 2
    assert 0 <= summary["sampled_accuracy"] <= 1
    assert 0 <= summary["greedy_accuracy"] <= 1
    assert json.loads((folder / TIMINGS).read_text())["cpu_s"] > 0


def test_a_cached_warm_start_is_not_built_again(tmp_path: Path) -> None:
    folder = warm_start("steady", tmp_path, settings=TINY)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    checks: list[int] = []
    assert warm_start("steady", tmp_path, lambda step, accuracy: checks.append(step), TINY) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert not checks


def test_the_name_changes_with_every_setting_and_with_the_task() -> None:
    names = {
        warm_start_name(STEADY),
        warm_start_name(GROWING),
        warm_start_name(STEADY, replace(WarmStartSettings(), seed=1)),
        warm_start_name(STEADY, replace(WarmStartSettings(), recipe=2)),
        warm_start_name(STEADY, replace(WarmStartSettings(), betas=(0.9, 0.99))),
        warm_start_name(replace(STEADY, response_cap=111)),
        warm_start_name(replace(STEADY, demonstrator=replace(STEADY.demonstrator, error=0.2))),
    }
    assert len(names) == 7


def test_two_processes_at_once_build_the_bytes_that_one_builds(tmp_path: Path) -> None:
    processes = [start_process(tmp_path / "shared") for _ in range(2)]
    alone = warm_start("steady", tmp_path / "alone", settings=TINY)
    folders = [Path(process.communicate(timeout=120)[0].strip()) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert folders[0] == folders[1]
    assert files(folders[0]) == files(alone)
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {alone.name, alone.name + ".lock"}


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    first = warm_start("steady", tmp_path, settings=TINY)
    second = warm_start("steady", tmp_path, settings=replace(TINY, seed=1))
    assert (first / "model.safetensors").read_bytes() != (second / "model.safetensors").read_bytes()


def test_what_a_cut_short_build_left_is_cleared_away(tmp_path: Path) -> None:
    unfinished = tmp_path / (warm_start_name(STEADY, TINY) + ".unfinished")
    unfinished.mkdir()
    (unfinished / "half.safetensors").write_bytes(b"half")
    folder = warm_start("steady", tmp_path, settings=TINY)
    assert not unfinished.exists()
    assert not (folder / "half.safetensors").exists()


def test_an_accuracy_out_of_reach_is_one_clear_error_and_leaves_no_model(tmp_path: Path) -> None:
    with pytest.raises(WarmStartError, match=r"'steady' must be at least 0\.9 within 2 steps, got 0\.0"):
        warm_start("steady", tmp_path, settings=replace(TINY, target_accuracy=0.9))
    assert all(path.suffix == ".lock" for path in tmp_path.iterdir())


def test_an_unknown_task_offers_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'steady'"):
        warm_start("stedy", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
