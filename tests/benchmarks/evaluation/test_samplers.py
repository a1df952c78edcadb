from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.evaluation.protocols import Sampling, settings
from benchmarks.evaluation.samplers import SAMPLERS, Completion, Request, Sampler, check_engine
from benchmarks.evaluation.samplers.loading import completion
from benchmarks.evaluation.samplers.transformers_sampler import draw
from sagc.errors import ConfigError


@pytest.fixture(scope="module")
def sampler(tiny_model: Path) -> Sampler:
    return SAMPLERS["transformers"](str(tiny_model), None)


def ask(sampler: Sampler, *texts: str, seed: int = 0) -> list[Request]:
    return [Request(sampler.encode([text]).token_ids, seed + number) for number, text in enumerate(texts)]


SAMPLING = settings("toy", max_tokens=12, temperature=1.0, top_p=1.0)


def test_a_completion_depends_on_its_own_seed(sampler: Sampler) -> None:
    requests = ask(sampler, "one", "one", "one", "two")
    first = sampler.complete(requests, SAMPLING)
    assert first == sampler.complete(requests, SAMPLING)
    assert len({result.text for result in first}) == 4  # B31: one prompt, four seeds, four answers
    assert sampler.complete(ask(sampler, "one", "one", "one", "two", seed=9), SAMPLING) != first


def test_a_completion_does_not_depend_on_its_neighbours(sampler: Sampler) -> None:
    """Up to rounding: here in float32 on a CPU the padded row takes the same tokens."""
    alone, _, longer = ask(sampler, "one", "two", "a much longer prompt than the first one")
    assert sampler.complete([alone, longer], SAMPLING)[0] == sampler.complete([alone], SAMPLING)[0]


def test_temperature_0_takes_the_likeliest_token(sampler: Sampler) -> None:
    greedy = settings("greedy", max_tokens=12)
    one, other = (sampler.complete(ask(sampler, "one", seed=seed), greedy) for seed in (0, 1))
    assert one == other


def test_lengths_count_the_generated_tokens(sampler: Sampler) -> None:
    results = sampler.complete(
        ask(sampler, *["text"] * 64), settings("toy", max_tokens=100, temperature=1.0, top_p=1.0)
    )
    assert {result.finish for result in results} == {"stop", "length"}
    assert all(result.tokens == 100 for result in results if result.finish == "length")
    assert all(1 <= result.tokens <= 100 for result in results)
    assert all("</s>" not in result.text for result in results)


class Letters:
    """Decodes token n as the n-th letter."""

    @staticmethod
    def decode(ids: list[int], **_: Any) -> str:
        return "".join(chr(ord("a") + token) for token in ids)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([5, 6, 2, 2, 2], Completion("fg", 3, "stop")),
        ([5, 6, 7, 8, 9], Completion("fghij", 5, "length")),
        ([2, 2, 2], Completion("", 1, "stop")),
        ([5, 3, 7], Completion("f", 2, "stop")),  # several end tokens
        ([5, 2], Completion("f", 2, "stop")),
    ],
)
def test_the_end_token_is_counted_and_the_padding_is_not(ids: list[int], expected: Completion) -> None:
    assert completion(Letters(), ids, frozenset({2, 3})) == expected


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    uniforms = torch.as_tensor(np.random.default_rng(0).random(200_000))
    for temperature, top_p, kept in ((1.0, 1.0, 4), (0.6, 1.0, 4), (1.0, 0.8, 2), (1.0, 0.1, 1)):
        tokens = draw(logits.expand(len(uniforms), -1), uniforms, temperature, top_p)
        expected = torch.softmax(logits.double() / temperature, 0)
        expected[kept:] = 0
        shares = torch.bincount(tokens, minlength=4) / len(tokens)
        torch.testing.assert_close(shares.double(), expected / expected.sum(), atol=0.004, rtol=0)


def test_the_ends_of_the_uniform_range_draw_kept_tokens() -> None:
    logits = torch.tensor([[0.0, 3.0, -torch.inf, 1.0]] * 2)
    ends = torch.tensor([0.0, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert draw(logits, ends, 1.0, 1.0).tolist() == [1, 0]
    assert draw(logits, ends, 1.0, 0.85).tolist() == [1, 3]


def test_what_the_models_authors_recommend_is_not_applied(tiny_model: Path, sampler: Sampler, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "opinionated")
    settings_file = folder / "generation_config.json"
    recommended = {"repetition_penalty": 5.0, "top_k": 1, "do_sample": True, "temperature": 0.1, "max_length": 3}
    settings_file.write_text(json.dumps(json.loads(settings_file.read_text()) | recommended))
    requests = ask(sampler, "one", "two")
    assert SAMPLERS["transformers"](str(folder), None).complete(requests, SAMPLING) == sampler.complete(
        requests, SAMPLING
    )


def test_every_end_token_of_the_model_ends_an_answer(tiny_model: Path, sampler: Sampler, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "chatty")
    settings_file = folder / "generation_config.json"
    settings_file.write_text(json.dumps(json.loads(settings_file.read_text()) | {"eos_token_id": [1, *range(2, 130)]}))
    results = SAMPLERS["transformers"](str(folder), None).complete(ask(sampler, *["text"] * 8), SAMPLING)
    assert all(result.finish == "stop" for result in results)
    assert max(result.tokens for result in results) < SAMPLING.max_tokens


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_a_model_that_is_not_there_is_refused(engine: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"model must be a model on the Hub or a folder|engine vllm must be installed"
    ):
        SAMPLERS[engine](str(tmp_path), None)


def test_an_unknown_engine_offers_the_nearest() -> None:
    with pytest.raises(ConfigError, match="engine must be a known name, got 'vlm'; did you mean 'vllm'"):
        check_engine("vlm")


def test_settings_are_the_samplings(sampler: Sampler) -> None:
    one_token = Sampling(temperature=1.0, top_p=1.0, max_tokens=1, samples=1)
    assert [result.tokens for result in sampler.complete(ask(sampler, "x"), one_token)] == [1]
