from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reports.hindsight import best_static, best_static_mixture
from reports.runs import Comparison, load
from reports.undecidable import NotDecidable
from tests.reports.records import World, plan, write

WORLD = World(
    algorithms=("grpo",),
    accuracy={"static_2": 0.40, "static_4": 0.50, "static_8": 0.60, "static_16": 0.64, "static_32": 0.70, "sagc": 0.62},
    accuracy_spread=0.0,
)


def comparison(folder: Path, world: World) -> Comparison:
    (one,) = load(write(folder, world), plan(world)).comparisons
    return one


def test_the_best_static_is_the_one_that_turned_out_best(tmp_path: Path) -> None:
    row = best_static(comparison(tmp_path, WORLD))
    assert row.made_of == "static_32"
    assert row.lead.value == pytest.approx(-0.08, abs=0.006)
    assert row.rate > row.sagc_rate


def test_the_best_mixture_has_no_higher_rate_than_sagc(tmp_path: Path) -> None:
    # from rate .2 and accuracy .6 of static 8 to .6 and .7 of static 32: at .25 an eighth of it, worth .6125
    row = best_static_mixture(comparison(tmp_path, WORLD))
    assert row.made_of == "0.86 static_8 + 0.14 static_32"
    assert row.rate == pytest.approx(row.sagc_rate)
    assert row.lead.value == pytest.approx(0.62 - 0.6125, abs=0.006)


def test_rates_are_read_up_to_the_matched_rollouts(tmp_path: Path) -> None:
    one = comparison(tmp_path, WORLD)
    run = one.runs["static_32", 0]
    half = len(run.data.steps) // 2  # static 32 needs twice the rollouts for its prompts
    tail = [replace(step, straggler_rate=0.0) for step in run.data.steps[half:]]
    faded = replace(run, data=replace(run.data, steps=[*run.data.steps[:half], *tail]))
    changed = replace(one, runs={**one.runs, ("static_32", 0): faded})
    assert best_static(changed).rate == best_static(one).rate


def test_a_missing_arm_leaves_hindsight_undecided(tmp_path: Path) -> None:
    fewer = replace(WORLD, arms=("static_8", "static_16", "sagc"))
    with pytest.raises(NotDecidable, match="arm static_2 is missing"):
        best_static(comparison(tmp_path, fewer))


def test_no_static_arm_below_sagcs_rate_is_said(tmp_path: Path) -> None:
    world = replace(WORLD, rate={"static_2": 0.0, "sagc": 0.1})
    one = comparison(tmp_path, world)
    lifted = {
        key: replace(run, data=replace(run.data, steps=[replace(s, straggler_rate=0.9) for s in run.data.steps]))
        for key, run in one.runs.items()
        if key[0].startswith("static")
    }
    with pytest.raises(NotDecidable, match="every static arm has a straggler rate above SAGC's 0\\.099"):
        best_static_mixture(replace(one, runs={**one.runs, **lifted}))
