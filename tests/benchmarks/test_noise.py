"""Noise is a function of its key alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.noise import Stream, generator, rollout_uniforms


def draw(seed: int = 0, step: int = 1, prompts: tuple[int, ...] = (0, 1), samples: int = 4) -> np.ndarray:
    return rollout_uniforms(seed, Stream.ROLLOUTS, step, prompts, samples, length=8)


def test_no_prompts_give_no_rows() -> None:
    assert draw(prompts=()).shape == (0, 8)


def test_same_key_same_numbers() -> None:
    np.testing.assert_array_equal(draw(), draw())


@pytest.mark.parametrize("other", [{"seed": 1}, {"step": 2}, {"prompts": (2, 3)}])
def test_another_key_gives_other_numbers(other: dict[str, int]) -> None:
    assert not np.intersect1d(draw(), draw(**other)).size  # type: ignore[arg-type]


def test_every_rollout_has_its_own_numbers() -> None:
    rows = draw(samples=8)
    assert len(np.unique(rows, axis=0)) == 16


def test_a_larger_group_keeps_the_first_rollouts() -> None:
    small, large = draw(samples=4).reshape(2, 4, 8), draw(samples=16).reshape(2, 16, 8)
    np.testing.assert_array_equal(large[:, :4], small)


def test_a_prompt_s_numbers_do_not_depend_on_its_neighbours() -> None:
    np.testing.assert_array_equal(draw(prompts=(5,)), draw(prompts=(4, 5))[4:])


def test_streams_do_not_overlap() -> None:
    rows = [generator(3, stream, 1, 2, 3).random(4).tolist() for stream in Stream]
    assert len({tuple(row) for row in rows}) == len(Stream)


def test_numbers_are_uniform() -> None:
    values = rollout_uniforms(0, Stream.ROLLOUTS, 1, range(100), 10, length=100).ravel()
    assert values.min() >= 0
    assert values.max() < 1
    assert values.mean() == pytest.approx(0.5, abs=0.005)
    assert values.var() == pytest.approx(1 / 12, abs=0.002)
