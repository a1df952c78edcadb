"""The controller: two pure functions, and the same as a `Policy`.

This is a **reference reading** of SAGC (arXiv 2606.02218, "Faster Synchronous On-Policy RL via Straggler-Aware
Group Sizing"): what it watches and when it acts is public, its equations, thresholds and numbers are not.

Order of one step: straggler rate Z_t, risk posterior, price lambda_{t+1}, group size G_{t+1}. It never reads the
reward, has no clock, no randomness and no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sagc.config import SagcConfig
from sagc.dual import update_price
from sagc.risk import RISK_MODELS, Posterior
from sagc.state import SagcState, state_from_json, state_to_json
from sagc.stragglers import straggler_counts
from sagc.types import Decision, JsonDict, Observation
from sagc.utility import utilities


def init(config: SagcConfig) -> tuple[Decision, SagcState]:
    """Start a run: G_1 and lambda_1 come from the config (reference reading of arXiv 2606.02218).

    Args:
        config: the settings.

    Returns:
        The decision for training step 1, and the state before it.
    """
    state = SagcState(
        group_size=config.initial_group_size,
        price=config.initial_price,
        posterior=RISK_MODELS[config.risk_model].prior(config.candidates),
    )
    return decide(config, state), state


def update(config: SagcConfig, state: SagcState, observation: Observation) -> tuple[Decision, SagcState]:
    """Take in one training step and choose the next group size (reference reading of arXiv 2606.02218).

    In this order: Z_t; the posterior; lambda_{t+1} = max(0, lambda_t + eta (Z_t - delta)); then G_{t+1} =
    argmax_g U(g) - lambda_{t+1} p(g), under the limits of `next_group_size`.

    Args:
        config: the settings.
        state: before the step.
        observation: lengths of every rollout that the step waited for.

    Returns:
        The decision for the next step, and the state before it.

    Raises:
        ObservationError: on lengths that are none; the state is a value, so nothing has changed.

    Degenerate cases: a step with no group of two or more rollouts changes only counters (`steps`, and
    `skipped_groups` if there were smaller groups); price, posterior, dwell and decision stay.
    """
    counts = straggler_counts(observation.lengths, config.threshold, config.reference)
    seen = replace(state, steps=state.steps + 1, skipped_groups=state.skipped_groups + counts.skipped_groups)
    if counts.rate is None:
        return decide(config, seen), seen
    model = RISK_MODELS[config.risk_model]
    posterior = model.update(state.posterior, counts, state.group_size, config.forgetting)
    price, clipped = update_price(state.price, counts.rate, config.budget, config.dual_step_size)
    dwell_steps = state.dwell_steps + 1
    group_size = next_group_size(config, posterior, price, state.group_size, dwell_steps)
    rising = price > state.price and state.group_size == group_size == config.candidates[0]
    after = replace(
        seen,
        group_size=group_size,
        price=price,
        posterior=posterior,
        dwell_steps=dwell_steps if group_size == state.group_size else 0,
        rising_steps=state.rising_steps + 1 if rising else 0,
        price_updates=state.price_updates + 1,
        priced_step=seen.steps,
        clipped=clipped,
        straggler_rate=counts.rate,
    )
    return decide(config, after), after


def next_group_size(config: SagcConfig, posterior: Posterior, price: float, group_size: int, dwell_steps: int) -> int:
    """G_{t+1}: the candidate with the best utility after the price of its risk.

    argmax_g U(g) - lambda p(g) over the candidates within `max_notches` of G_t, the smaller g on ties. G stays if
    fewer than `min_dwell` steps have run at it, or if the gain over it is not above `hysteresis`.

    Args:
        config: the settings.
        posterior: after this step.
        price: lambda_{t+1}.
        group_size: G_t, a candidate.
        dwell_steps: steps run at G_t, this one included.
    """
    if dwell_steps < config.min_dwell:
        return group_size
    risks = candidate_risks(config, posterior)
    worth = [
        utility - price * risk
        for utility, risk in zip(utilities(config.utility, config.candidates), risks, strict=True)
    ]
    present = config.candidates.index(group_size)
    return config.candidates[best_candidate(worth, present, config.hysteresis, config.max_notches)]


def best_candidate(worth: Sequence[float], present: int, hysteresis: float, max_notches: int | None) -> int:
    """Index of the candidate to play next.

    Args:
        worth: U(g) - lambda p(g) of each candidate, smallest candidate first.
        present: index of the candidate being played.
        hysteresis: gain that a change must exceed, >= 0.
        max_notches: most indices that a change may move by; None: no limit.

    Returns:
        The argmax within reach, the lower index on ties; `present` if the gain over it is not above `hysteresis`.
    """
    reach = len(worth) if max_notches is None else max_notches
    within = range(max(0, present - reach), min(len(worth), present + reach + 1))
    best = max(within, key=lambda index: worth[index])  # max keeps the first of equals: the smaller g
    return best if worth[best] - worth[present] > hysteresis else present


def candidate_risks(config: SagcConfig, posterior: Posterior) -> list[float]:
    """p(g) of each candidate, in (0, 1]."""
    risk, prior = RISK_MODELS[config.risk_model].risk, config.prior
    return [risk(posterior, group_size, prior) for group_size in config.candidates]


def decide(config: SagcConfig, state: SagcState) -> Decision:
    """The decision that a state stands for; what a resumed run plays next."""
    return Decision(group_size=state.group_size, budget_infeasible=state.rising_steps >= config.infeasible_patience)


class SagcPolicy:
    """The reference reading of SAGC (arXiv 2606.02218) as a `sagc.protocol.Policy`."""

    name = "sagc"

    def __init__(self, config: SagcConfig) -> None:
        self.config = config

    def init(self) -> tuple[Decision, SagcState]:
        """See `sagc.controller.init`."""
        return init(self.config)

    def update(self, state: SagcState, observation: Observation) -> tuple[Decision, SagcState]:
        """See `sagc.controller.update`."""
        return update(self.config, state, observation)

    def to_json(self, state: SagcState) -> JsonDict:
        """The state as JSON, with the fingerprint of the config it belongs to."""
        return state_to_json(self.config, state)

    def from_json(self, data: object) -> SagcState:
        """A state saved by `to_json`.

        Raises:
            StateError: if it was saved by another policy, under another config, or is damaged.
        """
        return state_from_json(self.config, data)

    def describe(self, state: SagcState) -> dict[str, float]:
        """Flat numbers for records and plots.

        `dual_variable` is lambda in force for the next step; `clipped` and `straggler_rate` are those of the step
        that led to the state: 0 and absent before the first step and after a step with no group left.
        """
        priced = state.priced_step == state.steps
        numbers = {
            "group_size": float(state.group_size),
            "dual_variable": state.price,
            "clipped": state.clipped if priced else 0.0,
            "price_updates": float(state.price_updates),
            "empty_steps": float(state.steps - state.price_updates),
            "skipped_groups": float(state.skipped_groups),
            "dwell_steps": float(state.dwell_steps),
            "budget_infeasible": float(decide(self.config, state).budget_infeasible),
        }
        if priced and state.straggler_rate is not None:
            numbers["straggler_rate"] = state.straggler_rate
        risks = candidate_risks(self.config, state.posterior)
        numbers |= {f"risk_{size}": risk for size, risk in zip(self.config.candidates, risks, strict=True)}
        return numbers | {f"posterior_{name}": value for name, value in state.posterior.items()}
