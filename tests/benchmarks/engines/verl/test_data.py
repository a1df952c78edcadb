from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines.verl.data import (
    HELD_OUT,
    TRAIN,
    bare_statement,
    chain_rows,
    clean,
    held_out_rows,
    main,
    prepare_dapo_math,
    prepare_evaluation,
    read_rows,
    write_rows,
)
from benchmarks.engines.verl.rewards import reward
from benchmarks.evaluation.problems import LoadOptions, load_problems
from benchmarks.evaluation.prompts import BOXED, ask
from benchmarks.evaluation.sets import SETS
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import encode
from sagc.errors import ConfigError

WRAPPED = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n{}\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)


def raw(statement: str, gold: str = "34") -> dict[str, Any]:
    prompt = [{"role": "user", "content": WRAPPED.format(statement)}]
    return {"data_source": "math_dapo", "prompt": prompt, "reward_model": {"ground_truth": gold, "style": "rule"}}


def test_the_rows_of_a_tiny_task_are_its_own_prompts_in_order() -> None:
    rows = chain_rows(TASKS["steady"], seed=3, count=5)
    for index, row in enumerate(rows):
        prompt = TASKS["steady"].training_prompt(3, index, 0.0)
        assert encode(row["prompt"][0]["content"].split()) == prompt.tokens
        assert row["reward_model"]["ground_truth"] == str(prompt.answer)
        assert (row["data_source"], row["extra_info"]["index"]) == ("steady", index)
    assert rows != chain_rows(TASKS["steady"], seed=4, count=5)
    assert held_out_rows(TASKS["steady"], 4)[2]["reward_model"]["ground_truth"] == str(
        TASKS["steady"].held_out(4)[2].answer
    )


def test_a_task_whose_prompts_drift_cannot_be_a_file() -> None:
    with pytest.raises(ConfigError, match="got 'growing', whose prompts drift"):
        chain_rows(TASKS["growing"], seed=0, count=1)


def test_the_baked_in_instruction_is_replaced() -> None:
    assert bare_statement(WRAPPED.format("Find x.\n\nGive x^2.")) == "Find x.\n\nGive x^2."
    assert bare_statement("Find x.") == "Find x."
    (row,), _ = clean([raw("Find x.")], [])
    assert row["prompt"][0]["content"] == f"Find x.\n\n{BOXED}"
    assert row["extra_info"]["answer_type"] == "integer"


def test_every_row_is_kept_once_or_counted() -> None:
    evaluated = "Let a, b and c be positive integers with a + b + c = 10. Find the greatest value of abc."
    rows = [
        raw("Find x.", "1"),
        raw("Find  X!", "1"),  # the same words
        raw(evaluated, "36"),  # an evaluation problem
        raw(f"Now: {evaluated} Then add 1.", "37"),  # eight words in a row of one
        raw("Find y.", "1/2"),  # no integer
        raw("Find z.", "-3"),
    ]
    kept, counts = clean(rows, [evaluated])
    assert [row["reward_model"]["ground_truth"] for row in kept] == ["1", "-3"]
    assert [row["extra_info"]["index"] for row in kept] == [0, 1]
    assert (counts.read, counts.duplicates, counts.contaminated, counts.unreadable, counts.kept) == (6, 1, 2, 1, 2)
    assert counts.read == counts.duplicates + counts.contaminated + counts.unreadable + counts.kept


def test_a_hundred_copies_of_a_problem_are_one() -> None:
    kept, counts = clean([raw("Find x.")] * 100, [])
    assert (len(kept), counts.duplicates) == (1, 99)


def test_a_short_evaluation_problem_contaminates_only_its_equal() -> None:
    _, counts = clean([raw("Compute 1 + 1."), raw("Compute 1 + 1 and then 2.")], ["Compute 1+1."])
    assert (counts.contaminated, counts.kept) == (1, 1)


def test_the_training_set_is_prepared_from_files(tmp_path: Path) -> None:
    write_rows(tmp_path / "source.parquet", [raw("Find x.", "1"), raw("Find x.", "1"), raw("Find y.", "2")])
    counts = prepare_dapo_math(tmp_path / "source.parquet", {"aime": ["Find y."]}, tmp_path / "out")
    assert (counts.kept, counts.duplicates, counts.contaminated) == (1, 1, 1)
    (row,) = read_rows(tmp_path / "out" / TRAIN)
    assert row["reward_model"] == {"ground_truth": "1", "style": "rule"}
    stored = json.loads((tmp_path / "out" / "counts.json").read_text())
    assert (stored["decontaminated_against"], stored["read"]) == ({"aime": 1}, 3)


def test_files_of_another_kind_or_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data must be a \.parquet or \.jsonl file"):
        list(read_rows(tmp_path / "x.csv"))
    with pytest.raises(ConfigError, match=r"train\.parquet must have rows, got none"):
        write_rows(tmp_path / TRAIN, [])


def test_the_command_writes_both_files(tmp_path: Path) -> None:
    main(["steady", "--seed", "1", "--prompts", "3", "--held-out", "2", "--out", str(tmp_path)])
    assert len(list(read_rows(tmp_path / TRAIN))) == 3
    assert len(list(read_rows(tmp_path / HELD_OUT))) == 2


def test_evaluation_sets_become_files_with_the_prompts_of_the_evaluation(tmp_path: Path) -> None:
    prepare_evaluation(["toy"], LoadOptions(), tmp_path)
    for name in ("toy_integer", "toy_latex", "toy_choice"):
        rows = list(read_rows(tmp_path / f"{name}.parquet"))
        problems = load_problems(SETS[name], LoadOptions())
        assert [row["extra_info"]["index"] for row in rows] == list(range(len(problems)))
        for row, problem in zip(rows, problems, strict=True):
            asked = ask(SETS[name], problem, 0)
            assert row["prompt"][0]["content"] == asked.text
            assert (row["data_source"], row["reward_model"]["ground_truth"]) == (name, asked.gold)
            assert row["extra_info"]["answer_type"] == SETS[name].answer_type


def test_a_row_of_an_evaluation_set_is_scored_as_the_evaluation_scores_it(tmp_path: Path) -> None:
    main(["evaluation", "--sets", "toy_integer", "--out", str(tmp_path)])
    (first, *_) = read_rows(tmp_path / "toy_integer.parquet")
    gold = first["reward_model"]["ground_truth"]
    for text, right in ((f"\\boxed{{{gold}}}", 1.0), ("\\boxed{123456}", 0.0)):
        scored = reward("toy_integer", gold, [1, 2], text, extra=first["extra_info"], eos=2, cap=9, buffer=0)
        assert scored.right == right


def test_training_is_decontaminated_by_the_name_of_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated = load_problems(SETS["toy_integer"], LoadOptions())[0].statement
    write_rows(tmp_path / "source.parquet", [raw("Find x.", "1"), raw(evaluated, "2")])
    main(["dapo_math", "--source", str(tmp_path / "source.parquet"), "--sets", "toy_integer", "--out", str(tmp_path)])
    assert json.loads(capsys.readouterr().out)["contaminated"] == 1


def test_an_unknown_set_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'toy_integer'"):
        main(["evaluation", "--sets", "toy_intege", "--out", str(tmp_path)])
