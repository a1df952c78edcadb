"""The modular chain: prompts, demonstrations and the verifier."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.engines.protocol import Prompt
from benchmarks.noise import Stream, generator
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import (
    EOS,
    GROWING,
    MAX_STEPS,
    PAD,
    STEADY,
    VOCABULARY,
    Chain,
    ChainTask,
    Demonstrator,
    StepRange,
    decode,
    encode,
)

EXAMPLE = Chain(start=4, operations=(("+", 3), ("*", 5), ("-", 7)))
"""4 + 3 = 7, 7 * 5 = 35 = 5, 5 - 7 = -2 = 8, modulo 10."""
both_tasks = pytest.mark.parametrize("task", [STEADY, GROWING], ids=lambda task: task.name)


def words(text: str) -> tuple[int, ...]:
    return encode(text.split())


def steps_of(prompt: Prompt) -> int:
    return (len(prompt.tokens) - 3) // 2


def evaluate_text(prompt: Prompt) -> int:
    """The answer worked out from the prompt's text alone."""
    _, start, *steps, _ = decode(prompt.tokens)
    value = int(start)
    for operation in steps[1::2]:
        operand = int(operation[1])
        value = {"+": value + operand, "-": value - operand, "*": value * operand}[operation[0]] % 10
    return value


def test_vocabulary_is_the_59_tokens_in_the_documented_order() -> None:
    assert len(VOCABULARY) == len(set(VOCABULARY)) == 59
    assert VOCABULARY[:12] == ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+0", "+1")
    assert VOCABULARY[38:42] == ("*8", "*9", "a", "b")
    assert VOCABULARY[52:] == ("!", "?", "#", "$", ":", "^", "_")
    assert (VOCABULARY[EOS], VOCABULARY[PAD]) == ("$", "_")


def test_encode_and_decode_are_inverse() -> None:
    assert decode(encode(VOCABULARY)) == list(VOCABULARY)


def test_prompt_and_answer_of_a_chain() -> None:
    prompt = EXAMPLE.prompt(7)
    assert prompt.tokens == words("^ 4 a +3 b *5 c -7 :")
    assert (prompt.index, prompt.answer) == (7, 8)


@both_tasks
def test_answers_agree_with_the_text_of_the_prompt(task: ChainTask) -> None:
    for prompt in task.held_out(200):
        assert prompt.answer == evaluate_text(prompt)


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ("4 a +3 7 b *5 5 c -7 8 # 8 $", 1.0),
        ("# 8 $", 1.0),
        ("4 a +3 9 ! 4 a +3 7 b *5 5 c -7 8 # 8 $", 1.0),
        ("4 a +3 7 b *5 5 c -7 8 # 3 $", 0.0),
        ("4 a +3 7 b *5 5 c -7 8 # 8", 0.0),  # truncated
        ("4 a +3 7 b *5 5 c -7 8 $", 0.0),
        ("8 $", 0.0),
        ("$", 0.0),
        ("", 0.0),
    ],
)
def test_verify_asks_for_the_right_value_and_the_end(response: str, reward: float) -> None:
    assert STEADY.verify(EXAMPLE.prompt(0), words(response)) == reward
    assert STEADY.verify(EXAMPLE.prompt(0), np.array(words(response), dtype=np.int64)) == reward


def test_verify_gives_zero_for_tokens_outside_the_vocabulary() -> None:
    hash_, eight, end = words("# 8 $")
    assert STEADY.verify(EXAMPLE.prompt(0), [hash_, 999, end]) == 0.0
    assert STEADY.verify(EXAMPLE.prompt(0), [hash_, eight, -1]) == 0.0


@both_tasks
def test_a_training_prompt_is_a_function_of_seed_and_index(task: ChainTask) -> None:
    forwards = [task.training_prompt(3, index, 0.5) for index in range(20)]
    backwards = [task.training_prompt(3, index, 0.5) for index in reversed(range(20))]
    assert forwards == backwards[::-1]
    assert len({prompt.tokens for prompt in forwards}) == 20
    assert [prompt.index for prompt in forwards] == list(range(20))
    assert forwards != [task.training_prompt(4, index, 0.5) for index in range(20)]


def test_steady_prompts_do_not_depend_on_progress() -> None:
    for index in range(50):
        assert STEADY.training_prompt(0, index, 0.0) == STEADY.training_prompt(0, index, 1.0)


def test_progress_only_lengthens_a_growing_prompt() -> None:
    for index in range(50):
        short, longer = GROWING.training_prompt(0, index, 0.2), GROWING.training_prompt(0, index, 0.9)
        assert longer.tokens[: len(short.tokens) - 1] == short.tokens[:-1]
        assert steps_of(longer) > steps_of(short)


@pytest.mark.parametrize(("progress", "low", "high", "mean"), [(0.0, 3, 8, 5.5), (0.5, 4, 10, 7.25), (1.0, 6, 12, 9.0)])
def test_growing_chain_lengths_move_linearly(progress: float, low: int, high: int, mean: float) -> None:
    lengths = [steps_of(GROWING.training_prompt(0, index, progress)) for index in range(2000)]
    assert (min(lengths), max(lengths)) == (low, high)
    assert np.mean(lengths) == pytest.approx(mean, abs=0.15)


def test_a_whole_step_range_is_uniform() -> None:
    drawn = [StepRange(low=3, high=8).draw(u) for u in (np.arange(6000) + 0.5) / 6000]
    assert np.bincount(drawn).tolist() == [0, 0, 0, 1000, 1000, 1000, 1000, 1000, 1000]


@pytest.mark.parametrize(("task", "longest"), [(STEADY, 8), (GROWING, MAX_STEPS)])
def test_held_out_problems_span_all_chain_lengths(task: ChainTask, longest: int) -> None:
    assert {steps_of(prompt) for prompt in task.held_out(1024)} == set(range(3, longest + 1))


@both_tasks
def test_fewer_held_out_problems_are_the_first_of_more(task: ChainTask) -> None:
    assert task.held_out(256) == task.held_out(1024)[:256]
    assert task.held_out(0) == []


@both_tasks
def test_held_out_and_warm_up_check_problems_are_apart(task: ChainTask) -> None:
    held_out = {prompt.tokens for prompt in task.held_out(1024)}
    check = {prompt.tokens for prompt in task.warm_up_check(256)}
    assert (len(held_out), len(check)) == (1024, 256)
    assert not held_out & check


@both_tasks
def test_training_prompts_hold_none_of_the_held_out_problems(task: ChainTask) -> None:
    held_out = {prompt.tokens for prompt in task.held_out(1024)}
    for seed in range(3):
        drawn = {task.training_prompt(seed, index, index / 1536).tokens for index in range(1536)}
        assert not held_out & drawn


def test_a_demonstrator_without_errors_writes_the_shortest_trace() -> None:
    careful = Demonstrator(length_cap=100, error=0.0, restart=0.0, loop=0.0)
    trace = careful.trace(EXAMPLE, generator(0, Stream.WARM_START))
    assert trace == words("4 a +3 7 b *5 5 c -7 8 # 8 $")
    assert len(trace) == 3 * len(EXAMPLE.operations) + 4


def test_a_demonstrator_that_notices_every_error_is_always_right() -> None:
    honest = Demonstrator(length_cap=100, error=0.4, noticed=1.0, restart=0.0, loop=0.0)
    traces = [honest.trace(EXAMPLE, generator(0, Stream.WARM_START, number)) for number in range(200)]
    assert all(STEADY.verify(EXAMPLE.prompt(0), trace) for trace in traces)
    assert any(words("!")[0] in trace for trace in traces)


def test_a_demonstrator_begins_no_chain_that_cannot_end_within_its_cap() -> None:
    restless = Demonstrator(length_cap=100, error=0.0, restart=1.0, loop=0.0)
    assert len(restless.trace(EXAMPLE, generator(0, Stream.WARM_START))) <= 100


def test_demonstrations_have_the_measured_accuracy_and_tail() -> None:
    rng = generator(5, Stream.WARM_START)
    lengths, right = [], []
    for _ in range(3000):
        prompt, response = STEADY.demonstration(rng)
        lengths.append(len(response))
        problem = Prompt(index=0, tokens=prompt, answer=evaluate_text(Prompt(index=0, tokens=prompt, answer=0)))
        right.append(STEADY.verify(problem, response))
    assert np.mean(right) == pytest.approx(0.718, abs=0.03)
    assert np.median(lengths) == pytest.approx(24, abs=1)
    assert np.quantile(lengths, 0.95) == pytest.approx(62, abs=8)
    assert np.quantile(lengths, 0.99) == pytest.approx(92, abs=6)


def test_tasks_carry_the_settings_of_the_design() -> None:
    assert list(TASKS) == ["steady", "growing"]
    assert (STEADY.response_cap, GROWING.response_cap) == (112, 160)
    for task in TASKS.values():
        assert task.controller.candidates == (4, 8, 16, 32)
        assert (task.controller.budget, task.controller.threshold) == (0.25, 2.0)
        assert (task.horizon.prompts, task.horizon.rollouts) == (384, 6144)
        assert (task.rollouts_per_step, task.prompts_per_step) == (64, 8)
