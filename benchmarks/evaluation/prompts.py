r"""From a problem to the tokens that a model sees.

The chat template is applied once and brings its own beginning-of-sequence token; without a template the tokenizer
adds it. Options are permuted by a hash of record id and seed, so a row's order depends on nothing else, and they
reach the prompt exactly as they are in the source.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.evaluation.extraction import LETTERS, THINK_OPEN
from benchmarks.evaluation.problems import EvaluationSet, Problem
from sagc.errors import ConfigError

BOXED = r"Please reason step by step, and put your final answer within \boxed{}."
"""The instruction of DeepSeek-R1 and Qwen, in the user turn; no system prompt."""
LETTER = r"Please reason step by step, and put the letter of the right option within \boxed{}."
"""[ours]: public harnesses differ, and the scorer reads "Answer: C" as well."""
_ORDERS = tuple(itertools.permutations(range(len(LETTERS))))


class Question(NamedTuple):
    """What is asked, and what would be right."""

    text: str
    gold: str
    """In the form that the answer type compares: for multiple choice the letter of the right option."""
    permutation: tuple[int, ...] = ()
    """Place in the source of the option at each letter; empty without options."""


class Prompt(NamedTuple):
    """A question as tokens."""

    token_ids: tuple[int, ...]
    opens_thinking: bool
    """The template has opened a thinking block that the model is to close."""

    @property
    def digest(self) -> str:
        """16 hex digits: two scores are comparable where the prompts are equal."""
        return hashlib.sha256(",".join(map(str, self.token_ids)).encode()).hexdigest()[:16]


def ask(row: EvaluationSet, problem: Problem, seed: int) -> Question:
    """The question that `problem` of the set `row` poses in a run with `seed`."""
    return PROMPTS[row.prompt](problem, seed)


def permutation(record_id: str, seed: int) -> tuple[int, ...]:
    """Which option stands at A, B, C, D: uniform over orders, a function of id and seed alone."""
    digest = hashlib.sha256(f"{record_id}|{seed}".encode()).digest()
    return _ORDERS[int.from_bytes(digest, "big") % len(_ORDERS)]


def _plain(problem: Problem, seed: int) -> Question:
    return Question(problem.statement, problem.gold)


def _boxed(problem: Problem, seed: int) -> Question:
    return Question(f"{problem.statement}\n\n{BOXED}", problem.gold)


def _options(problem: Problem, seed: int) -> Question:
    order = permutation(problem.id, seed)
    options = "\n".join(f"{letter}) {problem.options[place]}" for letter, place in zip(LETTERS, order, strict=True))
    return Question(f"{problem.statement}\n\n{options}", LETTERS[order.index(0)], order)


def _letters(problem: Problem, seed: int) -> Question:
    question = _options(problem, seed)
    return question._replace(text=f"{question.text}\n\n{LETTER}")


PROMPTS: dict[str, Callable[[Problem, int], Question]] = {
    "boxed": _boxed,
    "letters": _letters,
    "plain": _plain,
    "options": _options,
}
"""Name -> the question that a problem poses in a run with a seed; the last two instruct nothing, examples must."""


def encode(tokenizer: Any, turns: Sequence[str]) -> Prompt:
    """The tokens of a conversation, ready for the model's answer.

    Args:
        tokenizer: a transformers tokenizer; without a chat template the turns stand as paragraphs.
        turns: what is said, the user first and last.

    Raises:
        ConfigError: if the tokens begin with two beginning-of-sequence tokens, or the tokenizer lacks a word.
    """
    if tokenizer.chat_template:
        messages = [
            {"role": role, "content": text}
            for role, text in zip(itertools.cycle(("user", "assistant")), turns, strict=False)
        ]
        rendered: str = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = _tokens(tokenizer, rendered, add_special_tokens=False)
    else:
        rendered = "\n\n".join(turns)
        ids = _tokens(tokenizer, rendered)
    begin = tokenizer.bos_token_id
    if begin is not None and list(ids[:2]) == [begin, begin]:
        raise ConfigError(
            f"prompt must begin with one beginning-of-sequence token, got two ({begin}); correct the chat template"
        )
    return Prompt(tuple(ids), rendered.rstrip().endswith(THINK_OPEN))


def _tokens(tokenizer: Any, text: str, **settings: bool) -> list[int]:
    try:
        return list(tokenizer(text, **settings).input_ids)
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ConfigError(
            f"prompt must be in the words that the model has, got {text[:40]!r} ({error}); choose sets that it can read"
        ) from error
