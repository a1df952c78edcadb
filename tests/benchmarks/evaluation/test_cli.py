from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.evaluation.__main__ import main
from benchmarks.evaluation.cli import add_commands, evaluate
from benchmarks.evaluation.generations import FILE
from benchmarks.evaluation.results import METRICS
from benchmarks.store import CONFIG, read_json

SMALL = ("--samples", "2", "--max-tokens", "8", "--temperature", "1", "--workers", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_model_is_evaluated_rescored_and_compared(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for seed in (0, 1):
        code, out, err = run(
            capsys, "evaluate", "--model", tiny_model, "--sets", "toy", "--runs", tmp_path, "--seed", seed, *SMALL
        )
        assert code == 0, err
        folders.append(Path(out.rpartition("records: ")[2].strip()))
        assert "toy_choice: 8 problems" in out
        assert "avg@2" in out
        assert "100%" in err  # the progress bar
    assert folders[0] != folders[1]
    before = (folders[0] / FILE).read_bytes()

    code, out, _ = run(capsys, "rescore", folders[0], "--k", "1,2", "--workers", "1")
    assert code == 0
    assert "verdicts that differ from the stored ones: 0" in out
    assert (folders[0] / FILE).read_bytes() == before

    code, out, _ = run(capsys, "compare", *folders)
    assert code == 0
    assert out.count("accuracy") == 3
    assert "95 % interval" in out
    assert "note" not in out


def test_giving_the_command_again_goes_on(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("evaluate", "--model", tiny_model, "--sets", "toy_latex", "--runs", tmp_path, *SMALL)
    assert run(capsys, *arguments)[0] == 0
    [file] = tmp_path.glob(f"*/{FILE}")
    content = file.read_bytes()
    file.write_bytes(content[:300])
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert file.read_bytes() == content
    assert "verdicts that differ from the stored ones: 0" in out


def test_a_finished_evaluation_is_handed_on(tiny_model: Path, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    handed: list[Path] = []
    add_commands(parser.add_subparsers(), log=handed.append)
    arguments = parser.parse_args(
        ["evaluate", "--model", str(tiny_model), "--sets", "toy_integer", "--runs", str(tmp_path), *SMALL]
    )
    assert arguments.func(arguments) == 0
    [folder] = handed
    assert folder.parent == tmp_path
    assert (folder / FILE).exists()
    assert read_json(folder / CONFIG)["sets"]["toy_integer"]["sampling"]["samples"] == 2
    assert read_json(folder / METRICS)["toy_integer"]["problems"] == 12
    assert evaluate(arguments) == 0  # without `log` it keeps the record alone
    assert len(handed) == 1


def test_a_failing_scorer_fails_the_evaluation(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B32: with errors swallowed every score was 0."""
    assert run(capsys, "evaluate", "--model", tiny_model, "--sets", "toy_integer", "--runs", tmp_path, *SMALL)[0] == 0
    [folder] = tmp_path.iterdir()
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    (folder / FILE).write_text("".join(json.dumps(line | {"gold": "seventy"}) + "\n" for line in lines))
    code, out, err = run(capsys, "rescore", folder)
    assert code == 1
    assert "error 100.0 %" in out
    assert "error: toy_integer: the scorer failed on 100.0% of the completions, more than 1%" in err


def test_repeated_completions_raise_a_counted_warning(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "evaluate", "--model", tiny_model, "--sets", "toy_latex", "--runs", tmp_path, *SMALL)
    [folder] = tmp_path.iterdir()
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    (folder / FILE).write_text("".join(json.dumps(line | {"text": "the same"}) + "\n" for line in lines))
    assert "warning: toy_latex: 6 completions repeat an earlier one" in run(capsys, "rescore", folder)[2]


def test_the_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "sets")
    assert code == 0
    [row] = [line for line in out.splitlines() if "aime_2023" in line]
    expected = (
        "aime_2023 30 integer AI-MO/aimo-validation-aime unpinned unpinned 15abaa86abc700c6 Apache-2.0 (uploader) -"
    )
    assert row.split() == expected.split()
    [row] = [line for line in out.splitlines() if "gpqa_diamond" in line]
    assert "633f5ee" in row
    assert "CC-BY-4.0" in row
    assert "accept not to reveal" in row


def amc(folder: Path, **change: object) -> Path:
    """A file in place of the 40 AMC problems, its first row changed; none of their text is in it."""
    folder.mkdir(exist_ok=True)
    rows: list[dict[str, object]] = [{"id": n, "problem": f"Problem {n}.", "answer": n} for n in range(40)]
    rows[0] |= change
    path = folder / "amc_2023_40.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def bad(tmp_path: Path) -> dict[str, tuple[tuple[object, ...], str]]:
    """Name -> arguments, and what the line must say."""
    data = tmp_path / "data"
    base = ("evaluate", "--model", "m", "--runs", tmp_path / "runs", "--sets")
    from_data = (*base, "amc_2023_40", "--data", data)
    toy = (*base, "toy")
    return {
        "unknown set": ((*base, "aime2024"), "set must be a known name, got 'aime2024'; did you mean 'aime_2024'?"),
        "no set": ((*base, ","), "sets must name at least one set, got none"),
        "unknown engine": ((*toy, "--engine", "vlmm"), "did you mean 'vllm'?"),
        "unknown protocol": ((*toy, "--protocol", "r2"), "did you mean 'r1'?"),
        "unknown gold format": (
            (*from_data, "--gold-format", "int"),
            "gold_format must be a known name, got 'int'; did you mean 'integer'?",
        ),
        "k over n": ((*toy, "--k", "1,5", "--samples", "4"), "k must be at least 1 and at most the 4 samples"),
        "k of 0": ((*toy, "--k", "0"), "k must be at least 1"),
        "k of no number": ((*toy, "--k", "one"), "argument --k: must be whole numbers, got 'one'"),
        "workers": ((*toy, "--workers", "0"), "workers must be at least 1, got 0"),
        "batch size": ((*toy, "--batch-size", "0"), "batch_size must be from 1 to 1000000, got 0"),
        "temperature": ((*toy, "--temperature", "-1"), "temperature must be 0 or more, got -1.0"),
        "no such model": ((*toy,), "model must be a model on the Hub or a folder that holds one, got 'm'"),
        "missing columns": (from_data, "row 1: columns must include one of answer,"),
        "float gold": (
            from_data,
            "gold must be an integer without leading zeros or decimals, got 27.0; pass --gold-format",
        ),
        "padded gold": (from_data, "got '033'; pass --gold-format padded"),
        "duplicate id": (from_data, "row 2: id must be unique, got '1' again (first in row 1); remove one"),
        "wrong golds": (from_data, "golds must have the hash 29b5f69452594ea7, got"),
        "empty file": (from_data, "must hold rows, got an empty file"),
        "wrong encoding": (from_data, "must be UTF-8, got byte 0xff at 0; convert it"),
        "no file": (from_data, "must hold one of amc_2023_40.jsonl"),
        "no folder": ((*toy, "--data", tmp_path / "nowhere"), "data must be a folder, got"),
        "a file as a folder": ((*toy, "--data", __file__), "data must be a folder, got"),
        "too many samples": ((*toy, "--samples", "9" * 20), "samples must give at most 1000000 completions of a set"),
        "too large batches": ((*toy, "--batch-size", "9" * 30), "batch_size must be from 1 to 1000000, got 999"),
        "empty runs": (
            ("evaluate", "--model", "m", "--sets", "toy", "--runs", ""),
            "argument --runs: must be a folder",
        ),
        "a short option": (
            ("evaluate", "--mod", "m", "--sets", "toy"),
            "the following arguments are required: --model",
        ),
        "no model folder": (
            ("evaluate", "--model", tmp_path / "nowhere", "--runs", tmp_path / "runs", "--sets", "toy"),
            "model must be a folder or .gguf file that is there, got",
        ),
        "no evaluation": (("rescore", tmp_path), "folder must be an evaluation's, got"),
        "no verdicts": (("compare", tmp_path, tmp_path), "folder must be an evaluation's, got"),
        "no command": (("evalaute",), "invalid choice: 'evalaute'"),
        "missing option": (("evaluate",), "the following arguments are required: --model, --sets"),
        "broken lock": (("sets", "--lock", tmp_path / "none.json"), "must be a JSON document"),
    }


def prepare(name: str, folder: Path) -> None:
    changes: dict[str, dict[str, object]] = {
        "missing columns": {"gold": 1},
        "float gold": {"answer": 27.0},
        "padded gold": {"answer": "033"},
        "duplicate id": {"id": 1},
        "unknown gold format": {},
        "wrong golds": {},
    }
    if name in changes:
        path = amc(folder, **changes[name])
        if name == "missing columns":
            path.write_text(path.read_text().replace('"answer"', '"result"'), encoding="utf-8")
    elif name == "no file":
        folder.mkdir()
    elif name in ("empty file", "wrong encoding"):
        folder.mkdir()
        (folder / "amc_2023_40.jsonl").write_bytes(b"" if name == "empty file" else b"\xff\xfe")


@pytest.mark.parametrize("name", bad(Path()))
def test_bad_input_is_one_line_and_code_2(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(name, tmp_path / "data")
    arguments, says = bad(tmp_path)[name]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert says in line
    assert not list(tmp_path.glob("runs/*"))


def test_a_folder_that_cannot_be_made_is_one_line(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "evaluate", "--model", tiny_model, "--sets", "toy", "--runs", tmp_path / "file" / "runs")
    assert code == 2
    assert err.startswith("error: runs must be a folder that can be written, got ")
