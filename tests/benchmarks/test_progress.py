"""What the terminal shows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from benchmarks.progress import QUIET_S, Console, describe, time_left
from benchmarks.record import PHASES, StepRecord, StepTiming
from benchmarks.runner import Run
from benchmarks.store import RunWriter
from benchmarks.suite import planned_run
from tests.benchmarks.test_runner import spec


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(step: int, infeasible: bool = False) -> StepRecord:
    counts = dict.fromkeys(StepRecord.__dataclass_fields__, 0)
    return StepRecord(
        **{  # type: ignore[arg-type]
            **counts,
            "step": step,
            "group_size": 8,
            "straggler_rate": None,
            "accuracy": 0.5,
            "groups_generated": 8,
            "rollouts_generated": 64,
            "lengths": [],
            "controller": {},
            "controller_next": {},
            "decision": {"group_size": 8, "num_prompts": None, "budget_infeasible": infeasible},
            "barrier_rollouts": [],
            "barrier_longest": [],
            "refill_exhausted": False,
        }
    )


def timing(step: int) -> StepTiming:
    zero = dict.fromkeys(PHASES, 0.0)
    return StepTiming(
        step=step, cpu_s=zero, wall_s=zero, throughput_tokens_per_s=1.0, rollouts_per_s=1.0, load_average=0.0
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    chosen = spec("sagc")
    return Run(planned_run(chosen), chosen, state="running", folder=tmp_path)


def test_without_a_terminal_a_running_run_is_mentioned_now_and_then(run: Run, tmp_path: Path) -> None:
    stream, now = io.StringIO(), [0.0]
    console = Console([run], stream, lambda: now[0])
    console.started(run)
    writer = RunWriter(tmp_path)
    writer.step(record(1), timing(1))
    now[0] = QUIET_S - 1
    console.ticked()
    assert stream.getvalue().count("\n") == 1
    now[0] = QUIET_S
    console.ticked()
    writer.close()
    shown = stream.getvalue()
    assert "25%  steady/grpo/sagc/fake/s0  step 1, G 8, straggler rate -, accuracy 0.50" in shown
    assert "0 of 1 runs done, about 1 min 30 s left" in shown
    assert "\033" not in shown


def test_on_a_terminal_the_block_is_taken_away_before_a_line_that_stays(run: Run) -> None:
    stream, now = Terminal(), [0.0]
    console = Console([run], stream, lambda: now[0])
    console.started(run)
    now[0] = 2.0
    console.ticked()
    console.said("a line that stays")
    assert "\033[2F\033[Ja line that stays\n" in stream.getvalue()


def test_a_budget_that_cannot_be_held_is_said_once(run: Run, tmp_path: Path) -> None:
    stream, now = io.StringIO(), [0.0]
    console = Console([run], stream, lambda: now[0])
    console.started(run)
    writer = RunWriter(tmp_path)
    for step in (1, 2):
        writer.step(record(step, infeasible=True), timing(step))
        now[0] += QUIET_S
        console.ticked()
    writer.close()
    assert stream.getvalue().count("the straggler budget lies below the smallest group size's risk") == 1


def test_a_line_of_a_step_has_its_facts() -> None:
    assert describe(None) == "no step yet"
    assert describe(record(3)) == "step 3, G 8, straggler rate -, accuracy 0.50"


def test_the_time_left_follows_the_speed_so_far() -> None:
    assert time_left(60.0, done=1.0, ahead=2.0) == "about 2 min 00 s left"
    assert time_left(60.0, done=0.0, ahead=2.0) == "time left not known yet"
    assert time_left(60.0, done=3.0, ahead=0.0) == "nothing left to train"
