"""What a static arm, or a mixture of them, could have done for someone who knew the results beforehand.

Nobody can play these: they are rows of the report to compare with, and decide no claim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.mixture import best_mixture
from reports.contrasts import difference
from reports.curves import Floats
from reports.facts import straggler_rate
from reports.runs import SAGC, STATIC_ARMS, Comparison, Run
from reports.statistics import Estimate, estimate
from reports.undecidable import NotDecidable

AXIS = "rollouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """One row: SAGC against something chosen after the fact, at matched rollouts."""

    name: str
    made_of: str
    rate: float
    """Its straggler rate, mean over seeds, up to the matched rollouts."""
    sagc_rate: float
    lead: Estimate
    """Accuracy, SAGC - it."""


def best_static(comparison: Comparison) -> Hindsight:
    """SAGC against the static arm that turned out best on all seeds, at matched rollouts.

    Raises:
        NotDecidable: if a run is missing.
    """
    leads, rates, sagc_rate = _points(comparison)
    best = int(np.argmin(leads.mean(axis=1)))  # the smaller G of equals
    return Hindsight(
        name="best static in hindsight",
        made_of=STATIC_ARMS[best],
        rate=float(rates[best]),
        sagc_rate=sagc_rate,
        lead=estimate("SAGC - best static in hindsight", leads[best].tolist()),
    )


def best_static_mixture(comparison: Comparison) -> Hindsight:
    """SAGC against the best mixture of static arms whose straggler rate is at most SAGC's, at matched rollouts.

    max_w sum_a w_a accuracy_a  subject to  sum_a w_a rate_a <= rate of SAGC, w >= 0, sum w = 1. A mixture plays
    whole runs: accuracy and rate are taken to mix linearly. Means over seeds set the weights; the interval is
    over the seeds at these weights.

    Raises:
        NotDecidable: if a run is missing, or every static arm has more stragglers than SAGC.
    """
    leads, rates, sagc_rate = _points(comparison)
    weights = best_mixture(rates, -leads.mean(axis=1), sagc_rate)
    if weights is None:
        raise NotDecidable(f"every static arm has a straggler rate above SAGC's {sagc_rate:.3f}")
    used = np.flatnonzero(weights)
    return Hindsight(
        name="best static mixture in hindsight",
        made_of=" + ".join(f"{weights[i]:.2f} {STATIC_ARMS[i]}" for i in used),
        rate=float(weights @ rates),
        sagc_rate=sagc_rate,
        lead=estimate("SAGC - best static mixture at its rate", (weights @ leads).tolist()),
    )


def _points(comparison: Comparison) -> tuple[Floats, Floats, float]:
    """[arms, seeds] lead of SAGC over each static arm, [arms] mean rates, SAGC's mean rate."""
    runs = comparison.all_seeds([*STATIC_ARMS, SAGC])
    leads = [difference(comparison, "accuracy", AXIS, SAGC, arm).differences for arm in STATIC_ARMS]
    rates = {arm: float(np.mean([_rate_until(comparison, run) for run in of])) for arm, of in runs.items()}
    return np.array(leads), np.array([rates[arm] for arm in STATIC_ARMS]), rates[SAGC]


def _rate_until(comparison: Comparison, run: Run) -> float:
    """Straggler rate of the steps within the matched rollouts: rates fall with training, so longer runs look better."""
    budget = comparison.budget(AXIS, run.key.seed)
    within = int(np.searchsorted(run.curve.used[AXIS], budget, side="right")) - 1
    return straggler_rate(run.data.steps[: max(within, 1)])
