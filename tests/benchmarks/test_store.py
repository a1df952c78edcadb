"""Files that are written while they are read, and the folder that holds them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.record import EvaluationRecord, Outcome
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import (
    EVALUATIONS,
    OUTCOME,
    SITTINGS,
    STEPS,
    RecordError,
    RunWriter,
    Tail,
    add_sitting,
    check_whole,
    read_json,
    read_lines,
    read_outcome,
    read_run,
    write_json,
    write_outcome,
)
from sagc.errors import ConfigError
from tests.reports.records import World, write


def evaluation(step: int) -> EvaluationRecord:
    return EvaluationRecord(
        step=step,
        milestone=0,
        final=False,
        set="held_out",
        samples=1,
        prompts=0,
        rollouts=0,
        right=[1],
        output_tokens=[3],
        truncated=[0],
    )


def test_a_line_without_its_newline_is_left_for_later(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    writer.evaluation(evaluation(1))
    writer.close()
    path = tmp_path / EVALUATIONS
    line = path.read_bytes()
    tail = Tail(path, EvaluationRecord)
    assert tail.read() == [evaluation(1)]
    with path.open("ab") as file:
        file.write(line[:10])
    assert tail.read() == []
    assert list(read_lines(path, EvaluationRecord)) == [evaluation(1)]
    with path.open("ab") as file:
        file.write(line[10:])
    assert tail.read() == [evaluation(1)]
    assert tail.offset == 2 * len(line)


def test_a_tail_reads_nothing_of_a_missing_file_and_stops_where_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / EVALUATIONS
    assert Tail(path, EvaluationRecord).read() == []
    writer = RunWriter(tmp_path)
    for step in (1, 2):
        writer.evaluation(evaluation(step))
    writer.close()
    half = path.stat().st_size // 2
    assert Tail(path, EvaluationRecord).read(limit=half) == [evaluation(1)]
    assert Tail(path, EvaluationRecord, offset=half).read() == [evaluation(2)]


@pytest.mark.parametrize("line", ["{}", "not json", '{"step": 1, "extra": 2}', "[1]"])
def test_a_damaged_line_is_named_and_never_skipped(tmp_path: Path, line: str) -> None:
    path = tmp_path / EVALUATIONS
    path.write_text(line + "\n")
    with pytest.raises(RecordError, match=r"evaluations\.jsonl"):
        Tail(path, EvaluationRecord).read()
    with pytest.raises(RecordError, match="line 1"):
        list(read_lines(path, EvaluationRecord))


def test_a_document_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": 1, "a": [2]})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"b": float("nan")})
    assert read_json(path) == {"b": 1, "a": [2]}


def test_an_outcome_is_read_back_and_a_foreign_one_is_refused(tmp_path: Path) -> None:
    outcome = Outcome(
        status="killed", reason="x", steps=1, prompts=2, rollouts=3, cpu_s=None, wall_s=1.0, evaluation_cpu_s=None
    )
    assert read_outcome(tmp_path) is None
    write_outcome(tmp_path, outcome)
    assert read_outcome(tmp_path) == outcome
    write_json(tmp_path / OUTCOME, {**asdict(outcome), "extra": 1})
    with pytest.raises(RecordError, match="must be an outcome"):
        read_outcome(tmp_path)


def test_a_second_process_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from benchmarks.runs_folder import RunsFolder\n"
        "with RunsFolder(Path(sys.argv[1])).lock(): print('held', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"in use by process {first.pid};"), RunsFolder(tmp_path).lock():
            pass
        first.kill()  # the lock goes with the process, however it ends
    with RunsFolder(tmp_path).lock():
        assert (tmp_path / ".cache").is_dir()


def test_a_folder_that_cannot_be_written_is_refused_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(ConfigError, match="runs folder must be writable"):
            RunsFolder(path).check_writable()
        with pytest.raises(ConfigError, match="runs folder must be writable"), RunsFolder(path).lock():
            pass
    RunsFolder(tmp_path / "new" / "runs").check_writable()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", [STEPS, EVALUATIONS])
def test_a_finished_run_that_lacks_records_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (folder,) = write(tmp_path, World(arms=("sagc",), algorithms=("grpo",), seeds=(0,)))
    check_whole(read_run(folder))
    lines = (folder / name).read_text().splitlines(keepends=True)
    (folder / name).write_text("".join(lines[:-1]))
    with pytest.raises(RecordError, match=f"{name} must hold .* delete the run folder"):
        check_whole(read_run(folder))
    (folder / name).unlink()
    with pytest.raises(RecordError, match=name):
        check_whole(read_run(folder))


def test_every_sitting_is_kept_and_a_damaged_line_costs_itself_alone(tmp_path: Path) -> None:
    assert add_sitting(tmp_path, {"resumed_at": None}) == []
    with (tmp_path / SITTINGS).open("ab") as file:
        file.write(b'{"resumed_at": \xff\n')
    assert add_sitting(tmp_path, {"resumed_at": 4}) == [{"resumed_at": None}]
    assert add_sitting(tmp_path, {"resumed_at": 8}) == [{"resumed_at": None}, {"resumed_at": 4}]
