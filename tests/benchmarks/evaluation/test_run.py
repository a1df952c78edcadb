from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.evaluation.generations import FILE, Generation, GenerationLog, Key, read_generations
from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.problems import LoadOptions, load_problems
from benchmarks.evaluation.prompts import Prompt
from benchmarks.evaluation.protocols import Sampling, settings
from benchmarks.evaluation.results import METRICS, VERDICTS, flat, score_folder
from benchmarks.evaluation.run import Evaluation, Part, claimed, fingerprint, sample_missing
from benchmarks.evaluation.samplers import Completion, Request
from benchmarks.evaluation.sets import select
from benchmarks.record import EvaluationRecord
from benchmarks.store import CONFIG, EVALUATIONS, RecordError, read_json, read_lines
from sagc.errors import ConfigError


class Echo:
    """A model that answers with what its seed says, and notes what it was asked."""

    window = 200

    def __init__(self) -> None:
        self.asked: list[int] = []

    def encode(self, turns: Sequence[str]) -> Prompt:
        return Prompt(tuple(turns[-1].encode()), opens_thinking=False)

    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        self.asked += [request.seed for request in requests]
        return [Completion(rf"\boxed{{{request.seed % 50}}}", request.seed % 7 + 1, "stop") for request in requests]


def evaluation(model: str = "echo", seed: int = 0, batch_size: int = 5, samples: int = 3) -> Evaluation:
    rows = select(["toy_integer", "toy_choice"])
    sampling = settings("toy", samples=samples)
    parts = [Part(row, load_problems(row, LoadOptions()), sampling) for row in rows]
    return Evaluation(model=model, revision=None, engine="echo", seed=seed, batch_size=batch_size, parts=parts)


def test_batches_cover_every_problem_and_sample_once_and_no_two_sets() -> None:
    batches = list(evaluation().batches())
    keys = [item.key for _, items in batches for item in items]
    assert len(keys) == len(set(keys)) == (12 + 8) * 3
    assert [len(items) for _, items in batches] == [5] * 7 + [1] + [5] * 4 + [4]
    assert all({item.key.set for item in items} == {part.row.name} for part, items in batches)


def test_a_run_that_stopped_anywhere_goes_on_to_the_same_file(tmp_path: Path) -> None:
    whole = Echo()
    assert sample_missing(evaluation(), tmp_path, lambda: whole) == 60
    content = (tmp_path / FILE).read_bytes()
    lines = content.splitlines(keepends=True)
    for cut in [0, 1, 4, 5, 6, 37, 59, 60]:
        for rest in (b"", b'{"set":"toy'):
            (tmp_path / FILE).write_bytes(b"".join(lines[:cut]) + rest)
            again = Echo()
            sample_missing(evaluation(), tmp_path, lambda again=again: again)  # type: ignore[misc]
            assert (tmp_path / FILE).read_bytes() == content
            assert again.asked == whole.asked[len(whole.asked) - len(again.asked) :]


def test_a_whole_run_loads_no_model(tmp_path: Path) -> None:
    sample_missing(evaluation(), tmp_path, Echo)

    def refuse() -> Echo:
        raise AssertionError

    assert sample_missing(evaluation(), tmp_path, refuse) == 0


def test_progress_counts_what_was_there_and_what_came(tmp_path: Path) -> None:
    sample_missing(evaluation(), tmp_path, Echo)
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:52]))
    counts: list[tuple[int, int]] = []
    sample_missing(evaluation(), tmp_path, Echo, lambda completions, tokens: counts.append((completions, tokens)))
    assert [completions for completions, _ in counts] == [51, 5, 4]
    assert counts[0][1] == 0 < counts[1][1]


def test_another_runs_completions_are_refused(tmp_path: Path) -> None:
    sample_missing(evaluation(), tmp_path, Echo)
    with pytest.raises(RecordError, match=r"line 1 must be Key.*move the file away"):
        sample_missing(evaluation(seed=1), tmp_path, Echo)


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "nonsense", '{"set": 1}', '{"set":"s","problem":"p","sample":"0"}'],
)
def test_a_line_that_is_no_completion_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(RecordError, match="line 1 must be a completion"):
        read_generations(tmp_path)
    with pytest.raises(RecordError, match="line 1 must be a completion"):
        GenerationLog(tmp_path, [[Key("s", "p", 0, 0)]])


def test_a_prompt_is_never_cut(tmp_path: Path) -> None:
    """open-r1#310: window = max_new_tokens left no prompt."""
    planned = evaluation()
    parts = [part._replace(sampling=replace(part.sampling, max_tokens=190)) for part in planned.parts]
    with pytest.raises(
        ConfigError, match=r"max_tokens must be at most 17\d for toy_integer .* got 190; pass --max-tokens"
    ):
        sample_missing(replace(planned, parts=parts), tmp_path, Echo)
    assert not (tmp_path / FILE).exists()


def test_the_name_of_a_run_changes_with_all_that_a_completion_depends_on(tiny_model: Path) -> None:
    names = {
        evaluation().eval_id,
        evaluation(seed=1).eval_id,
        evaluation(samples=4).eval_id,
        evaluation(batch_size=6).eval_id,
        evaluation(model=str(tiny_model)).eval_id,
        replace(evaluation(), engine="other").eval_id,
        replace(evaluation(), parts=evaluation().parts[:1]).eval_id,
    }
    assert len(names) == 7
    assert evaluation().eval_id == evaluation().eval_id


def test_a_retrained_model_has_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"0" * 3_000_000)
    first = fingerprint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"0" * 2_999_999 + b"1")
    assert first != fingerprint(tmp_path)
    assert fingerprint(Path("someone/on-the-hub")) is None


def test_a_folder_serves_one_process(tmp_path: Path) -> None:
    again = claimed(tmp_path / "run", {})
    with claimed(tmp_path / "run", {}), pytest.raises(ConfigError, match="eval_id must be free, got 'run'"):
        again.__enter__()
    with claimed(tmp_path / "run", {}):
        assert (tmp_path / "run" / CONFIG).exists()


def test_scores_can_be_taken_again_and_stay(tmp_path: Path, pool: ScoringPool) -> None:
    """evalscope#1579: rescoring shuffled the options anew."""
    sample_missing(evaluation(), tmp_path, Echo)
    with claimed(tmp_path, evaluation().config()):
        first = score_folder(tmp_path, (), pool)
    files = {name: (tmp_path / name).read_bytes() for name in (VERDICTS, EVALUATIONS, METRICS)}
    again = score_folder(tmp_path, (), pool)
    assert (first.changed, again.changed) == (None, 0)
    assert files == {name: (tmp_path / name).read_bytes() for name in files}
    assert again.metrics == first.metrics == read_json(tmp_path / METRICS)
    [integers, choices] = read_lines(tmp_path / EVALUATIONS, EvaluationRecord)
    assert (integers.set, integers.samples, len(integers.right), choices.set) == ("toy_integer", 3, 12, "toy_choice")
    assert sum(integers.right) / 36 == first.metrics["toy_integer"]["avg_at_3"]
    numbers = flat(first.metrics)
    assert numbers["toy_integer/avg_at_3"] == first.metrics["toy_integer"]["avg_at_3"]
    assert "toy_integer/pass_at_3_run_sd" not in numbers  # not measured at k = n


def test_a_changed_verdict_is_counted(tmp_path: Path, pool: ScoringPool) -> None:
    sample_missing(evaluation(), tmp_path, Echo)
    with claimed(tmp_path, evaluation().config()):
        score_folder(tmp_path, (), pool)
    verdicts = (tmp_path / VERDICTS).read_text().replace('"right":false', '"right":true', 2)
    (tmp_path / VERDICTS).write_text(verdicts)
    assert score_folder(tmp_path, (), pool).changed == 2


def test_a_run_that_is_not_whole_has_no_score(tmp_path: Path, pool: ScoringPool) -> None:
    sample_missing(evaluation(), tmp_path, Echo)
    with claimed(tmp_path, evaluation().config()):
        pass
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:50]))
    with pytest.raises(
        RecordError, match="must hold 8 x 3 completions of toy_choice, got 14; give the `evaluate` command"
    ):
        score_folder(tmp_path, (), pool)
    (tmp_path / FILE).unlink()
    with pytest.raises(RecordError, match="must be there, got nothing"):
        score_folder(tmp_path, (), pool)


def test_a_truncated_thought_that_the_prompt_opened_is_no_answer() -> None:
    """lm-eval#3382: the reasoning was scored as the answer."""
    line = Generation(
        set="s",
        problem="p",
        sample=0,
        seed=0,
        answer_type="integer",
        gold="70",
        permutation=(),
        prompt="",
        opens_thinking=True,
        text=r"maybe \boxed{70} let me",
        tokens=9,
        finish="length",
    )
    with ScoringPool(workers=1) as pool:
        lines = [line, replace(line, text=r"maybe</think>\boxed{70}"), replace(line, opens_thinking=False)]
        verdicts = pool.score_many([(entry.answer_type, entry.gold, entry.output) for entry in lines])
    assert [verdict.status for verdict in verdicts] == ["no_answer", "answered", "answered"]


def command(model: Path, runs: Path) -> list[str]:
    arguments = ["--model", str(model), "--sets", "toy", "--runs", str(runs), "--samples", "8", "--batch-size", "8"]
    arguments += ["--max-tokens", "40", "--temperature", "1", "--workers", "1"]
    return [sys.executable, "-m", "benchmarks.evaluation", "evaluate", *arguments]


@pytest.mark.slow  # starts a model six times
def test_a_run_killed_five_times_writes_the_file_of_one_that_was_not(tiny_model: Path, tmp_path: Path) -> None:
    subprocess.run(command(tiny_model, tmp_path / "whole"), check=True, capture_output=True)
    [expected] = (tmp_path / "whole").glob(f"*/{FILE}")
    rng = random.Random(0)
    kills, seen = 0, 0
    while kills < 5:
        process = subprocess.Popen(
            command(tiny_model, tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        batches_to_wait, pause = rng.randrange(1, 4), rng.random() * 0.1
        while process.poll() is None and len(_lines(tmp_path / "killed")) < seen + 8 * batches_to_wait:
            time.sleep(0.002)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was whole before the fifth kill: make it longer"
        kills += 1
        lines = _lines(tmp_path / "killed")
        assert lines == expected.read_bytes().splitlines()[: len(lines)]
        assert len(lines) > seen
        seen = len(lines)
    subprocess.run(command(tiny_model, tmp_path / "killed"), check=True, capture_output=True)
    [resumed] = (tmp_path / "killed").glob(f"*/{FILE}")
    assert resumed.read_bytes() == expected.read_bytes()
    keys = [
        tuple(json.loads(line)[name] for name in ("set", "problem", "sample")) for line in _lines(tmp_path / "killed")
    ]
    assert len(keys) == len(set(keys)) == (12 + 6 + 8) * 8


def _lines(runs: Path) -> list[bytes]:
    """Whole lines of the run's completions so far."""
    content = b"".join(path.read_bytes() for path in runs.glob(f"*/{FILE}"))
    return content[: content.rfind(b"\n") + 1].splitlines()


def test_damaged_verdicts_are_written_anew(tmp_path: Path, pool: ScoringPool) -> None:
    sample_missing(evaluation(), tmp_path, Echo)
    with claimed(tmp_path, evaluation().config()):
        score_folder(tmp_path, (), pool)
    whole = (tmp_path / VERDICTS).read_bytes()
    (tmp_path / VERDICTS).write_bytes(whole[:-30])
    assert score_folder(tmp_path, (), pool).changed is None
    assert (tmp_path / VERDICTS).read_bytes() == whole


def test_a_local_model_goes_by_its_files_wherever_they_lie(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "run" / "model").mkdir(parents=True)
        (tmp_path / name / "run" / "model" / "config.json").write_text("{}")
    first, second = (replace(evaluation(), model=str(tmp_path / name / "run" / "model")) for name in ("a", "b"))
    assert first.eval_id == second.eval_id
    assert first.eval_id.startswith("eval-run-s")
    (tmp_path / "b" / "run" / "model" / "config.json").write_text('{"a": 1}')
    assert first.eval_id != second.eval_id
