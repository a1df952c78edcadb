"""Policies to compare SAGC with: one group size for ever, and the replay of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagc.checks import whole
from sagc.errors import ConfigError, StateError
from sagc.types import Decision, JsonDict, Observation

_SCHEDULE_STREAM = 0x5A6C  # second word of the Philox key, so that no other use of the seed draws these numbers


class StaticPolicy:
    """The same group size at every step.

    Args:
        group_size: G >= 1; 1 and 2 are allowed here, unlike as SAGC candidates.

    Raises:
        ConfigError: on anything but a whole number >= 1.
    """

    name = "static"

    def __init__(self, group_size: int) -> None:
        self.group_size = whole("group_size", group_size)

    def init(self) -> tuple[Decision, None]:
        """G, and no state."""
        return Decision(group_size=self.group_size), None

    def update(self, state: None, observation: Observation) -> tuple[Decision, None]:
        """G again, whatever the step showed."""
        return self.init()

    def to_json(self, state: None) -> JsonDict:
        """What the policy is: there is nothing else to save."""
        return {"policy": self.name, "group_size": self.group_size}

    def from_json(self, data: object) -> None:
        """Check that `data` was saved by a static policy of the same size.

        Raises:
            StateError: if it was not.
        """
        if data != self.to_json(None):
            raise StateError(f"state must be {self.to_json(None)}, got {data!r}; load it with the policy that saved it")

    def describe(self, state: None) -> dict[str, float]:
        """Nothing: the group size is in every record."""
        return {}


@dataclass(frozen=True, slots=True)
class ReplayState:
    """How far a schedule has been played."""

    position: int
    """Steps played before the next one, over all cycles."""


class ReplayPolicy:
    """The group sizes of a schedule, step by step, as they stand or in random order.

    With a seed, each pass through the schedule (a cycle) plays all of it in a random order of its own, fixed by
    (seed, cycle): the same sizes as often as the original, without what it reacted to. Without one it is
    repeated as it stands.

    Args:
        schedule: group sizes, each >= 1, at least one.
        shuffle_seed: a whole number >= 0, or None.

    Raises:
        ConfigError: on an empty schedule, or on a size or seed that is none.

    Degenerate cases: a schedule of one size is a static policy; a schedule that runs out starts again, with a
    new order where it is shuffled.
    """

    name = "replay"

    def __init__(self, schedule: Sequence[int], shuffle_seed: int | None = None) -> None:
        self.schedule = tuple(whole("schedule", group_size) for group_size in schedule)
        if not self.schedule:
            raise ConfigError("schedule must hold at least one group size, got none; hand over a finished run's sizes")
        self.shuffle_seed = None if shuffle_seed is None else whole("shuffle_seed", shuffle_seed, at_least=0)

    def init(self) -> tuple[Decision, ReplayState]:
        """The first size of the schedule, or of its first random order."""
        return self._at(0)

    def update(self, state: ReplayState, observation: Observation) -> tuple[Decision, ReplayState]:
        """The next size, whatever the step showed."""
        return self._at(state.position + 1)

    def to_json(self, state: ReplayState) -> JsonDict:
        """The position, with the schedule and seed it belongs to."""
        return {**self._identity(), "position": state.position}

    def from_json(self, data: object) -> ReplayState:
        """A state saved by `to_json`.

        Raises:
            StateError: if it belongs to another policy, schedule or seed, or is damaged.
        """
        identity = self._identity()
        if not isinstance(data, dict) or {name: data.get(name) for name in identity} != identity:
            raise StateError(
                f"state must belong to this schedule of {len(self.schedule)} steps and seed {self.shuffle_seed}, "
                f"got {str(data)[:120]!r}; load it with the policy that saved it"
            )
        try:
            return ReplayState(position=whole("position", data.get("position"), at_least=0))
        except ConfigError as error:
            raise StateError(str(error)) from error

    def describe(self, state: ReplayState) -> dict[str, float]:
        """`schedule_cycle`: how often the schedule has been played through."""
        return {"schedule_cycle": float(state.position // len(self.schedule))}

    def _at(self, position: int) -> tuple[Decision, ReplayState]:
        cycle, index = divmod(position, len(self.schedule))
        if self.shuffle_seed is not None:
            index = _order(self.shuffle_seed, cycle, len(self.schedule))[index]
        return Decision(group_size=self.schedule[index]), ReplayState(position=position)

    def _identity(self) -> JsonDict:
        return {"policy": self.name, "schedule": list(self.schedule), "shuffle_seed": self.shuffle_seed}


def _order(seed: int, cycle: int, length: int) -> list[int]:
    """A random order of `length` positions that depends on (seed, cycle) alone.

    It sorts raw Philox words, whose values numpy guarantees across versions, unlike those of `permutation`.
    """
    bits = np.random.Philox(key=[seed, _SCHEDULE_STREAM], counter=[0, 0, 0, cycle])
    order: list[int] = np.argsort(bits.random_raw(length), kind="stable").tolist()
    return order
