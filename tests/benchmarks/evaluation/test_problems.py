from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from benchmarks.evaluation import hub
from benchmarks.evaluation.lock import LOCK_FILE, pin, read_lock, write_lock
from benchmarks.evaluation.problems import (
    EvaluationSet,
    LoadOptions,
    Lock,
    Problem,
    SetError,
    Source,
    check_problems,
    integer_gold_hash,
    load_problems,
    statements_hash,
)
from benchmarks.evaluation.scoring import ANSWER_TYPES, score
from benchmarks.evaluation.sets import SETS, select
from benchmarks.evaluation.tables import load_table
from sagc.errors import ConfigError

ROWS = [{"id": f"p{n}", "problem": f"Find the number {n}.", "answer": n} for n in (-1, 7, 70, 1625)]
MADE_UP = EvaluationSet(
    name="made_up",
    summary="four problems",
    rows=4,
    answer_type="integer",
    load=load_table,
    prompt="boxed",
    protocol="toy",
    licence="Apache-2.0",
    source=Source(repository="someone/something", split="train"),
)
GPQA_ROWS = [
    {
        "Record ID": f"rec{n}",
        "Question": f" What is {n}?\n",
        "Correct Answer": f" {n} eV ",
        **{f"Incorrect Answer {k}": f"{n}.{k} eV" for k in (1, 2, 3)},
        "Explanation": "because",
    }
    for n in range(4)
]
MADE_UP_CHOICE = replace(MADE_UP, name="made_up_choice", answer_type="choice", prompt="letters")


def write(folder: Path, rows: list[dict[str, Any]], suffix: str = "jsonl", name: str = "made_up") -> LoadOptions:
    path = folder / f"{name}.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif suffix == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif suffix == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return LoadOptions(data=folder)


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_every_file_format_gives_the_same_problems(suffix: str, tmp_path: Path) -> None:
    problems = load_problems(MADE_UP, write(tmp_path, ROWS, suffix))
    assert problems == [Problem(f"p{n}", f"Find the number {n}.", str(n)) for n in (-1, 7, 70, 1625)]
    choices = load_problems(MADE_UP_CHOICE, write(tmp_path, GPQA_ROWS, suffix, "made_up_choice"))
    assert choices[3] == Problem("rec3", " What is 3?\n", " 3 eV ", (" 3 eV ", "3.1 eV", "3.2 eV", "3.3 eV"))


@pytest.mark.parametrize(
    "rename",
    [
        {"problem": "question"},
        {"problem": "Question", "answer": "Answer", "id": "ID"},
        {"problem": "Problem", "answer": "expected_answer", "id": "problem_idx"},
    ],
)
def test_columns_may_have_any_published_name(rename: dict[str, str], tmp_path: Path) -> None:
    rows = [{rename.get(name, name): value for name, value in row.items()} for row in ROWS]
    assert [p.gold for p in load_problems(MADE_UP, write(tmp_path, rows))] == ["-1", "7", "70", "1625"]


def test_nested_columns_are_read(tmp_path: Path) -> None:
    """The layout of the DAPO copies."""
    rows = [
        {
            "prompt": [{"role": "user", "content": "..."}],
            "reward_model": {"ground_truth": str(row["answer"]), "style": "rule"},
            "extra_info": {"index": row["id"], "raw_problem": row["problem"]},
        }
        for row in ROWS
    ]
    problems = load_problems(MADE_UP, write(tmp_path, rows, "parquet"))
    assert problems == load_problems(MADE_UP, write(tmp_path / "..", ROWS))


def test_an_answer_that_stands_only_in_the_solution_is_its_last_box(tmp_path: Path) -> None:
    rows = [{"problem": row["problem"], "solution": rf"\boxed{{0}}, no, \boxed{{{row['answer']}}}."} for row in ROWS]
    assert [p.gold for p in load_problems(MADE_UP, write(tmp_path, rows))] == ["-1", "7", "70", "1625"]


def test_rows_without_an_id_get_one_from_their_statement(tmp_path: Path) -> None:
    rows = [{"problem": row["problem"], "answer": row["answer"]} for row in ROWS]
    problems = load_problems(MADE_UP, write(tmp_path, rows))
    assert load_problems(MADE_UP, write(tmp_path, rows[::-1])) == problems[::-1]


def test_the_rows_of_one_year_are_taken_by_address_or_year(tmp_path: Path) -> None:
    assert MADE_UP.source is not None
    row = replace(MADE_UP, rows=2, source=replace(MADE_UP.source, year=2023))
    years = (2022, 2023, 2024, 2023)
    urls = [r | {"url": f"https://x/{year}_AIME_I_Problems/Problem_1"} for r, year in zip(ROWS, years, strict=True)]
    assert [p.id for p in load_problems(row, write(tmp_path, urls))] == ["p7", "p1625"]
    stated = [r | {"Year": year} for r, year in zip(ROWS, years, strict=True)]
    assert [p.id for p in load_problems(row, write(tmp_path, stated))] == ["p7", "p1625"]


@pytest.mark.parametrize(
    ("gold", "gold_format"), [(27.0, "float"), ("27.0", "float"), ("033", "padded"), ("-01", "padded")]
)
def test_floats_and_leading_zeros_are_read_only_where_they_are_announced(
    gold: object, gold_format: str, tmp_path: Path
) -> None:
    """AMC copies write 27.0, AIME copies 033: unannounced, both score 0 elsewhere without a word."""
    options = write(tmp_path, [ROWS[0], ROWS[1] | {"answer": gold}, *ROWS[2:]])
    with pytest.raises(
        SetError, match=f"made_up, row 2, column 'answer': .* got {gold!r}; pass --gold-format {gold_format}"
    ):
        load_problems(MADE_UP, options)
    assert load_problems(MADE_UP, replace(options, gold_format=gold_format))[1].gold in ("27", "33", "-1")


@pytest.mark.parametrize("gold", [27.5, "27.0000001", float("nan"), True, "seventy", "1,625", "1e3", [70]])
def test_a_gold_that_is_no_integer_is_refused(gold: object, tmp_path: Path) -> None:
    options = write(tmp_path, [*ROWS[:3], ROWS[3] | {"answer": gold}])
    with pytest.raises(SetError, match=r"made_up, row 4, column 'answer': gold must be an integer .*; correct the row"):
        load_problems(MADE_UP, options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:3], "rows must be 4, got 3 with 3 different statements"),
        (
            ROWS * 32,
            "rows must be 4, got 128 with 4 different statements; take the set that the name says, each problem",
        ),
        (
            [*ROWS[:3], ROWS[0] | {"problem": "Another."}],
            "made_up, row 4: id must be unique, got 'p-1' again .first in row 1",
        ),
        ([*ROWS[:3], ROWS[0] | {"id": "x", "problem": "Find the  number -1."}], "row 4: statement must be unique"),
        ([*ROWS[:3], ROWS[3] | {"problem": " "}], "row 4, column 'problem': text must not be empty, got ' '"),
        ([*ROWS[:3], ROWS[3] | {"answer": None}], "row 4, column 'answer': gold must be .* got None"),
        ([*ROWS[:3], ROWS[3] | {"id": ""}], "row 4: id must not be empty"),
        ([{"text": "x", "answer": 1}], "row 1: columns must include one of problem, .* got text, answer"),
        ([{"problem": "x", "gold": 1}], "row 1: columns must include one of answer, .* got problem, gold"),
        ([1, 2], "every row of .* must be an object"),
    ],
)
def test_a_faulty_table_is_refused(rows: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(SetError, match=message) as error:
        load_problems(MADE_UP, write(tmp_path, rows))
    assert "made_up" in str(error.value)


def test_a_missing_option_is_refused(tmp_path: Path) -> None:
    rows = [dict(row) for row in GPQA_ROWS]
    del rows[0]["Incorrect Answer 2"]
    with pytest.raises(SetError, match="columns must include one of Incorrect Answer 2"):
        load_problems(MADE_UP_CHOICE, write(tmp_path, rows, name="made_up_choice"))


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must hold rows, got an empty file"),
        (b"\xff\xfe{}", "must be UTF-8, got byte 0xff at 0|table"),
        (b"{", "table|rows"),
    ],
)
def test_a_file_that_is_no_table_is_refused(suffix: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / f"made_up.{suffix}").write_bytes(content)
    with pytest.raises(SetError, match=message) as error:
        load_problems(MADE_UP, LoadOptions(data=tmp_path))
    assert f"made_up.{suffix}" in str(error.value)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "made_up.jsonl").write_text('{"id": 1}\n{"id": \n', encoding="utf-8")
    with pytest.raises(SetError, match=r"made_up\.jsonl must be a \.jsonl table, got .* in line 2 of the file"):
        load_problems(MADE_UP, LoadOptions(data=tmp_path))


def test_no_permission_is_said(tmp_path: Path) -> None:
    options = write(tmp_path, ROWS)
    path = tmp_path / "made_up.jsonl"
    tmp_path.chmod(0o755)
    path.chmod(0o200)
    privileged = os.geteuid() == 0
    if privileged:  # root may read everything
        for parent in (tmp_path.parent, tmp_path.parent.parent):
            parent.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(SetError, match="must be readable, got Permission denied; check its permissions"):
            load_problems(MADE_UP, options)
    finally:
        if privileged:
            os.seteuid(0)


@pytest.mark.parametrize(("names", "got"), [((), "none of them"), (("csv", "json"), "made_up.json and made_up.csv")])
def test_the_file_must_be_there_once(names: tuple[str, ...], got: str, tmp_path: Path) -> None:
    for suffix in names:
        write(tmp_path, ROWS, suffix)
    with pytest.raises(SetError, match=f"must hold one of made_up.jsonl, .* got {got}"):
        load_problems(MADE_UP, LoadOptions(data=tmp_path))


def test_a_wrong_gold_is_found_by_the_hash(tmp_path: Path) -> None:
    """AIME 2024 I-12 once had 384 instead of 385."""
    golds = load_problems(MADE_UP, write(tmp_path, ROWS))
    row = replace(MADE_UP, gold_hash=integer_gold_hash(golds))
    check_problems(row, golds)
    wrong = [*golds[:3], golds[3]._replace(gold="1624")]
    with pytest.raises(SetError, match=r"made_up: golds must have the hash .* \(sum 1700\)"):
        check_problems(row, wrong)


def test_a_latex_gold_must_score_as_right() -> None:
    row = replace(MADE_UP, rows=1, answer_type="latex")
    check_problems(row, [Problem("a", "b", r"\frac{1}{2}")])
    with pytest.raises(SetError, match=r"row 1: gold must be an answer of type latex, got '\\\\frac\{'"):
        check_problems(row, [Problem("a", "b", r"\frac{")])


def test_statements_are_hashed_without_order_or_spacing() -> None:
    problems = [Problem("a", "x  y", "1"), Problem("b", "z", "2", ("2", "3", "4", "5"))]
    assert statements_hash(problems) == statements_hash([problems[1], Problem("c", "x y", "7")])
    assert statements_hash(problems) != statements_hash([problems[0], Problem("b", "z", "2", ("2", "3", "4", "6"))])


@pytest.mark.parametrize("name", [name for name, row in SETS.items() if row.source is None])
def test_the_sets_of_our_own_pass_their_checks(name: str) -> None:
    assert len(load_problems(SETS[name], LoadOptions())) == SETS[name].rows


@pytest.mark.parametrize("answer_type", sorted({row.answer_type for row in SETS.values()}))
def test_a_right_boxed_answer_scores_in_every_answer_type(answer_type: str) -> None:
    """lm-eval#3352: a registered task without the extractor scored 0."""
    gold = {"integer": "70", "latex": r"\frac{1}{2}", "choice": "B", "chain": "7"}[answer_type]
    assert score(answer_type, gold, f"So {ANSWER_TYPES[answer_type].write(gold)}").right


def test_an_unknown_set_offers_the_nearest_and_a_group_opens() -> None:
    assert [row.name for row in select(["toy", "aime_2024", "toy_latex"])] == [
        *("toy_integer", "toy_latex", "toy_choice"),
        "aime_2024",
    ]
    with pytest.raises(ConfigError, match="set must be a known name, got 'aime24'; did you mean 'aime_2024'"):
        select(["aime24"])


def test_the_lock_file_invents_nothing() -> None:
    lock = read_lock()
    assert lock.keys() == {name for name, row in SETS.items() if row.source}
    assert {name: entry for name, entry in lock.items() if entry != Lock()} == {"gpqa_diamond": Lock("633f5ee")}
    assert LOCK_FILE.parent.name == "evaluation"


def pinning(problems: Mapping[str, list[Problem]], down: str = "") -> Any:
    def resolve(row: EvaluationSet, revision: str | None) -> str:
        if row.name == down:
            raise SetError(f"{row.name}: not reachable")
        return (revision or "0123abcd").ljust(40, "0")

    def load(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
        return load_problems(replace(row, load=lambda *_: problems[row.name]), options)

    return {"resolve": resolve, "load": load}


def test_pinning_fills_in_what_the_hub_answers_and_refuses_a_later_difference(tmp_path: Path) -> None:
    rows = [MADE_UP, replace(MADE_UP, name="other"), replace(MADE_UP, name="ours", source=None)]
    problems = [Problem(row["id"], row["problem"], str(row["answer"])) for row in ROWS]  # type: ignore[arg-type]
    both = {"made_up": problems, "other": problems}
    lock, failed = pin(rows, {"other": Lock("89ab")}, **pinning(both, down="made_up"))
    assert [str(error) for error in failed] == ["made_up: not reachable"]
    assert lock == {"other": Lock("89ab".ljust(40, "0"), statements_hash(problems))}
    write_lock(lock, tmp_path / "lock.json")
    assert read_lock(tmp_path / "lock.json") == lock

    changed = {"made_up": problems, "other": [problems[0]._replace(statement="Find it."), *problems[1:]]}
    again, failed = pin(rows, lock, **pinning(changed))
    assert [str(error).split(",")[0] for error in failed] == [
        f"other: statements must have the hash {statements_hash(problems)} of the lock file"
    ]
    assert again["other"] == lock["other"]
    assert again["made_up"].revision == "0123abcd".ljust(40, "0")


def test_a_lock_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text('{"aime_2023": {"sha": 1}}', encoding="utf-8")
    with pytest.raises(SetError, match="lock must be an object of revision and statements"):
        read_lock(tmp_path / "lock.json")


def test_the_hub_loader_reads_what_datasets_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ROWS, "parquet", "train")
    monkeypatch.setattr(hub, "full_revision", lambda row, revision: revision)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    row = replace(MADE_UP, source=Source(repository=str(tmp_path), split="train"))
    assert [p.gold for p in load_problems(row, LoadOptions())] == ["-1", "7", "70", "1625"]
