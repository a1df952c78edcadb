"""How often an interval covers the truth, by simulation on the real choice and the real interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reports.contrasts import best_on_the_others
from reports.curves import Floats
from reports.statistics import student

DRAWS = 2_000


def best_static_coverage(static: Floats, sagc: Floats, draws: int = DRAWS) -> float:
    """Share of simulated reproductions whose interval of C2b covers the true lead over the best static arm.

    Each draw is a reproduction with the observed arm means as truth and normal seed noise of the observed spread;
    the best static is chosen on the other seeds and the t interval taken exactly as for the verdict. The truth
    is SAGC's mean minus the highest static mean.

    Args:
        static: [arms, seeds] values of the static arms, at least two seeds.
        sagc: [seeds] values of SAGC.
        draws: simulated reproductions; the seed is fixed, so the same values give the same share.

    Degenerate cases: without any spread every interval is a point at the truth and the coverage is 1.
    """
    arms, arm = draw_reproductions(static, sagc, draws)
    low, high = lead_over_best(arms, arm)
    truth = sagc.mean() - static.mean(axis=1).max()
    slack = 1e-12  # a point interval must not miss its truth by rounding
    return float(np.mean((low <= truth + slack) & (truth - slack <= high)))


def lead_over_best(static: NDArray[np.float64], sagc: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """The interval of C2b for each of many reproductions.

    Args:
        static: [draws, arms, seeds].
        sagc: [draws, seeds].

    Returns:
        (lower ends, upper ends), each [draws].
    """
    chosen = np.take_along_axis(static, best_on_the_others(static)[:, None, :], axis=1)[:, 0, :]
    _, low, high = student(sagc - chosen)
    return low, high


def draw_reproductions(static: Floats, sagc: Floats, draws: int) -> tuple[Floats, Floats]:
    """Simulated values around the observed means.

    The spread of an arm is taken after removing what all arms of a seed share, because pairing by seed removes
    it from every contrast.
    """
    rng = np.random.default_rng(0)
    every = np.vstack([static, sagc])
    shared = every.mean(axis=0, keepdims=True) - every.mean()
    arms, seeds = every.shape
    # a residual of an arms x seeds table keeps (1 - 1/arms)(1 - 1/seeds) of its variance
    spread = np.sqrt(((every - shared - every.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / (seeds - 1))
    spread *= np.sqrt(arms / (arms - 1))
    noise = rng.standard_normal((draws, arms, seeds)) * spread[:, None]
    drawn = every.mean(axis=1)[:, None] + noise
    return drawn[:, :-1, :], drawn[:, -1, :]
