"""Planted fakes: one alteration of the records flips exactly the verdicts that it should, in both directions."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from reports.claims import BUDGET_AXES, decide_claims
from reports.runs import load
from tests.reports import alterations as alter
from tests.reports.alterations import Alteration
from tests.reports.records import World, plan

Planted = tuple[World, list[Path]]
Key = tuple[str, str, str]
"""(claim, algorithm, axis)."""


@dataclass(frozen=True)
class Fake:
    """Alter the runs of an arm; what must then read otherwise, and how."""

    arm: str
    algorithm: str
    alteration: Alteration
    flips: dict[Key, str]


def on_axes(claim: str, algorithm: str, word: str, axes: tuple[str, ...] = BUDGET_AXES) -> dict[Key, str]:
    return {(claim, algorithm, axis): word for axis in axes}


DAPO_LEAD = "dapo - grpo"
AGAINST = {
    "cost of static 32 cut": Fake(
        "static_32", "grpo", alter.scale_cost(0.4), on_axes("C1", "grpo", "contradicted", ("prompts",))
    ),
    "SAGC less accurate": Fake(
        "sagc",
        "grpo",
        alter.shift_accuracy(-0.15),
        {
            **on_axes("C2a", "grpo", "contradicted"),
            **on_axes("C2b", "grpo", "contradicted"),
            **on_axes("C5", "grpo", "contradicted", ("rollouts",)),
        },
    ),
    "SAGC less accurate under DAPO": Fake(
        "sagc",
        "dapo",
        alter.shift_accuracy(-0.3),
        {
            **on_axes("C2a", "dapo", "contradicted"),
            **on_axes("C2b", "dapo", "contradicted"),
            **on_axes("C2c", DAPO_LEAD, "contradicted"),
            **on_axes("C5", "dapo", "contradicted", ("rollouts",)),
        },
    ),
    "a static arm more accurate": Fake(
        "static_8", "grpo", alter.shift_accuracy(0.15), on_axes("C2b", "grpo", "contradicted")
    ),
    "the shuffle more accurate": Fake(
        "shuffled_sagc", "grpo", alter.shift_accuracy(0.15), on_axes("C5", "grpo", "contradicted", ("rollouts",))
    ),
    "SAGC's outputs longer": Fake(
        "sagc", "grpo", alter.lengthen_outputs(5), on_axes("C3", "grpo", "contradicted", ("prompts", "updates"))
    ),
    "outputs of static 32 cut": Fake(
        "static_32", "grpo", alter.lengthen_outputs(-5), on_axes("C3", "grpo", "contradicted", ("prompts", "updates"))
    ),
    "SAGC's rate up": Fake("sagc", "dapo", alter.move_rate(0.1), on_axes("C4", "dapo", "contradicted", ("whole run",))),
    "SAGC's price never binds": Fake(
        "sagc", "dapo", alter.free_price(), on_axes("C4", "dapo", "not decidable", ("whole run",))
    ),
    "SAGC's barriers longer": Fake(
        "sagc", "grpo", alter.stretch_barriers(1.5), on_axes("C6", "grpo", "contradicted", ("whole run",))
    ),
}
FOR = {
    "cost of static 32 up": Fake(
        "static_32",
        "grpo",
        alter.scale_cost(8.0),
        on_axes("C1", "grpo", "supported", ("prompts", "rollouts", "tokens")),
    ),
    "SAGC more accurate under DAPO": Fake(
        "sagc",
        "dapo",
        alter.shift_accuracy(0.35),
        {
            **on_axes("C2a", "dapo", "supported"),
            **on_axes("C2b", "dapo", "supported"),
            **on_axes("C2c", DAPO_LEAD, "supported"),
            **on_axes("C5", "dapo", "supported", ("rollouts",)),
        },
    ),
    "static 32 less accurate": Fake(
        "static_32", "grpo", alter.shift_accuracy(-0.2), on_axes("C2a", "grpo", "supported")
    ),
    "the shuffle less accurate": Fake(
        "shuffled_sagc", "dapo", alter.shift_accuracy(-0.2), on_axes("C5", "dapo", "supported", ("rollouts",))
    ),
    "SAGC's outputs cut": Fake(
        "sagc", "grpo", alter.lengthen_outputs(-6), on_axes("C3", "grpo", "supported", ("prompts", "updates"))
    ),
    "SAGC's rate down": Fake(
        "sagc", "grpo", alter.move_rate(-0.25), on_axes("C4", "grpo", "supported", ("whole run",))
    ),
    "barriers of static 32 longer": Fake(
        "static_32", "dapo", alter.stretch_barriers(1.5), on_axes("C6", "dapo", "supported", ("whole run",))
    ),
}


def read(folders: list[Path], world: World) -> dict[Key, str]:
    return {(v.claim, v.algorithm, v.axis): v.verdict for v in decide_claims(load(folders, plan(world)))}


def flips(planted: Planted, fake: Fake, root: Path) -> dict[Key, str]:
    """The verdicts that the fake changes, in a copy of the records."""
    world, folders = planted
    before = read(folders, world)
    copies = []
    for folder in folders:
        of_the_fake = f"-{fake.algorithm}-{fake.arm}-" in folder.name
        copies.append(Path(shutil.copytree(folder, root / folder.name)) if of_the_fake else folder)
        if of_the_fake:
            fake.alteration(copies[-1])
    after = read(copies, world)
    return {key: after[key] for key in before if after[key] != before[key]}


@pytest.mark.parametrize("name", AGAINST)
def test_a_fake_against_the_method_flips_what_it_should(name: str, favourable: Planted, tmp_path: Path) -> None:
    fake = AGAINST[name]
    assert flips(favourable, fake, tmp_path) == fake.flips


@pytest.mark.parametrize("name", FOR)
def test_a_fake_for_the_method_flips_what_it_should(name: str, unfavourable: Planted, tmp_path: Path) -> None:
    fake = FOR[name]
    assert flips(unfavourable, fake, tmp_path) == fake.flips


def test_every_claim_is_flipped_in_both_directions() -> None:
    claims = {"C1", "C2a", "C2b", "C2c", "C3", "C4", "C5", "C6"}
    for fakes, word in ((AGAINST, "contradicted"), (FOR, "supported")):
        assert {key[0] for fake in fakes.values() for key, to in fake.flips.items() if to == word} == claims


def test_an_alteration_that_would_leave_the_range_is_refused(favourable: Planted, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(favourable[1][0], tmp_path / "copy"))
    with pytest.raises(ValueError, match=r"by must leave accuracies in \[0, 1\]"):
        alter.shift_accuracy(0.9)(folder)
