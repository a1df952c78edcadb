"""Posteriors of straggler risk: how likely a group of each candidate size has a straggler.

Part of the reference reading of arXiv 2606.02218: a posterior of risk per group size is public, its form is not.
Each model is a row of pure functions in `RISK_MODELS`; a posterior is a flat JSON object of numbers (design 2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sagc.stragglers import StragglerCounts

Posterior = dict[str, float]
"""Discounted counts by name; never changed in place."""

PER_SIZE_PRIOR_GROUPS = 2.0
"""Weight of the prior of `beta_per_size`, in groups [ours]."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before any step; it is added when a posterior is read, so it is never forgotten."""

    hits: float
    rollouts: float

    def chance(self, hits: float = 0.0, rollouts: float = 0.0) -> float:
        """q = (s + hits_0) / (n + rollouts_0), in (0, 1)."""
        return (hits + self.hits) / (rollouts + self.rollouts)


@dataclass(frozen=True, slots=True)
class RiskModel:
    """One row of `RISK_MODELS`."""

    prior: Callable[[Sequence[int]], Posterior]
    """(candidates) -> the posterior before any step."""
    update: Callable[[Posterior, StragglerCounts, int, float], Posterior]
    """(posterior, counts of a step with at least one group, its G_t, gamma) -> the posterior after it."""
    risk: Callable[[Posterior, int, Prior], float]
    """(posterior, g, prior) -> p(g) in (0, 1]; exactly 1 only where (1 - q)^g vanishes in floating point."""


def group_risk(chance: float, group_size: int) -> float:
    """p(g) = 1 - (1 - q)^g: at least one of g independent rollouts is a hit."""
    return float(1 - (1 - chance) ** group_size)


def _no_rollouts(candidates: Sequence[int]) -> Posterior:
    return {"hits": 0.0, "rollouts": 0.0}


def _rollout_risk(posterior: Posterior, group_size: int, prior: Prior) -> float:
    return group_risk(prior.chance(posterior["hits"], posterior["rollouts"]), group_size)


def _discount(posterior: Posterior, forgetting: float, hits: float, rollouts: float) -> Posterior:
    """n <- gamma n + N, s <- gamma s + h."""
    return {
        "hits": forgetting * posterior["hits"] + hits,
        "rollouts": forgetting * posterior["rollouts"] + rollouts,
    }


def update_per_rollout(posterior: Posterior, counts: StragglerCounts, group_size: int, forgetting: float) -> Posterior:
    """Learn the chance that one rollout is a hit, from every rollout of the step.

    n <- gamma n + N, s <- gamma s + h; read as q = (s + 2) / (n + 40) and p(g) = 1 - (1 - q)^g.

    Its bias depends on the G being played, because the reference is the median of that group: learned at 4 it
    predicts .11 for 4 (true .11) but .60 for 32 (true .72); learned at 16 to 32 it predicts .17 for 4. The price
    reacts to the observed rate, so the budget does not suffer.
    """
    return _discount(posterior, forgetting, counts.hits, counts.rollouts)


def update_pooled(posterior: Posterior, counts: StragglerCounts, group_size: int, forgetting: float) -> Posterior:
    """Learn the same chance by inverting the observed share of groups with a straggler.

    q_t = 1 - (1 - min(Z_t, 1 - .5 / groups))^(1 / G) counts as q_t N hits of N rollouts. G is the mean size of
    the counted groups, which is G_t unless rollouts failed. Half a group is taken off where every group has a
    straggler, because Z = 1 would invert to q = 1 whatever G is.
    """
    rate = min(counts.straggler_groups / counts.groups, 1 - 0.5 / counts.groups)
    chance = 1 - (1 - rate) ** (counts.groups / counts.rollouts)
    return _discount(posterior, forgetting, chance * counts.rollouts, counts.rollouts)


def _no_groups(candidates: Sequence[int]) -> Posterior:
    return {f"{what}_{size}": 0.0 for size in candidates for what in ("straggler_groups", "groups")}


def update_beta_per_size(
    posterior: Posterior, counts: StragglerCounts, group_size: int, forgetting: float
) -> Posterior:
    """Keep one Beta posterior per candidate: the most literal reading of the source.

    Every candidate is discounted by gamma each step; the one played gains the step's groups and stragglers.
    p(g) = (s_g + 2 p_0(g)) / (n_g + 2) with p_0(g) = 1 - (1 - q_0)^g. A candidate that is not played goes back
    to its prior; in prototypes that made it the worst of the three models.
    """
    updated = {name: forgetting * value for name, value in posterior.items()}
    updated[f"straggler_groups_{group_size}"] += counts.straggler_groups
    updated[f"groups_{group_size}"] += counts.groups
    return updated


def _beta_per_size_risk(posterior: Posterior, group_size: int, prior: Prior) -> float:
    believed = PER_SIZE_PRIOR_GROUPS * group_risk(prior.chance(), group_size)
    stragglers, groups = posterior[f"straggler_groups_{group_size}"], posterior[f"groups_{group_size}"]
    return (stragglers + believed) / (groups + PER_SIZE_PRIOR_GROUPS)


RISK_MODELS: dict[str, RiskModel] = {
    "per_rollout": RiskModel(_no_rollouts, update_per_rollout, _rollout_risk),  # the default [ours]
    "pooled": RiskModel(_no_rollouts, update_pooled, _rollout_risk),
    "beta_per_size": RiskModel(_no_groups, update_beta_per_size, _beta_per_size_risk),
}
