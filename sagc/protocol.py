"""What a training loop may ask of any group-size policy: SAGC, static, replay and later ones."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sagc.types import Decision, JsonDict, Observation

State = TypeVar("State")


class Policy(Protocol[State]):
    """A pure rule for the next group size.

    It has no clock, no randomness and no I/O: the same state and observation give the same
    decision, on every machine. State is a value; ``update`` returns a new one.
    """

    name: str

    def init(self) -> tuple[Decision, State]:
        """The decision for training step 1, and the state before it."""
        ...

    def update(self, state: State, observation: Observation) -> tuple[Decision, State]:
        """The decision for the next training step, after one step's observation."""
        ...

    def to_json(self, state: State) -> JsonDict:
        """The state as JSON; `from_json` of it changes no later decision."""
        ...

    def from_json(self, data: JsonDict) -> State:
        """A state saved by `to_json`.

        Raises:
            StateError: if it was saved by another policy or configuration.
        """
        ...

    def describe(self, state: State) -> dict[str, float]:
        """Flat numbers for records and plots (price, posterior, risk per candidate); may be empty."""
        ...
