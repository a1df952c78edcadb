"""The table of claims: what each one measures, on which axes, and from which runs.

| id  | quantity                                                         | supported     | contradicted |
|-----|------------------------------------------------------------------|---------------|--------------|
| C1  | cost, largest static / SAGC                                      | low > 1.5     | high < 1.5   |
| C2a | accuracy, SAGC - largest static                                  | low > -0.03   | high < -0.03 |
| C2b | accuracy, SAGC - best static (chosen on the other seeds)         | low > -0.02   | high < -0.02 |
| C2c | the quantity of C2b under DAPO minus the same under GRPO         | low > 0       | high < 0     |
| C3  | output tokens, SAGC - largest and SAGC - best, no length penalty | both high < 0 | one low > 0  |
| C4  | straggler rate - budget, runs whose price binds                  | high < 0.02   | low > 0.02   |
| C5  | accuracy, SAGC - its shuffle, at matched rollouts                | low > 0       | high < 0     |
| C6  | idle share, SAGC - largest static                                | high < 0      | low > 0      |

The margins stand in `margins.toml`; a test holds this table against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from baselines.algorithms import ALGORITHMS
from reports.evidence import (
    LARGEST,
    Members,
    against,
    against_best,
    against_shuffle,
    cost,
    dapo_minus_grpo,
    idle,
    lengths,
    rate_over_budget,
)
from reports.runs import Comparison, Reproduction
from reports.verdicts import Evidence, Verdict, judge, margins

BUDGET_AXES = ("prompts", "rollouts", "tokens", "modelled_s")
"""The axes of a verdict. Measured CPU-seconds stand beside: a clock would give two reproductions of the same
records two verdicts."""
WHOLE_RUN = "whole run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the table."""

    title: str
    quantity: str
    margin: str
    """Key of the margin in the claim's table of `margins.toml`."""
    claimed_above: bool
    """Whether the claim puts the quantity above the margin."""
    axes: tuple[str, ...]
    evidence: Callable[[Members, str], Evidence]
    """(comparisons, axis) -> intervals."""
    applies: Callable[[Comparison], bool] = lambda _: True
    across_algorithms: bool = False
    """One verdict a task, not one an algorithm."""


def decide_claims(reproduction: Reproduction) -> list[Verdict]:
    """Every claim on every comparison and axis that it speaks of, in the order of the table."""
    return [
        judge(_place(name, claim, members, axis), claim.claimed_above, partial(claim.evidence, members, axis))
        for name, claim in CLAIMS.items()
        for members in _cases(claim, reproduction)
        for axis in claim.axes
    ]


def _cases(claim: Claim, reproduction: Reproduction) -> list[Members]:
    if not claim.across_algorithms:
        return [{one.algorithm: one} for one in reproduction.comparisons if claim.applies(one)]
    tasks: dict[tuple[str, str], dict[str, Comparison]] = {}
    for one in reproduction.comparisons:
        tasks.setdefault((one.engine, one.task), {})[one.algorithm] = one
    return list(tasks.values())


def _place(name: str, claim: Claim, members: Members, axis: str) -> Verdict:
    one = next(iter(members.values()))
    return Verdict(
        claim=name,
        engine=one.engine,
        task=one.task,
        algorithm="dapo - grpo" if claim.across_algorithms else one.algorithm,
        axis=axis,
        margin=margins()[name][claim.margin],
    )


def _of_one(evidence: Callable[[Comparison, str], Evidence]) -> Callable[[Members, str], Evidence]:
    """Evidence from the one comparison that a verdict is about."""

    def wrapped(members: Members, axis: str) -> Evidence:
        (one,) = members.values()
        return evidence(one, axis)

    return wrapped


def _no_length_penalty(one: Comparison) -> bool:
    """DAPO's soft overlong penalty *is* a length penalty, so it cannot show C3."""
    return ALGORITHMS[one.algorithm].overlong_buffer_frac == 0


CLAIMS: dict[str, Claim] = {
    "C1": Claim(
        title="a static large group costs almost twice as much as SAGC",
        quantity=f"cost ratio, {LARGEST} / SAGC, modelled time",
        margin="cost_ratio",
        claimed_above=True,
        axes=tuple(axis for axis in BUDGET_AXES if axis != "modelled_s"),  # at equal time the ratio is 1
        evidence=_of_one(cost),
    ),
    "C2a": Claim(
        title="the quality gain of a large static group is marginal",
        quantity=f"accuracy, SAGC - {LARGEST}",
        margin="accuracy",
        claimed_above=True,
        axes=BUDGET_AXES,
        evidence=_of_one(against(LARGEST, f"SAGC - {LARGEST}")),
    ),
    "C2b": Claim(
        title="SAGC matches or beats the best static group size",
        quantity="accuracy, SAGC - best static, chosen on the other seeds",
        margin="accuracy",
        claimed_above=True,
        axes=BUDGET_AXES,
        evidence=_of_one(against_best),
    ),
    "C2c": Claim(
        title="SAGC's lead over the best static is clearest under DAPO",
        quantity="accuracy, (SAGC - best static) under DAPO - the same under GRPO",
        margin="accuracy",
        claimed_above=True,
        axes=BUDGET_AXES,
        evidence=dapo_minus_grpo,
        across_algorithms=True,
    ),
    "C3": Claim(
        title="SAGC's outputs are shorter without a length penalty",
        quantity=f"output tokens, SAGC - {LARGEST} and SAGC - best static",
        margin="output_tokens",
        claimed_above=False,
        axes=("prompts", "updates"),
        evidence=_of_one(lengths),
        applies=_no_length_penalty,
    ),
    "C4": Claim(
        title="the straggler rate is held at its budget",
        quantity="straggler rate - budget, in runs whose price binds",
        margin="straggler_rate",
        claimed_above=False,
        axes=(WHOLE_RUN,),
        evidence=_of_one(rate_over_budget),
    ),
    "C5": Claim(
        title="adapting is worth more than the sizes it happened to use",
        quantity="accuracy, SAGC - its shuffle",
        margin="accuracy",
        claimed_above=True,
        axes=("rollouts",),
        evidence=_of_one(against_shuffle),
    ),
    "C6": Claim(
        title="time wasted at the barrier is cut",
        quantity=f"idle share of a step, SAGC - {LARGEST}",
        margin="idle_share",
        claimed_above=False,
        axes=(WHOLE_RUN,),
        evidence=_of_one(idle),
    ),
}
