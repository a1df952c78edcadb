from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.record import EvaluationRecord
from benchmarks.store import RecordError, RunData, read_run
from reports.curves import Curve, Reading, curve, paired
from reports.undecidable import NotDecidable
from tests.reports.records import World, spec, write_run


def evaluation(step: int, right: list[int], samples: int = 1, name: str = "held_out") -> EvaluationRecord:
    return EvaluationRecord(
        step=step,
        milestone=step,
        final=False,
        set=name,
        samples=samples,
        prompts=0,
        rollouts=0,
        right=right,
        output_tokens=[10 * samples] * len(right),
        truncated=[0] * len(right),
    )


def made_of(*evaluations: EvaluationRecord) -> Curve:
    return Curve("a_run", {"prompts": np.array([0.0, 10.0, 20.0, 40.0])}, evaluations)


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    world = World()
    return read_run(write_run(tmp_path, world, spec(world, "dapo", "static_8", 0)))


def test_axes_add_up_what_the_steps_used(run: RunData) -> None:
    drawn = curve(run)
    assert drawn.used["prompts"][:3].tolist() == [0, 9, 18]  # 8 groups and a filtered one a step
    assert drawn.total("rollouts") == sum(step.rollouts_generated for step in run.steps)
    assert drawn.total("tokens") == sum(step.generated_tokens for step in run.steps)
    assert drawn.total("updates") == 2 * len(run.steps)
    assert drawn.total("cpu_s") == pytest.approx(0.9 * drawn.total("modelled_s"))
    assert drawn.total("wall_s") == pytest.approx(1.1 * drawn.total("modelled_s"))


def test_a_value_between_two_evaluations_is_interpolated() -> None:
    drawn = made_of(evaluation(0, [0, 0, 1, 1]), evaluation(2, [1, 1, 1, 1]))
    assert drawn.reading("accuracy", "prompts", 0).value == 0.5
    assert drawn.reading("accuracy", "prompts", 5).value == 0.625
    assert drawn.reading("accuracy", "prompts", 20).value == 1
    assert drawn.used_at("prompts", 15, "prompts") == 15


@pytest.mark.parametrize("budget", [-1, 20.5, 1e9])
def test_nothing_is_extrapolated(budget: float) -> None:
    drawn = made_of(evaluation(0, [0, 1]), evaluation(2, [1, 1]))
    with pytest.raises(NotDecidable, match="lie outside what a_run covers \\(0 to 20\\); values are not extrapolated"):
        drawn.reading("accuracy", "prompts", budget)


def test_a_cost_outside_the_run_is_not_extrapolated() -> None:
    with pytest.raises(NotDecidable, match="outside what a_run covers"):
        made_of().used_at("prompts", 41, "prompts")


def test_accuracy_is_the_mean_over_samples_and_never_the_best_of_them() -> None:
    drawn = made_of(evaluation(0, [1, 4, 0, 0], samples=4))
    assert drawn.reading("accuracy", "prompts", 0).value == 5 / 16  # pass@4 would be 2 / 4
    assert drawn.reading("output_length_tokens", "prompts", 0).value == 10


def test_two_arms_are_compared_on_the_problems_that_both_were_given() -> None:
    easy_first = Reading(np.array([1.0, 1.0, 0.0, 0.0]))
    start_only = Reading(np.array([1.0, 1.0]))
    assert easy_first.value - start_only.value == -0.5  # the later problems are harder
    assert paired(easy_first, start_only).tolist() == [0, 0]
    assert paired(start_only, easy_first).tolist() == [0, 0]


def test_interpolation_towards_the_larger_final_evaluation_uses_its_common_part() -> None:
    drawn = made_of(evaluation(0, [0, 1]), evaluation(1, [1, 1, 0, 0]))
    assert drawn.reading("accuracy", "prompts", 5).problems.tolist() == [0.5, 1.0]
    assert drawn.reading("accuracy", "prompts", 10).problems.tolist() == [1, 1, 0, 0]


def test_of_two_evaluations_at_one_step_the_larger_is_read(run: RunData) -> None:
    small, large = evaluation(3, [0, 0]), evaluation(3, [0, 0, 1, 1])
    drawn = curve(replace(run, evaluations=[large, small]))
    assert len(drawn.evaluations) == 1
    assert drawn.evaluations[0] == large


def test_a_run_without_evaluations_has_no_reading() -> None:
    with pytest.raises(NotDecidable, match="a_run has no evaluation"):
        made_of().reading("accuracy", "prompts", 0)


def test_two_evaluation_sets_are_not_mixed() -> None:
    drawn = made_of(evaluation(0, [1]), evaluation(1, [1], name="other"))
    with pytest.raises(NotDecidable, match="mixes the evaluation sets held_out, other"):
        drawn.reading("accuracy", "prompts", 0)


def test_time_that_was_not_measured_at_every_step_is_no_axis(run: RunData) -> None:
    drawn = curve(replace(run, timings=run.timings[:-1]))
    with pytest.raises(NotDecidable, match=r"measured CPU-seconds of .* were not measured at every step"):
        drawn.total("cpu_s")
    without_cpu = curve(replace(run, timings=[replace(timing, cpu_s={}) for timing in run.timings]))
    assert "cpu_s" not in without_cpu.used
    assert "wall_s" in without_cpu.used


def test_a_gap_in_the_steps_is_a_damaged_record(run: RunData) -> None:
    with pytest.raises(RecordError, match="must be 1, 2, 3"):
        curve(replace(run, steps=run.steps[1:]))
    with pytest.raises(RecordError, match="must follow recorded steps, got step 22 after 5 steps"):
        curve(replace(run, steps=run.steps[:5]))
