from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import RunData, read_run
from benchmarks.sweep import VARIANTS, SweepRow, sweep
from sagc.config import SagcConfig
from sagc.errors import ConfigError
from tests.reports.records import World, spec, write_run


def recorded(tmp_path: Path, arm: str = "static_32", tail: float = 0.05) -> RunData:
    """A recorded run whose rollouts have a chance of `tail` to be three times the usual length."""
    world = World()
    run = read_run(write_run(tmp_path, world, spec(world, "grpo", arm, 0)))
    rng = np.random.default_rng(7)

    def lengths(groups: list[list[int]]) -> list[list[int]]:
        plain = rng.integers(18, 24, (len(groups), len(groups[0])))
        return np.where(rng.random(plain.shape) < tail, 3 * plain, plain).tolist()  # type: ignore[no-any-return]

    return replace(run, steps=[replace(step, lengths=lengths(step.lengths)) for step in run.steps])


def by_setting(rows: list[SweepRow]) -> dict[str, SweepRow]:
    return {row.setting: row for row in rows}


def test_every_number_of_ours_is_swept() -> None:
    swept = {name for change in VARIANTS for name in change}
    of_the_task = {"candidates", "rollouts_per_step"}
    warns_only = {"infeasible_patience"}
    assert swept | of_the_task | warns_only == {field.name for field in fields(SagcConfig)}


def test_the_recorded_settings_come_first_and_are_not_repeated(tmp_path: Path) -> None:
    rows = sweep([recorded(tmp_path)])
    assert rows[0].setting == "as recorded"
    settings = [row.setting for row in rows]
    assert len(settings) == len(set(settings))
    assert "dual_step_size = 0.5" not in settings
    assert "dual_step_size = 0.05" in settings
    assert "max_notches = 1" in settings


def test_a_higher_budget_buys_larger_groups_and_more_stragglers(tmp_path: Path) -> None:
    rows = by_setting(sweep([recorded(tmp_path)], [{"budget": 0.1}, {"budget": 0.4}]))
    low, middle, high = rows["budget = 0.1"], rows["as recorded"], rows["budget = 0.4"]
    assert low.mean_group_size < middle.mean_group_size < high.mean_group_size
    assert low.straggler_rate < middle.straggler_rate < high.straggler_rate
    assert low.utility < middle.utility < high.utility


def test_a_small_dual_step_leaves_the_rate_far_from_its_budget(tmp_path: Path) -> None:
    rows = by_setting(sweep([recorded(tmp_path)], [{"dual_step_size": 0.01, "initial_price": 0.0}]))
    slow = rows["dual_step_size = 0.01, initial_price = 0.0"]
    usual = rows["as recorded"]
    assert slow.straggler_rate - slow.budget > 3 * abs(usual.straggler_rate - usual.budget)


def test_hysteresis_cuts_switches(tmp_path: Path) -> None:
    rows = by_setting(sweep([recorded(tmp_path)], [{"hysteresis": 0.0}, {"hysteresis": 0.2}]))
    assert rows["hysteresis = 0.2"].switches_per_step < rows["hysteresis = 0.0"].switches_per_step


def test_without_a_tail_the_price_falls_to_zero_and_the_largest_group_is_played(tmp_path: Path) -> None:
    row = sweep([recorded(tmp_path, tail=0.0)], [])[0]
    assert row.straggler_rate == 0
    assert row.binding_share < 0.5
    assert row.mean_group_size > 20
    assert row.mixture_lead is not None
    assert row.mixture_lead < 0  # the start at G = 8 costs against 32 from the first step


def test_a_controller_that_always_plays_one_size_is_level_with_it(tmp_path: Path) -> None:
    always_4 = {"budget": 0.01, "initial_group_size": 4, "initial_price": 50.0}
    row = sweep([recorded(tmp_path)], [always_4])[1]
    assert (row.mean_group_size, row.switches_per_step, row.binding_share) == (4, 0, 1)
    assert row.utility == pytest.approx(np.log(4) / np.log(32))
    assert row.mixture_lead == pytest.approx(0, abs=1e-12)


def test_the_same_records_give_the_same_rows(tmp_path: Path) -> None:
    assert sweep([recorded(tmp_path / "a")], VARIANTS[:3]) == sweep([recorded(tmp_path / "b")], VARIANTS[:3])


def test_small_groups_cannot_be_a_pool(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recorded groups must have at least 32 rollouts, got one of 8"):
        sweep([recorded(tmp_path, arm="static_8")])


def test_a_sweep_needs_runs_of_one_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one recorded run"):
        sweep([])
    first = recorded(tmp_path / "a")
    second = replace(first, config={**first.config, "config_hash": "other"})
    with pytest.raises(ConfigError, match="share one configuration"):
        sweep([first, second])


def test_a_run_that_ended_early_is_refused(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    with pytest.raises(ConfigError, match="at least 16 recorded groups, got 4"):
        sweep([replace(run, steps=run.steps[:2])])
