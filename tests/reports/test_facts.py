from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.record import StepRecord
from benchmarks.store import read_run
from reports.facts import binding_share, counts, identity, idle_share, straggler_rate, straggler_rate_by_group
from reports.undecidable import NotDecidable
from tests.reports.records import World, spec, write_run


@pytest.fixture
def steps(tmp_path: Path) -> list[StepRecord]:
    world = World(rate={"sagc": 0.31})
    return read_run(write_run(tmp_path, world, spec(world, "dapo", "sagc", 0))).steps


def test_the_rate_is_averaged_over_steps_and_by_group_apart(steps: list[StepRecord]) -> None:
    few = replace(steps[0], straggler_rate=1.0, straggler_groups=2, counted_groups=2)
    many = replace(steps[0], straggler_rate=0.0, straggler_groups=0, counted_groups=14)
    assert straggler_rate([few, many]) == 0.5
    assert straggler_rate_by_group([few, many]) == 2 / 16


def test_a_step_in_which_no_group_counts_is_left_out(steps: list[StepRecord]) -> None:
    empty = replace(steps[0], straggler_rate=None, straggler_groups=0, counted_groups=0)
    full = replace(steps[0], straggler_rate=0.5)
    assert straggler_rate([empty, full]) == 0.5
    with pytest.raises(NotDecidable, match="no straggler rate"):
        straggler_rate([empty])
    with pytest.raises(NotDecidable, match="no straggler rate"):
        straggler_rate_by_group([empty])


def test_the_idle_share_is_of_the_whole_run_and_not_a_mean_of_shares(steps: list[StepRecord]) -> None:
    long = replace(steps[0], barrier_rollouts=[10], barrier_longest=[90], generated_tokens=300)
    short = replace(steps[0], barrier_rollouts=[10], barrier_longest=[10], generated_tokens=100)
    assert idle_share([long, short]) == 1 - 400 / 1000
    assert idle_share([long]) == 1 - 300 / 900  # the mean of shares would be 1/3, not .6


def test_every_barrier_of_a_step_counts_in_the_idle_share(steps: list[StepRecord]) -> None:
    step = replace(steps[0], barrier_rollouts=[4, 2], barrier_longest=[50, 20], generated_tokens=120)
    assert idle_share([step]) == pytest.approx(1 - 120 / 240)


def test_no_rollout_has_no_idle_share(steps: list[StepRecord]) -> None:
    with pytest.raises(NotDecidable, match="no idle share"):
        idle_share([])


def test_both_sides_of_the_price_identity_agree(steps: list[StepRecord]) -> None:
    sides = identity(steps, {"budget": 0.25, "dual_step_size": 0.5})
    assert sides.left == pytest.approx(sides.right, abs=1e-9)
    assert sides.left > 0.02
    assert sides.updates == len(steps)


def test_the_identity_holds_when_the_price_is_clipped(tmp_path: Path) -> None:
    world = World(rate={"sagc": 0.02}, initial_price=0.3)
    run = read_run(write_run(tmp_path, world, spec(world, "grpo", "sagc", 0)))
    sides = identity(run.steps, run.config["spec"]["controller"])
    assert sides.clipped > 0
    assert sides.left == pytest.approx(sides.right, abs=1e-9)
    assert binding_share(run.steps) < 0.5


def test_an_altered_rate_breaks_the_identity(steps: list[StepRecord]) -> None:
    moved = [replace(step, straggler_rate=(step.straggler_rate or 0) + 0.1) for step in steps]
    sides = identity(moved, {"budget": 0.25, "dual_step_size": 0.5})
    assert sides.left - sides.right == pytest.approx(0.1)


def test_an_arm_without_a_price_has_no_identity(tmp_path: Path) -> None:
    world = World()
    static = read_run(write_run(tmp_path, world, spec(world, "grpo", "static_8", 0))).steps
    with pytest.raises(NotDecidable, match="recorded no price"):
        binding_share(static)
    with pytest.raises(NotDecidable, match="recorded no price"):
        identity(static, {"budget": 0.25, "dual_step_size": 0.5})


def test_counts_are_sums_and_shares_of_sums(steps: list[StepRecord]) -> None:
    small = replace(steps[0], group_size=4, rollouts_generated=64, groups_generated=16, degenerate_groups=8)
    large = replace(steps[0], group_size=32, rollouts_generated=64, groups_generated=2, degenerate_groups=0)
    found = counts([small, large])
    assert found.mean_group_size == 18
    assert found.mean_group_size_by_group == 128 / 18
    assert found.degenerate_share == 8 / 18  # the mean of shares would be .25
    assert found.barriers_per_step == 2
    assert (found.groups_generated, found.groups_filtered, found.groups_surplus) == (18, 2, 0)
    with pytest.raises(NotDecidable):
        counts([])
