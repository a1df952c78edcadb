"""The controller's state: a value, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from sagc.checks import real, whole
from sagc.config import SagcConfig
from sagc.errors import ConfigError, StateError
from sagc.risk import RISK_MODELS, Posterior
from sagc.types import JsonDict


@dataclass(frozen=True, slots=True, kw_only=True)
class SagcState:
    """Everything that a later decision depends on, as JSON values."""

    group_size: int
    """G of the next step."""
    price: float
    """lambda in force for the next step, >= 0."""
    posterior: Posterior
    """Discounted counts of the risk model."""
    dwell_steps: int = 0
    """Steps run at `group_size` since it was chosen."""
    rising_steps: int = 0
    """Latest run of steps that each raised the price at the smallest candidate and stayed there."""
    price_updates: int = 0
    """T: steps that updated the price."""
    steps: int = 0
    """Steps observed, those with no group left included."""
    priced_step: int = 0
    """`steps` at the last update of the price; differs from it after a step with no group left."""
    skipped_groups: int = 0
    """Groups of fewer than two rollouts seen so far."""
    clipped: float = 0.0
    """c_t of the last update of the price, >= 0."""
    straggler_rate: float | None = None
    """Z_t of the last update of the price; None before the first."""


_COUNTERS = ("dwell_steps", "rising_steps", "price_updates", "steps", "priced_step", "skipped_groups")


def state_to_json(config: SagcConfig, state: SagcState) -> JsonDict:
    """The state as JSON, with the fingerprint of the config it belongs to."""
    return {"policy": "sagc", "config": config.fingerprint, **asdict(state)}


def state_from_json(config: SagcConfig, data: object) -> SagcState:
    """A state saved by `state_to_json`; every later decision is the same.

    Raises:
        StateError: if it was saved by another policy, under another config, or is damaged.
    """
    if not isinstance(data, dict) or data.get("policy") != "sagc":
        got = data.get("policy") if isinstance(data, dict) else data
        raise StateError(f"state must be saved by policy 'sagc', got {got!r}; load it with the policy that saved it")
    if data.get("config") != config.fingerprint:
        raise StateError(
            f"state must belong to config {config.fingerprint!r}, got {data.get('config')!r}; "
            "resume with the settings of the saved run, or start anew"
        )
    expected = {field.name for field in fields(SagcState)}
    if data.keys() - {"policy", "config"} != expected:
        raise _damaged(f"its keys differ in {sorted(expected ^ (data.keys() - {'policy', 'config'}))}")
    try:
        return _read(config, data)
    except ConfigError as error:
        raise _damaged(str(error)) from error


def _read(config: SagcConfig, data: JsonDict) -> SagcState:
    posterior, rate = data["posterior"], data["straggler_rate"]
    names = RISK_MODELS[config.risk_model].prior(config.candidates).keys()
    if not isinstance(posterior, dict) or posterior.keys() != names:
        raise _damaged(f"posterior must hold {', '.join(names)}, got {posterior!r}")
    if data["group_size"] not in config.candidates:
        raise _damaged(f"group_size must be one of {config.candidates}, got {data['group_size']!r}")
    counters = {name: whole(name, data[name], at_least=0) for name in _COUNTERS}
    return SagcState(
        group_size=whole("group_size", data["group_size"]),
        price=real("price", data["price"], "at least 0", lambda x: x >= 0),
        posterior={name: real(f"posterior {name}", posterior[name], "at least 0", lambda x: x >= 0) for name in names},
        clipped=real("clipped", data["clipped"], "at least 0", lambda x: x >= 0),
        straggler_rate=None if rate is None else real("straggler_rate", rate, "in [0, 1]", lambda x: 0 <= x <= 1),
        **counters,
    )


def _damaged(what: str) -> StateError:
    return StateError(f"state must be whole, got a damaged one: {what}; use an earlier checkpoint or start anew")
