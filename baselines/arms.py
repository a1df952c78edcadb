"""The table of arms: what chooses the group size in each compared run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sagc.config import SagcConfig
from sagc.controller import SagcPolicy
from sagc.errors import ConfigError
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.protocol import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmContext:
    """What a run hands to its arm."""

    controller: SagcConfig
    """The task's controller settings (candidates, budget, threshold)."""
    seed: int
    """Training seed of the run."""
    schedule: tuple[int, ...] | None = None
    """Group sizes of the finished run that this arm follows, step by step; None where it follows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One row of the comparison."""

    name: str
    summary: str
    make: Callable[[ArmContext], Policy[Any]]
    follows: str | None = None
    """The arm whose finished run of the same task, algorithm and seed gives the schedule."""
    group_size: int | None = None
    """G of a static arm; None for an arm that changes it."""


def _static(group_size: int, note: str = "") -> Arm:
    return Arm(
        name=f"static_{group_size}",
        summary=f"G = {group_size} at every step{note}",
        make=lambda _: StaticPolicy(group_size),
        group_size=group_size,
    )


def _shuffled(context: ArmContext) -> Policy[Any]:
    if not context.schedule:
        raise ConfigError(
            f"schedule must hold the group sizes of a finished SAGC run, got {context.schedule!r}; "
            "run the arm sagc of the same task, algorithm and seed first"
        )
    return ReplayPolicy(context.schedule, shuffle_seed=context.seed)


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        _static(2, "; its straggler rate is 0 by arithmetic at threshold 2"),
        _static(4),
        _static(8),
        _static(16),
        _static(32),
        Arm(
            name="sagc",
            summary="the primal-dual controller chooses G from rollout lengths",
            make=lambda context: SagcPolicy(context.controller),
        ),
        Arm(
            name="shuffled_sagc",
            summary="SAGC's own group sizes in random order: the same mean G without the adaptivity",
            make=_shuffled,
            follows="sagc",
        ),
    )
}
