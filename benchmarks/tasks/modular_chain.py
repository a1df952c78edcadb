"""The modular chain: a verifiable task whose self-corrections give response lengths a natural heavy tail.

    prompt    ^ 4 a +3 b *5 :            start at 4, then K labelled operations, all modulo 10
    response  4 a +3 7 b *5 5 # 5 $      one step is `label operation value`; `# value $` ends it

A demonstrator errs: it notices at once (`! value` goes back to the value before the step), or ends a chain
with an error in it and often redoes the whole chain (`?`). A model that imitates it does the same, so most
responses have the shortest length, 3 K + 4 tokens, and a few are several times as long. Labels turn "which
operation comes next" into a look-up, without which a model of 0.1 M parameters does not learn the task.

Every number here is this project's own choice [ours].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.protocol import Prompt
from benchmarks.noise import Stream, generator
from benchmarks.spec import Horizon
from sagc.config import SagcConfig

MODULUS = 10
OPERATORS = "+-*"
LABELS = "abcdefghijkl"
MAX_STEPS = len(LABELS)
NOTICED, REDO, RESULT, END, COLON, START, PADDING = "!", "?", "#", "$", ":", "^", "_"
VOCABULARY: tuple[str, ...] = (
    *(str(digit) for digit in range(MODULUS)),
    *(f"{operator}{operand}" for operator in OPERATORS for operand in range(MODULUS)),
    *LABELS,
    *(NOTICED, REDO, RESULT, END, COLON, START, PADDING),
)
"""59 tokens; a token's id is its place."""
_IDS = {token: number for number, token in enumerate(VOCABULARY)}
EOS = _IDS[END]
PAD = _IDS[PADDING]

HELD_OUT_SEED = 0
"""The held-out problems are the same for every run."""
_EVALUATION_SET, _WARM_UP_CHECK_SET = 0, 1


def encode(tokens: Iterable[str]) -> tuple[int, ...]:
    """Ids of `tokens`, each of which is in `VOCABULARY`."""
    return tuple(_IDS[token] for token in tokens)


def decode(ids: Iterable[int]) -> list[str]:
    """Tokens of `ids`, each 0 ... 58."""
    return [VOCABULARY[number] for number in ids]


@dataclass(frozen=True, slots=True)
class Chain:
    """A start value and K operations on it."""

    start: int
    operations: tuple[tuple[str, int], ...]
    """(operator, operand) of each step."""

    @property
    def answer(self) -> int:
        """The value after the last step."""
        value = self.start
        for operator, operand in self.operations:
            value = _apply(value, operator, operand)
        return value

    def prompt(self, index: int) -> Prompt:
        """The chain as prompt number `index` of its stream."""
        steps = zip(LABELS, self.operations, strict=False)  # a chain uses the first K labels
        words = [word for label, (operator, operand) in steps for word in (label, f"{operator}{operand}")]
        return Prompt(index=index, tokens=encode([START, str(self.start), *words, COLON]), answer=self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRange:
    """The chain lengths K that problems are drawn from, both ends included; fractions shift the odds of the ends."""

    low: float
    high: float

    def towards(self, other: StepRange, progress: float) -> StepRange:
        """The range `progress` (0 to 1) of the way to `other`, both bounds linear."""
        return StepRange(
            low=self.low + progress * (other.low - self.low), high=self.high + progress * (other.high - self.high)
        )

    def draw(self, uniform: float) -> int:
        """K for a uniform number in [0, 1): the whole part of low + u (high + 1 - low)."""
        return int(self.low + uniform * (self.high + 1 - self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrator:
    """How the author of the warm-start traces errs; probabilities are per occasion."""

    length_cap: int
    """No chain is begun again that could not end within this many tokens."""
    error: float = 0.10
    """A wrong value in a step."""
    multiplication_factor: float = 2.0
    """Multiplications go wrong this many times as often."""
    noticed: float = 0.35
    """A wrong value is noticed at once."""
    redo: float = 0.35
    """A chain that holds an unnoticed error is done again."""
    restart: float = 0.05
    """A chain without one is done again all the same."""
    loop: float = 0.06
    """A trace is of the looping kind,"""
    loop_redo: float = 0.75
    """which does any chain again with this chance."""

    def trace(self, chain: Chain, rng: np.random.Generator) -> tuple[int, ...]:
        """A response to `chain`, its end token included; right in about 7 of 10."""
        words: list[str] = []
        looping = rng.random() < self.loop
        while True:
            value, steps, slipped = self._attempt(chain, rng)
            words += steps
            chance = self.loop_redo if looping else self.redo if slipped else self.restart
            shortest_end = 3 * len(chain.operations) + 5
            if not (rng.random() < chance and len(words) + shortest_end < self.length_cap):
                return encode([*words, RESULT, str(value), END])
            words.append(REDO)

    def _attempt(self, chain: Chain, rng: np.random.Generator) -> tuple[int, list[str], bool]:
        """One pass over the chain: its value, its words, and whether an error went unnoticed."""
        value, words, slipped = chain.start, [str(chain.start)], False
        for label, (operator, operand) in zip(LABELS, chain.operations, strict=False):
            right = _apply(value, operator, operand)
            result = right
            chance = self.error * (self.multiplication_factor if operator == "*" else 1.0)
            while result == right and rng.random() < chance:
                slip = (right + int(rng.integers(1, MODULUS))) % MODULUS
                if rng.random() < self.noticed:
                    words += [label, f"{operator}{operand}", str(slip), NOTICED, str(value)]
                else:
                    result, slipped = slip, True
            words += [label, f"{operator}{operand}", str(result)]
            value = result
        return value, words, slipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTask:
    """One variant of the task, with the settings that belong to it."""

    name: str
    summary: str
    response_cap: int
    """Most tokens of a response."""
    first_steps: StepRange
    """Chain lengths of the training prompts at the start of a run,"""
    last_steps: StepRange
    """and once R_h rollouts are generated."""
    all_steps: StepRange
    """Chain lengths of the demonstrations, the warm-up check and the held-out problems."""
    demonstrator: Demonstrator
    controller: SagcConfig
    horizon: Horizon
    rollouts_per_step: int = 64
    prompts_per_step: int = 8

    def training_prompt(self, seed: int, index: int, progress: float) -> Prompt:
        """Prompt `index` of the training stream of `seed`.

        The random numbers depend on seed and index alone, so every arm meets the same stream; where the
        chain lengths drift, `progress` only decides how many of the drawn operations are used.

        Args:
            seed: run seed.
            index: place in the stream, 0 or more.
            progress: rollouts / R_h, 0 to 1.
        """
        rng = generator(seed, Stream.PROMPTS, index)
        return _chain(rng, self.first_steps.towards(self.last_steps, progress)).prompt(index)

    def held_out(self, count: int) -> list[Prompt]:
        """The first `count` problems of the evaluation set."""
        return self._fixed_set(_EVALUATION_SET, count)

    def warm_up_check(self, count: int) -> list[Prompt]:
        """The first `count` problems that decide when the warm start ends; none is a held-out one."""
        return self._fixed_set(_WARM_UP_CHECK_SET, count)

    def demonstration(self, rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Prompt and response tokens of one warm-start trace."""
        chain = _chain(rng, self.all_steps)
        return chain.prompt(0).tokens, self.demonstrator.trace(chain, rng)

    def verify(self, prompt: Prompt, tokens: Sequence[int] | NDArray[np.int64]) -> float:
        """1.0 if the response ends in `# <right value> $`, else 0.0.

        Degenerate cases: an empty or truncated response and one that ends in tokens outside the vocabulary are 0.0.
        """
        right = encode([RESULT, str(prompt.answer), END])
        return float(tuple(int(token) for token in tokens[-len(right) :]) == right)

    def _fixed_set(self, number: int, count: int) -> list[Prompt]:
        return [
            _chain(generator(HELD_OUT_SEED, Stream.HELD_OUT, number, index), self.all_steps).prompt(index)
            for index in range(count)
        ]


def _chain(rng: np.random.Generator, steps: StepRange) -> Chain:
    """A problem; it always draws `MAX_STEPS` operations, so that K changes none of the other draws."""
    count = steps.draw(rng.random())
    start = int(rng.integers(MODULUS))
    operators = rng.integers(len(OPERATORS), size=MAX_STEPS)
    operands = rng.integers(MODULUS, size=MAX_STEPS)
    pairs = zip(operators[:count].tolist(), operands[:count].tolist(), strict=True)
    return Chain(start, tuple((OPERATORS[operator], operand) for operator, operand in pairs))


def _apply(value: int, operator: str, operand: int) -> int:
    if operator == "+":
        return (value + operand) % MODULUS
    if operator == "-":
        return (value - operand) % MODULUS
    return (value * operand) % MODULUS


CONTROLLER = SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=2.0, rollouts_per_step=64)
HORIZON = Horizon(prompts=384, rollouts=6144)

STEADY = ChainTask(
    name="steady",
    summary="chains of 3 to 8 steps throughout",
    response_cap=112,
    first_steps=StepRange(low=3, high=8),
    last_steps=StepRange(low=3, high=8),
    all_steps=StepRange(low=3, high=8),
    demonstrator=Demonstrator(length_cap=100),
    controller=CONTROLLER,
    horizon=HORIZON,
)
GROWING = ChainTask(
    name="growing",
    summary="chains grow from 3 to 8 steps to 6 to 12, so that lengths drift",
    response_cap=160,
    first_steps=StepRange(low=3, high=8),
    last_steps=StepRange(low=6, high=12),
    all_steps=StepRange(low=3, high=12),
    demonstrator=Demonstrator(length_cap=143),  # 100 / 112 of the response cap, as in `steady`
    controller=CONTROLLER,
    horizon=HORIZON,
)
