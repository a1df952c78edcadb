"""What `trainer.sagc` says in a verl config, and which verl settings it cannot go with. Imports no verl.

    +trainer.sagc.candidates=[4,8,16] +trainer.sagc.budget=0.25

Keys of `trainer.sagc`: those of `VerlSettings.KEYS`, and every setting of `sagc.config.SagcConfig` but
`rollouts_per_step`, which is `data.train_batch_size` x `rollout.n`. Defaults here: `threshold` 3, and `rollout.n`
for `initial_group_size` and for the `group_size` of a static policy. A policy carries the keys that it does not use,
so that runs that differ in the policy alone differ in its own keys alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from sagc.checks import real, whole
from sagc.config import SagcConfig
from sagc.controller import SagcPolicy
from sagc.errors import ConfigError, unknown_name
from sagc.integrations.verl_checks import at, check_rows, check_supported
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.protocol import Policy
from sagc.stragglers import REFERENCES, Reference
from sagc.types import Decision

VerlBatchPolicy = Literal["fixed_rollouts", "fixed_prompts"]
DEFAULT_THRESHOLD = 3.0  # [ours]: at 2 the public DAPO trace breaks a budget of .25 at every candidate
CONTROLLER_KEYS = tuple(field.name for field in fields(SagcConfig) if field.name != "rollouts_per_step")
DEFAULT_REFILL_ROUNDS = 4  # [ours]; verl has no bound


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlSettings:
    """`trainer.sagc`, resolved against the rest of the verl config."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "policy",
        "group_size",
        "batch_policy",
        "schedule",
        "shuffle_seed",
        "max_refill_rounds",
        "poll_interval_s",
    )

    policy: Policy[Any]
    group_sizes: tuple[int, ...]
    """Every group size that the policy may choose."""
    train_batch_size: int
    """`data.train_batch_size`: prompts of a step under `fixed_prompts`."""
    nominal_group_size: int
    """`actor_rollout_ref.rollout.n`; with `train_batch_size` it fixes the rollouts of a step."""
    threshold: float
    """tau of the straggler rate in the metrics, for every policy."""
    reference: Reference
    batch_policy: VerlBatchPolicy = "fixed_rollouts"
    max_refill_rounds: int = DEFAULT_REFILL_ROUNDS
    """Dynamic sampling: batches of P refilled prompts after which a step filters no more."""
    poll_interval_s: float | None = None
    """Seconds between two looks at the rollouts; None: verl's own 2 s."""

    @property
    def rollouts_per_step(self) -> int:
        """N of `fixed_rollouts`."""
        return self.train_batch_size * self.nominal_group_size

    def prompts(self, decision: Decision) -> int:
        """P of the step that a decision asks for.

        Raises:
            ConfigError: if G does not divide the rollouts of a step.
        """
        if decision.num_prompts is not None:
            return decision.num_prompts
        if self.batch_policy == "fixed_prompts":
            return self.train_batch_size
        _check_divides(self.rollouts_per_step, decision.group_size)
        return self.rollouts_per_step // decision.group_size


def read_settings(config: Mapping[str, Any], *, uses_critic: bool) -> VerlSettings:
    """The settings of a resolved verl config, checked with everything around them.

    Args:
        config: the whole verl config as plain dictionaries.
        uses_critic: what verl's own `need_critic` says of it.

    Raises:
        ConfigError: on an unknown or bad key of `trainer.sagc`, and on every verl setting that cannot be
            honoured; the text names the cure.
    """
    check_supported(config, uses_critic=uses_critic)
    given = dict(at(config, "trainer.sagc") or {})
    own = {key: given.pop(key) for key in VerlSettings.KEYS if key in given}
    for key in given:
        if key not in CONTROLLER_KEYS:
            raise unknown_name("key of trainer.sagc", key, [*VerlSettings.KEYS, *CONTROLLER_KEYS])
    reference = given.get("reference", "group")
    if reference not in REFERENCES:
        raise unknown_name("trainer.sagc.reference", reference, REFERENCES)
    batch_policy = own.get("batch_policy", "fixed_rollouts")
    if batch_policy not in get_args(VerlBatchPolicy):
        raise unknown_name("trainer.sagc.batch_policy", batch_policy, get_args(VerlBatchPolicy))
    train_batch_size = whole("data.train_batch_size", at(config, "data.train_batch_size"))
    group_size = whole("actor_rollout_ref.rollout.n", at(config, "actor_rollout_ref.rollout.n"), at_least=2)
    rollouts = train_batch_size * group_size if batch_policy == "fixed_rollouts" else None
    policy, sizes = _policy(own, given, group_size, rollouts)
    poll = own.get("poll_interval_s")
    settings = VerlSettings(
        policy=policy,
        group_sizes=sizes,
        train_batch_size=train_batch_size,
        nominal_group_size=group_size,
        threshold=real("trainer.sagc.threshold", given.get("threshold", DEFAULT_THRESHOLD), "above 1", lambda x: x > 1),
        reference=reference,
        batch_policy=batch_policy,
        max_refill_rounds=whole(
            "trainer.sagc.max_refill_rounds", own.get("max_refill_rounds", DEFAULT_REFILL_ROUNDS), at_least=0
        ),
        poll_interval_s=None
        if poll is None
        else real("trainer.sagc.poll_interval_s", poll, "above 0", lambda x: x > 0),
    )
    # the rows of a step follow G only where the prompts are fixed
    check_rows(config, train_batch_size, (group_size,) if rollouts is not None else sizes)
    return settings


def _policy(
    own: Mapping[str, Any], controller: Mapping[str, Any], group_size: int, rollouts: int | None
) -> tuple[Policy[Any], tuple[int, ...]]:
    """The policy by name, and every size it may choose."""
    name = own.get("policy", "sagc")
    if name not in _POLICIES:
        raise unknown_name("trainer.sagc.policy", name, _POLICIES)
    return _POLICIES[name](own, controller, group_size, rollouts)


def _sagc(
    own: Mapping[str, Any], controller: Mapping[str, Any], group_size: int, rollouts: int | None
) -> tuple[Policy[Any], tuple[int, ...]]:
    defaults = {"threshold": DEFAULT_THRESHOLD, "initial_group_size": group_size, "rollouts_per_step": rollouts}
    config = SagcConfig.from_mapping({**defaults, **controller})
    return SagcPolicy(config), config.candidates


def _static(
    own: Mapping[str, Any], controller: Mapping[str, Any], group_size: int, rollouts: int | None
) -> tuple[Policy[Any], tuple[int, ...]]:
    size = whole("trainer.sagc.group_size", own.get("group_size", group_size), at_least=2)
    if rollouts is not None:
        _check_divides(rollouts, size)
    return StaticPolicy(size), (size,)


def _replay(
    own: Mapping[str, Any], controller: Mapping[str, Any], group_size: int, rollouts: int | None
) -> tuple[Policy[Any], tuple[int, ...]]:
    policy = ReplayPolicy(own.get("schedule") or (), own.get("shuffle_seed"))
    sizes = tuple(sorted(set(policy.schedule)))
    for size in sizes:
        whole("trainer.sagc.schedule", size, at_least=2)  # a group of one has no advantage
        if rollouts is not None:
            _check_divides(rollouts, size)
    return policy, sizes


_POLICIES: dict[
    str,
    Callable[[Mapping[str, Any], Mapping[str, Any], int, int | None], tuple[Policy[Any], tuple[int, ...]]],
] = {"sagc": _sagc, "static": _static, "replay": _replay}


def _check_divides(rollouts: int, size: int) -> None:
    if rollouts % size:
        raise ConfigError(
            f"group size must divide the rollouts of a step ({rollouts} = data.train_batch_size x rollout.n), "
            f"got {size}; choose sizes that divide it, or trainer.sagc.batch_policy=fixed_prompts"
        )
