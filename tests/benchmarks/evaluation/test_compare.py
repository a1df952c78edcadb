from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.evaluation.compare import compare_lines, paired
from benchmarks.evaluation.results import VERDICTS
from benchmarks.store import CONFIG
from sagc.errors import ConfigError


def test_the_interval_is_that_of_the_paired_differences() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(30), rng.random(30)
    result = paired(first.tolist(), second.tolist())
    low, high = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert result.half_width is not None
    assert result.difference - result.half_width == pytest.approx(low)
    assert result.difference + result.half_width == pytest.approx(high)
    assert result.difference == pytest.approx(second.mean() - first.mean())


def test_pairing_takes_the_difficulty_out() -> None:
    difficulty = np.linspace(0, 1, 30)
    result = paired(difficulty.tolist(), (difficulty + 0.03).tolist())
    assert result.half_width == pytest.approx(0, abs=1e-9)


def test_one_problem_has_no_interval() -> None:
    assert paired([0.0], [1.0]).half_width is None


def write(
    folder: Path, rights: dict[str, list[bool]], name: str = "toy", problems: str = "d", temperature: float = 1
) -> Path:
    folder.mkdir()
    lines = [
        {"set": name, "problem": problem, "sample": sample, "right": right, "status": "answered", "answer": "1"}
        | {"detail": "", "tokens": 10 + right, "truncated": False}
        for problem, samples in rights.items()
        for sample, right in enumerate(samples)
    ]
    (folder / VERDICTS).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    sampling = {"temperature": temperature}
    (folder / CONFIG).write_text(json.dumps({"sets": {name: {"problems": problems, "sampling": sampling}}}))
    return folder


def test_evaluations_are_compared_problem_by_problem(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"p": [True, False], "q": [False, False]})
    second = write(tmp_path / "b", {"q": [True, False, True, False], "p": [True] * 4})  # order and n may differ
    accuracy, tokens = (compare_lines(first, second)[row].split() for row in (1, 2))
    assert accuracy[:9] == ["toy", "2", "accuracy", "25.0", "%", "75.0", "%", "+50.0", "%"]
    assert tokens[4:7] == ["10.2", "10.8", "+0.5"]


def test_what_the_interval_does_not_cover_is_noted(tmp_path: Path) -> None:
    rights = {"p": [True], "q": [False]}
    first = write(tmp_path / "a", rights)
    second = write(tmp_path / "b", rights, problems="other", temperature=0.5)
    assert compare_lines(first, second)[-2:] == [
        "note: toy: problems differ, which the interval does not cover",
        "note: toy: sampling differ, which the interval does not cover",
    ]


def test_different_problems_cannot_be_compared(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"p": [True], "q": [True]})
    with pytest.raises(ConfigError, match="problems of toy must be the same, got 'q' in one of the two only"):
        compare_lines(first, write(tmp_path / "b", {"p": [True]}))
    with pytest.raises(ConfigError, match="sets must overlap, got toy and aime"):
        compare_lines(first, write(tmp_path / "c", {"p": [True]}, name="aime"))
