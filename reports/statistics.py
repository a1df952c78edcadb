"""Intervals for few, paired seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from reports.curves import Floats
from reports.undecidable import NotDecidable

LEVEL = 0.95
"""Of every interval."""
PERCENT = f"{100 * LEVEL:.0f} %"
BOOTSTRAP_FROM = 10
"""Seeds from which on a percentile bootstrap is shown: of 3 values it covers 67 %, not 95 %."""
_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number with what is known about its spread over seeds."""

    label: str
    value: float
    low: float | None
    """Lower end of the Student t interval; None where fewer than two seeds give none."""
    high: float | None
    n: int
    """Training seeds behind it."""
    clustered_se: float | None = None
    """Standard error over the evaluation problems, each one averaged over the seeds first; in the unit of `value`."""
    bootstrap: tuple[float, float] | None = None
    """Percentile bootstrap over seeds, from 10 seeds on; shown, never decided from."""


def student(values: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Mean and Student t interval, mean +- t(n - 1) s / sqrt(n), along the last axis.

    Args:
        values: [..., n] seed-paired differences, n at least 2.

    Returns:
        (mean, lower end, upper end), each [...].

    Degenerate cases: n differences that are all equal give an interval of width 0; one difference has no interval
    and must not come here.
    """
    n = values.shape[-1]
    mean = values.mean(axis=-1)
    half = stats.t.ppf(0.5 + LEVEL / 2, n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def estimate(
    label: str,
    differences: Sequence[float],
    *,
    problems: Sequence[Floats] = (),
    log: bool = False,
) -> Estimate:
    """A mean over seeds with its interval.

    Args:
        label: what it is, in words.
        differences: one a seed; ratios where `log` is true.
        problems: per seed, the difference on each problem (for the standard error clustered by problem).
        log: average log ratios and return to ratios, for costs.

    Raises:
        NotDecidable: if a difference is NaN or infinite: it must neither rank nor vanish.

    Degenerate cases: no interval from one seed; no clustered error from one problem.
    """
    values = np.log(differences) if log else np.asarray(differences, dtype=float)
    if not np.isfinite(values).all():
        raise NotDecidable(f"{label} is not a finite number in every seed: {', '.join(map(str, differences))}")
    back = np.exp if log else np.asarray
    n = len(values)
    low = high = None
    if n >= 2:
        _, lower, upper = student(values)
        low, high = float(back(lower)), float(back(upper))
    return Estimate(
        label=label,
        value=float(back(values.mean())),
        low=low,
        high=high,
        n=n,
        clustered_se=clustered_se(problems) if problems else None,
        bootstrap=_bootstrap(values, back) if n >= BOOTSTRAP_FROM else None,
    )


def clustered_se(problems: Sequence[Floats]) -> float | None:
    """Standard error of the mean over problems, s / sqrt(m), after averaging each problem over the seeds.

    Every run is evaluated on the same problems, so the seeds of one problem are one cluster.

    Args:
        problems: per seed, the value on each problem; cut to the problems that all seeds have.

    Returns:
        None for fewer than two problems.
    """
    common = min(len(values) for values in problems)
    if common < 2:
        return None
    per_problem = np.mean([values[:common] for values in problems], axis=0)
    return float(per_problem.std(ddof=1) / np.sqrt(common))


def _bootstrap(values: Floats, back: Any) -> tuple[float, float]:
    rng = np.random.default_rng(0)  # fixed: the same records give the same report
    means = rng.choice(values, size=(_RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return float(back(low)), float(back(high))
