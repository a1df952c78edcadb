"""The controller for people with a training loop of their own: three lines in it are enough."""

from __future__ import annotations

from sagc.config import SagcConfig
from sagc.controller import SagcPolicy, decide
from sagc.types import Decision, JsonDict, Lengths, Observation


class GroupSizeController:
    """Keeps the controller's state between training steps (reference reading of arXiv 2606.02218).

    Example:
        >>> from sagc import GroupSizeController, SagcConfig
        >>> controller = GroupSizeController(SagcConfig(candidates=(4, 8, 16), budget=0.25, threshold=2.0))
        >>> controller.group_size
        8
        >>> decision = controller.observe([[10, 12, 9, 11, 10, 12, 9, 64]] * 8)  # lengths of every rollout
        >>> decision.group_size
        4
    """

    def __init__(self, config: SagcConfig) -> None:
        self._policy = SagcPolicy(config)
        self._decision, self._state = self._policy.init()

    @property
    def config(self) -> SagcConfig:
        """The settings."""
        return self._policy.config

    @property
    def group_size(self) -> int:
        """Rollouts per prompt of the next training step, G."""
        return self._decision.group_size

    @property
    def decision(self) -> Decision:
        """What the next training step should run."""
        return self._decision

    def observe(self, lengths_per_group: Lengths) -> Decision:
        """Take in the step that just ran.

        Args:
            lengths_per_group: length of every rollout that the step waited for, by group, each finite and >= 0:
                an array ``[groups, G]`` or one sequence per group.

        Returns:
            What the next training step should run.

        Raises:
            ObservationError: on lengths that are none; the controller is then as it was.
        """
        self._decision, self._state = self._policy.update(self._state, Observation(lengths_per_group))
        return self._decision

    def describe(self) -> dict[str, float]:
        """Flat numbers for a log: price, posterior, risk per candidate; see `SagcPolicy.describe`."""
        return self._policy.describe(self._state)

    def state_dict(self) -> JsonDict:
        """The state as JSON, for a checkpoint."""
        return self._policy.to_json(self._state)

    def load_state_dict(self, state: JsonDict) -> None:
        """Go on from a saved state; no later decision differs.

        Raises:
            StateError: if it was saved under another config, or is damaged; the controller is then as it was.
        """
        self._state = self._policy.from_json(state)
        self._decision = decide(self.config, self._state)
