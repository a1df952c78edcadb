from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.evaluation.compare import compare_lines, paired
from benchmarks.evaluation.generations import FILE
from benchmarks.evaluation.results import VERDICTS
from benchmarks.store import CONFIG, RecordError
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
    fields = {"seed": 1, "answer_type": "integer", "gold": "1", "permutation": [], "prompt": "", "text": ""}
    completions = [
        fields
        | {key: line[key] for key in ("set", "problem", "sample", "tokens")}
        | {"opens_thinking": False, "finish": "stop"}
        for line in lines
    ]
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in completions), encoding="utf-8")
    sampling = {"temperature": temperature, "top_p": 1.0, "max_tokens": 8, "samples": len(next(iter(rights.values())))}
    sets = {name: {"problems": problems, "rows": len(rights), "sampling": sampling}}
    (folder / CONFIG).write_text(json.dumps({"sets": sets}))
    return folder


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (FILE, "", "must hold 1 x 1 completions of toy, got 0"),
        (FILE, '{"set":"toy"}\n', "line 1 must be a completion"),
        (VERDICTS, "", "must hold a verdict on every completion, got others; run `rescore`"),
        (VERDICTS, '{"set":"toy"}\n', "line 1 must be a verdict"),
        (CONFIG, "{}", "must be an evaluation's, got one without sets"),
        (CONFIG, "[]", "must be an evaluation's, got one without sets"),
        (CONFIG, '{"sets":{"toy":{}}}', "must be an evaluation's, got one without sets"),
    ],
)
def test_verdicts_that_do_not_belong_to_the_completions_are_refused(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    folder = write(tmp_path / "a", {"p": [True]})
    compare_lines(folder, folder)
    (folder / name).write_text(text)
    with pytest.raises(RecordError, match=re.escape(said)):
        compare_lines(folder, folder)


@pytest.mark.parametrize("tokens", ["99999999999999999999999999", "-5", "1.5", "true"])
def test_a_length_that_is_none_is_refused(tmp_path: Path, tokens: str) -> None:
    folder = write(tmp_path / "a", {"p": [True]})
    for name in (FILE, VERDICTS):
        (folder / name).write_text((folder / name).read_text().replace('"tokens": 11', f'"tokens": {tokens}'))
    with pytest.raises(RecordError):
        compare_lines(folder, folder)


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
