from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import transformers
from scipy import stats  # type: ignore[import-untyped]
from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.evaluation.extraction import LETTERS
from benchmarks.evaluation.problems import Problem
from benchmarks.evaluation.prompts import PROMPTS, ask, encode, permutation
from benchmarks.evaluation.protocols import PROTOCOLS, sample_seed, settings
from benchmarks.evaluation.sets import SETS
from sagc.errors import ConfigError

IDS = [f"rec{number:04d}" for number in range(198)]


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tiny_model)


def choice(record_id: str) -> Problem:
    options = (f" {record_id} right\n", "b) x", "$c$", r"\boxed{d}")
    return Problem(record_id, "Which?", options[0], options)


@pytest.mark.parametrize("seed", range(5))
def test_gold_letters_are_uniform(seed: int) -> None:
    """evalchemy#155: an RNG made anew for each row put all 198 golds at D."""
    golds = Counter(PROMPTS["letters"](choice(record), seed).gold for record in IDS)
    assert stats.chisquare([golds[letter] for letter in LETTERS]).pvalue > 0.001


def test_an_order_depends_on_its_row_and_the_seed_alone() -> None:
    orders = {record: permutation(record, 0) for record in IDS}
    assert orders == {record: permutation(record, 0) for record in reversed(IDS[::3] + IDS)}
    assert len(set(orders.values())) == 24
    assert sum(permutation(record, 1) != orders[record] for record in IDS) > 150


def test_options_reach_the_prompt_as_they_are() -> None:
    question = PROMPTS["letters"](choice("rec7"), 0)
    order = question.permutation
    assert question.gold == LETTERS[order.index(0)]
    for letter, place in zip(LETTERS, order, strict=True):
        assert f"{letter}) {choice('rec7').options[place]}" in question.text


def test_mathematics_is_asked_for_a_box() -> None:
    problem = Problem("1", "What is $x$?", "70")
    assert ask(SETS["aime_2024"], problem, 3).text == (
        "What is $x$?\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    )
    assert ask(SETS["toy_integer"], problem, 3).text == "What is $x$?"


def test_the_template_is_applied_once_with_one_beginning(tokenizer: Any) -> None:
    """open-r1#462: the template has the token and the tokenizer adds another."""
    prompt = encode(tokenizer, ["What is 1 + 1?"])
    assert prompt.token_ids[0] == tokenizer.bos_token_id
    assert tokenizer.bos_token_id not in prompt.token_ids[1:]
    assert tokenizer.decode(prompt.token_ids) == "<s><user>What is 1 + 1?</s><assistant>"
    shown = encode(tokenizer, ["1 + 1?", "2", "2 + 2?"])
    assert tokenizer.decode(shown.token_ids) == "<s><user>1 + 1?</s><assistant>2</s><user>2 + 2?</s><assistant>"


def test_a_template_that_doubles_the_beginning_is_refused(tiny_model: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    with pytest.raises(ConfigError, match="prompt must begin with one beginning-of-sequence token, got two"):
        encode(tokenizer, ["x"])


def test_without_a_template_the_text_stands_alone(tiny_model: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = None
    assert tokenizer.decode(list(encode(tokenizer, ["a", "b", "c"]).token_ids)) == "a\n\nb\n\nc"


@pytest.mark.parametrize(("end", "opens"), [("<think>\n", True), ("<think></think>", False), ("", False)])
def test_a_template_that_opens_thinking_is_noticed(end: str, opens: bool, tiny_model: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template += end
    assert encode(tokenizer, ["x"]).opens_thinking is opens


def test_prompts_differ_in_their_digest(tokenizer: Any) -> None:
    assert encode(tokenizer, ["x"]).digest == encode(tokenizer, ["x"]).digest != encode(tokenizer, ["y"]).digest


def test_seeds_of_runs_sets_problems_and_samples_never_meet() -> None:
    """lighteval#568, vllm: child seeds counted up, so runs 0 and 1 shared completions."""
    seeds = [
        sample_seed(run, name, f"{problem}", sample)
        for run in range(10)
        for name in ("aime_2024", "amc_2023_40")
        for problem in range(40)
        for sample in range(64)
    ]
    assert len(set(seeds)) == len(seeds) == 51_200
    assert 0 <= min(seeds) < max(seeds) < 2**63


def test_protocols_can_be_changed_one_setting_at_a_time() -> None:
    assert settings("r1", samples=64, top_p=None) == settings("r1", samples=64)
    assert settings("r1", samples=64).temperature == PROTOCOLS["r1"].temperature == 0.6
    assert all(row.protocol in PROTOCOLS for row in SETS.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": -1.0}, "temperature must be 0 or more, got -1.0"),
        ({"temperature": float("nan")}, "temperature must be 0 or more, got nan"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"temperature": 0.0, "samples": 4}, "samples must be 1 at temperature 0, got 4"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings("r1", **change)


def test_an_unknown_protocol_offers_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'greedy'"):
        settings("greedly")


def test_a_word_that_the_model_does_not_have_is_refused() -> None:
    words = Tokenizer(models.WordLevel(vocab={"4": 0, "a": 1}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)  # type: ignore[no-untyped-call]
    assert encode(tokenizer, ["4 a"]).token_ids == (0, 1)
    with pytest.raises(ConfigError, match="prompt must be in the words that the model has, got 'What is 4"):
        encode(tokenizer, ["What is 4?"])
