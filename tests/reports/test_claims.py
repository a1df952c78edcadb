from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.store import CONFIG, EVALUATIONS, OUTCOME, STEPS, RecordError, read_json, write_json
from reports import claims
from reports.claims import BUDGET_AXES, CLAIMS, decide_claims
from reports.runs import load
from reports.statistics import Estimate
from reports.verdicts import Verdict, decide, margins
from tests.reports.records import World, plan, write

Planted = tuple[World, list[Path]]
Found = dict[tuple[str, str, str], Verdict]


def verdicts(folders: list[Path], world: World) -> Found:
    return {(v.claim, v.algorithm, v.axis): v for v in decide_claims(load(folders, plan(world)))}


def words(planted: Planted) -> dict[str, set[str]]:
    """Claim -> the verdicts that it gets anywhere."""
    world, folders = planted
    found: dict[str, set[str]] = {}
    for (claim, _, _), verdict in verdicts(folders, world).items():
        found.setdefault(claim, set()).add(verdict.verdict)
    return found


@pytest.mark.parametrize(
    ("low", "high", "margin", "above", "word"),
    [
        (0.1, 0.3, 0.0, True, "supported"),
        (-0.3, -0.1, 0.0, True, "contradicted"),
        (-0.1, 0.1, 0.0, True, "inconclusive"),
        (-0.3, -0.1, 0.0, False, "supported"),
        (0.1, 0.3, 0.0, False, "contradicted"),
        (0.0, 0.3, 0.0, True, "inconclusive"),  # an end on the margin is on neither side
        (-0.3, 0.0, 0.0, True, "inconclusive"),
        (0.0, 0.0, 0.0, True, "inconclusive"),
        (-0.01, 0.5, -0.02, True, "supported"),
        (None, None, 0.0, True, "not decidable"),
    ],
)
def test_a_verdict_follows_from_the_interval_alone(
    low: float | None, high: float | None, margin: float, above: bool, word: str
) -> None:
    assert decide([Estimate(label="", value=0.0, low=low, high=high, n=3)], margin, above) == word


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ((-2, -1), (-2, -1), "supported"),
        ((-2, -1), (-2, 1), "inconclusive"),
        ((-2, -1), (1, 2), "contradicted"),
        ((-1, 1), (1, 2), "contradicted"),
    ],
)
def test_two_intervals_must_both_support_and_one_contradicts(
    first: tuple[float, float], second: tuple[float, float], word: str
) -> None:
    both = [Estimate(label="", value=0.0, low=low, high=high, n=3) for low, high in (first, second)]
    assert decide(both, 0.0, claimed_above=False) == word


def test_a_method_that_does_well_is_supported(favourable: Planted) -> None:
    found = words(favourable)
    for claim in ("C2a", "C2b", "C2c", "C3", "C4", "C5"):
        assert found[claim] == {"supported"}, claim


def test_a_method_that_does_badly_is_contradicted(unfavourable: Planted) -> None:
    found = words(unfavourable)
    for claim in ("C1", "C2a", "C2b", "C2c", "C3", "C4", "C5"):
        assert found[claim] == {"contradicted"}, claim


def test_equal_arms_are_never_contradicted_in_quality_and_never_better(equal: Planted) -> None:
    found = words(equal)
    for claim in ("C2a", "C2b"):
        assert found[claim] <= {"supported", "inconclusive"}, claim
    for claim in ("C2c", "C3", "C5"):
        assert found[claim] == {"inconclusive"}, claim


def test_cost_follows_rollouts_so_c1_depends_on_the_axis(equal: Planted) -> None:
    world, folders = equal
    found = verdicts(folders, world)
    prompts, rollouts = found["C1", "grpo", "prompts"], found["C1", "grpo", "rollouts"]
    assert prompts.verdict == "supported"
    assert prompts.estimates[0].value == pytest.approx(3.0, abs=0.05)  # 32 rollouts a prompt against 10.7
    assert rollouts.verdict == "contradicted"
    assert rollouts.estimates[0].value == pytest.approx(1.0, abs=0.02)
    assert prompts.beside[0].value == pytest.approx(prompts.estimates[0].value)


def test_claims_speak_of_the_axes_that_the_design_gives_them(equal: Planted) -> None:
    world, folders = equal
    axes: dict[str, set[str]] = {}
    for claim, _, axis in verdicts(folders, world):
        axes.setdefault(claim, set()).add(axis)
    assert axes == {
        "C1": {"prompts", "rollouts", "tokens"},
        "C2a": set(BUDGET_AXES),
        "C2b": set(BUDGET_AXES),
        "C2c": set(BUDGET_AXES),
        "C3": {"prompts", "updates"},
        "C4": {"whole run"},
        "C5": {"rollouts"},
        "C6": {"whole run"},
    }


def test_c3_is_not_decided_under_a_length_penalty(equal: Planted) -> None:
    world, folders = equal
    assert {algorithm for claim, algorithm, _ in verdicts(folders, world) if claim == "C3"} == {"grpo"}


def test_c6_reads_the_idle_share_of_whole_runs(equal: Planted) -> None:
    # static 32 under DAPO: a filtered group of plain rollouts is a barrier of its own, of equal lengths
    world, folders = equal
    assert verdicts(folders, world)["C6", "dapo", "whole run"].verdict == "contradicted"
    assert verdicts(folders, world)["C6", "grpo", "whole run"].verdict == "supported"


def test_a_verdict_names_every_run_that_it_used(equal: Planted) -> None:
    world, folders = equal
    found = verdicts(folders, world)
    assert len(found["C2a", "grpo", "prompts"].run_ids) == 2 * 3
    assert len(found["C2b", "grpo", "prompts"].run_ids) == 6 * 3
    assert len(found["C2c", "dapo - grpo", "prompts"].run_ids) == 2 * 6 * 3
    assert len(found["C4", "dapo", "whole run"].run_ids) == 3
    assert all("shuffled" in run or "-sagc-" in run for run in found["C5", "grpo", "rollouts"].run_ids)


def test_the_best_static_is_chosen_on_the_other_seeds(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",), accuracy={"static_4": 0.7}, accuracy_spread=0.01)
    found = verdicts(write(tmp_path, world), world)["C2b", "grpo", "rollouts"]
    assert "static_4 for seed 0, static_4 for seed 1, static_4 for seed 2" in found.note
    assert re.search(r"measured coverage of this interval \d+\.\d %", found.note)
    assert found.estimates[0].value == pytest.approx(-0.1, abs=0.02)


def test_a_missing_arm_leaves_its_claims_undecided_and_no_others(equal: Planted) -> None:
    world, folders = equal
    fewer = replace(world, arms=[arm for arm in world.arms if arm != "static_32"])
    found = verdicts([folder for folder in folders if "static_32" not in folder.name], fewer)
    undecided = {key[0] for key, v in found.items() if v.verdict == "not decidable"}
    assert undecided == {"C1", "C2a", "C2b", "C2c", "C3", "C6"}
    assert found["C1", "grpo", "prompts"].reason == "arm static_32 is missing for grpo on steady"
    assert {found["C5", "grpo", "rollouts"].verdict, found["C4", "grpo", "whole run"].verdict} <= {
        "supported",
        "inconclusive",
    }


def test_a_missing_seed_is_not_papered_over(equal: Planted) -> None:
    world, folders = equal
    found = verdicts([f for f in folders if "grpo-static_32-torch_cpu-s1" not in f.name], world)
    assert found["C2a", "grpo", "prompts"].verdict == "not decidable"
    assert found["C2a", "grpo", "prompts"].reason == "the run of static_32, seed 1, is missing for grpo on steady"
    assert found["C2a", "dapo", "prompts"].verdict != "not decidable"
    assert found["C2c", "dapo - grpo", "prompts"].verdict == "not decidable"
    assert found["C4", "grpo", "whole run"].verdict == "supported"


def test_a_missing_algorithm_leaves_c2c_undecided(equal: Planted) -> None:
    world, folders = equal
    found = verdicts([f for f in folders if "-grpo-" in f.name], replace(world, algorithms=("grpo",)))
    assert {v.reason for key, v in found.items() if key[0] == "C2c"} == {"algorithm dapo is missing"}


def test_an_unfinished_run_leaves_its_claims_undecided(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",))
    folders = write(tmp_path, world)
    (next(f for f in folders if "-sagc-torch_cpu-s2" in f.name) / OUTCOME).unlink()
    found = verdicts(folders, world)
    assert {v.verdict for v in found.values()} == {"not decidable"}
    assert "is unfinished" in found["C4", "grpo", "whole run"].reason


def test_one_seed_gives_numbers_and_no_verdict(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",), seeds=(0,))
    found = verdicts(write(tmp_path, world), world)
    assert {v.verdict for v in found.values()} == {"not decidable"}
    alone = found["C2a", "grpo", "prompts"]
    assert alone.reason == "one seed gives no interval"
    assert alone.estimates[0].low is None
    assert found["C2b", "grpo", "prompts"].reason == (
        "choosing the best static arm on the other seeds needs at least 2 seeds"
    )


def test_a_rate_under_a_price_that_does_not_bind_decides_nothing(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",), arms=("sagc",), rate={"sagc": 0.02}, initial_price=0.3)
    found = verdicts(write(tmp_path, world), world)["C4", "grpo", "whole run"]
    assert found.verdict == "not decidable"
    assert found.reason.startswith("0 of 3 runs have a binding price, 2 are needed; not binding: ")


def test_a_shuffle_of_another_run_is_stale(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",), arms=("sagc", "shuffled_sagc"))
    folders = write(tmp_path, world)
    stale = next(folder for folder in folders if "shuffled" in folder.name)
    config = read_json(stale / CONFIG)
    write_json(stale / CONFIG, {**config, "spec": {**config["spec"], "schedule_source": "an-older-run"}})
    found = verdicts(folders, world)["C5", "grpo", "rollouts"]
    assert found.verdict == "not decidable"
    assert "shuffles an-older-run, not" in found.reason


def test_a_nan_never_ranks_best_and_is_never_decided_from(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",))
    folders = write(tmp_path, world)
    for folder in folders:
        if "-sagc-torch_cpu-s0" in folder.name:
            path = folder / STEPS
            path.write_text(re.sub(r'"straggler_rate":[\d.]+', '"straggler_rate":NaN', path.read_text()))
    found = verdicts(folders, world)
    assert found["C2a", "grpo", "prompts"].verdict == "supported"
    assert found["C4", "grpo", "whole run"].verdict == "not decidable"
    assert found["C4", "grpo", "whole run"].reason.startswith("rate - budget is not a finite number in every seed: nan")


def test_an_accuracy_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",))
    folders = write(tmp_path, world)
    path = next(folder for folder in folders if "-static_4-" in folder.name) / EVALUATIONS
    path.write_text(path.read_text().replace('"right":[1,', '"right":[NaN,'))
    with pytest.raises(RecordError, match=r"static_4-.*line 1 .*right must be a whole number"):
        verdicts(folders, world)


def test_the_source_table_shows_the_margins_that_are_used() -> None:
    rows = {line.split("|")[1].strip(): line for line in (claims.__doc__ or "").splitlines() if line.startswith("| C")}
    assert rows.keys() == CLAIMS.keys() == margins().keys()
    for name, claim in CLAIMS.items():
        margin = margins()[name][claim.margin]
        sides = re.findall(r"(low|high) ([<>]) (-?[\d.]+)", rows[name])
        assert [float(number) for _, _, number in sides] == [margin, margin], name
        assert [(end, sign) for end, sign, _ in sides] == (
            [("low", ">"), ("high", "<")] if claim.claimed_above else [("high", "<"), ("low", ">")]
        )
