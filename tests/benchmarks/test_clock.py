"""The phase clock."""

from __future__ import annotations

import contextlib
import time

import pytest

from benchmarks.clock import PhaseClock


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_phases_add_up_and_the_next_step_starts_at_zero() -> None:
    clock = PhaseClock()
    for _ in range(2):
        with clock.phase("rollout"):
            spin(0.02)
    with clock.phase("update"):
        time.sleep(0.03)
    timing = clock.finish_step(step=1, generated_tokens=400, rollouts=20)
    assert timing.cpu_s["rollout"] == pytest.approx(0.04, abs=0.02)
    assert timing.wall_s["update"] >= 0.03 > timing.cpu_s["update"] + 0.01
    assert timing.throughput_tokens_per_s == pytest.approx(400 / timing.wall_s["rollout"])
    assert timing.rollouts_per_s == pytest.approx(20 / timing.wall_s["rollout"])
    with clock.phase("rollout"):
        spin(0.001)
    assert clock.finish_step(step=2, generated_tokens=1, rollouts=1).cpu_s["update"] == 0


def test_what_runs_outside_every_phase_is_in_no_step() -> None:
    clock = PhaseClock()
    with clock.phase("rollout"):
        spin(0.001)
    spin(0.05)
    assert sum(clock.finish_step(step=1, generated_tokens=1, rollouts=1).cpu_s.values()) < 0.03


def test_a_phase_that_raises_is_charged_all_the_same() -> None:
    clock = PhaseClock()
    with contextlib.suppress(ValueError), clock.phase("reward"):
        spin(0.01)
        raise ValueError
    with clock.phase("rollout"):
        spin(0.001)
    assert clock.finish_step(step=1, generated_tokens=1, rollouts=1).cpu_s["reward"] > 0.005


def test_an_unknown_phase_is_an_error() -> None:
    clock = PhaseClock()
    with pytest.raises(KeyError), clock.phase("lunch"):
        pass
