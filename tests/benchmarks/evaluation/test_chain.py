from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluation.problems import LoadOptions, load_problems
from benchmarks.evaluation.prompts import ask
from benchmarks.evaluation.protocols import settings
from benchmarks.evaluation.samplers import SAMPLERS, Request
from benchmarks.evaluation.samplers.loading import completion, load_tokenizer
from benchmarks.evaluation.scoring import score
from benchmarks.evaluation.sets import SETS
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, OPERATORS, VOCABULARY, Chain
from tests.benchmarks.untrained import write_untrained


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain") / "model"
    write_untrained(folder)
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_the_problems_are_the_held_out_ones_in_the_models_own_tokens(task: str, model: Path) -> None:
    row = SETS[f"toy_{task}"]
    sampler = SAMPLERS["transformers"](str(model), None)
    problems = load_problems(row, LoadOptions())
    for problem, prompt in zip(problems, TASKS[task].held_out(row.rows), strict=True):
        assert sampler.encode([ask(row, problem, 0).text]).token_ids == prompt.tokens
        assert problem.gold == str(prompt.answer)
    [result] = sampler.complete([Request(sampler.encode([problems[0].statement]).token_ids, 1)], settings("chain"))
    assert set(result.text.split()) <= set(VOCABULARY)


def test_the_score_is_the_tasks_own_verdict(model: Path) -> None:
    task, tokenizer = TASKS["growing"], load_tokenizer(str(model), None)
    rng = np.random.default_rng(0)
    rights = []
    for number in range(200):
        operations = [(OPERATORS[rng.integers(3)], int(rng.integers(10))) for _ in range(rng.integers(3, 9))]
        chain = Chain(int(rng.integers(10)), tuple(operations))
        prompt, trace = chain.prompt(number), task.demonstrator.trace(chain, rng)
        text = completion(tokenizer, list(trace), frozenset({EOS})).text
        rights.append(score("chain", str(prompt.answer), text).right)
        assert rights[-1] == (task.verify(prompt, trace) == 1.0)
    assert 0.4 < np.mean(rights) < 0.95
