"""Sensitivity of SAGC to every number that is [ours]: one at a time, on recorded rollout lengths, without training.

A run with large groups is a pool: its groups, in the order in which they were drawn, stand for what prompts gave at
that share of the run. A replay steps through it: at step t of T it takes P_t groups from those nearest to t / T and
G_t rollouts of each, lets the controller see them, and goes on with its decision. Every setting meets the same
draws. What a replay cannot show is how G changes the training and so the lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.mixture import best_mixture
from benchmarks.store import RunData
from sagc.config import SagcConfig
from sagc.controller import SagcPolicy
from sagc.errors import ConfigError
from sagc.stragglers import straggler_counts
from sagc.types import Observation
from sagc.utility import utilities

WINDOW = 32
"""Groups around a share of the run that its draws come from; more where a step needs more [ours]."""
REPEATS = 5
"""Replays of each recorded run, each with draws of its own [ours]."""
Lengths = NDArray[np.int64]

VARIANTS: tuple[Mapping[str, Any], ...] = (
    *({"dual_step_size": value} for value in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)),
    *({"forgetting": value} for value in (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)),
    *({"hysteresis": value} for value in (0.0, 0.02, 0.05, 0.1, 0.2)),
    *({"min_dwell": value} for value in (1, 2, 5, 10)),
    *({"initial_price": value} for value in (0.0, 0.5, 1.0, 2.0)),
    *({"initial_group_size": value} for value in (4, 8, 16, 32)),
    *({"prior_hits": hits, "prior_rollouts": rollouts} for hits, rollouts in ((0.4, 40), (2, 40), (8, 40), (20, 400))),
    *({"threshold": value} for value in (1.5, 2.0, 2.5, 3.0)),
    *({"budget": value} for value in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)),
    *({"risk_model": value} for value in ("per_rollout", "pooled", "beta_per_size")),
    *({"utility": value} for value in ("log", "inverse", "sqrt", "inverse_sqrt")),
    *({"max_notches": value} for value in (None, 1, 2)),
    *({"reference": value} for value in ("group", "step")),
)
"""Settings that differ from the recorded ones; those that do not are left out of a sweep.

`infeasible_patience` is not among them: it decides when a warning is given and nothing else.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One setting, mean over recorded runs and their repeats."""

    setting: str
    """`name = value`; `as recorded` for the first row."""
    straggler_rate: float
    """Mean over steps."""
    budget: float
    mean_group_size: float
    """Mean of G over steps."""
    utility: float
    """Mean of U(G) over steps, by the recorded utility whatever the setting, so that rows compare."""
    mixture_lead: float | None
    """`utility` minus that of the best mixture of static candidates at no higher rate; None where every candidate
    has a higher rate in some replay."""
    switches_per_step: float
    binding_share: float
    """Share of steps under a price above 0."""


@dataclass(frozen=True, slots=True)
class _Course:
    """The draws that every setting meets: for each step, groups [window, largest] in random order."""

    steps: tuple[Lengths, ...]

    def observe(self, step: int, prompts: int, group_size: int) -> Lengths:
        return self.steps[step][:prompts, :group_size]


def sweep(runs: Sequence[RunData], variants: Sequence[Mapping[str, Any]] = VARIANTS) -> list[SweepRow]:
    """Replay every variant of the recorded controller settings.

    Args:
        runs: runs with groups at least as large as the largest candidate, e.g. of arm static_32, that share
            one configuration.
        variants: changed settings, one replay each.

    Returns:
        The recorded settings first, then one row a variant that differs from them and can be run.

    Raises:
        ConfigError: without runs, with runs of different configurations, or where recorded groups are too small
            or too few.
    """
    if not runs:
        raise ConfigError("runs must hold at least one recorded run, got none; run an arm with large groups first")
    if len({run.config["config_hash"] for run in runs}) > 1:
        names = ", ".join(run.run_id for run in runs)
        raise ConfigError(f"runs must share one configuration, got {names}; sweep them one by one")
    spec = runs[0].config["spec"]
    recorded = SagcConfig.from_mapping(spec["controller"])
    courses = [_course(run, recorded, repeat) for run in runs for repeat in range(REPEATS)]
    configs = {"as recorded": recorded}
    for change in variants:
        if _applies(recorded, change):
            configs[", ".join(f"{name} = {value}" for name, value in change.items())] = replace(recorded, **change)
    statics: dict[tuple[float, str], NDArray[np.float64]] = {}
    rows = []
    for name, config in configs.items():
        key = (config.threshold, config.reference)
        if key not in statics:
            statics[key] = np.array([[_static_rate(c, config, g, spec) for g in config.candidates] for c in courses])
        rows.append(_row(name, config, recorded, courses, statics[key], spec))
    return rows


def _applies(recorded: SagcConfig, change: Mapping[str, Any]) -> bool:
    """Whether a change is one, and names a group size that is a candidate."""
    if change.get("initial_group_size", recorded.initial_group_size) not in recorded.candidates:
        return False
    return any(getattr(recorded, name) != value for name, value in change.items())


def _course(run: RunData, config: SagcConfig, repeat: int) -> _Course:
    spec = run.config["spec"]
    largest, needed = config.candidates[-1], max(_prompts(spec, size) for size in config.candidates)
    groups = [group for step in run.steps for group in step.lengths]
    small = next((group for group in groups if len(group) < largest), None)
    if small is not None:
        raise ConfigError(
            f"recorded groups must have at least {largest} rollouts, got one of {len(small)} in {run.run_id}; "
            f"sweep a run of an arm with groups of {largest}"
        )
    if len(groups) < needed:
        raise ConfigError(
            f"{run.run_id} must have at least {needed} recorded groups, got {len(groups)}; sweep a longer run"
        )
    pool = np.array([group[:largest] for group in groups], dtype=np.int64)
    window = min(max(WINDOW, needed), len(pool))
    total = _steps(spec)
    steps = []
    for step in range(total):
        first = round((step + 0.5) / total * len(pool) - window / 2)
        first = min(max(first, 0), len(pool) - window)
        rng = np.random.default_rng([repeat, step])
        steps.append(rng.permuted(rng.permutation(pool[first : first + window]), axis=1))
    return _Course(tuple(steps))


def _steps(spec: Mapping[str, Any]) -> int:
    """Training steps of a replay: as many as a run of the recorded horizon in rollouts has."""
    if spec["batch_policy"] == "fixed_prompts":
        return -(-int(spec["horizon"]["prompts"]) // int(spec["prompts_per_step"]))
    return -(-int(spec["horizon"]["rollouts"]) // int(spec["rollouts_per_step"]))


def _prompts(spec: Mapping[str, Any], group_size: int) -> int:
    if spec["batch_policy"] == "fixed_prompts":
        return int(spec["prompts_per_step"])
    return int(spec["rollouts_per_step"]) // group_size


def _static_rate(course: _Course, config: SagcConfig, group_size: int, spec: Mapping[str, Any]) -> float:
    prompts = _prompts(spec, group_size)
    rates = [
        straggler_counts(course.observe(step, prompts, group_size), config.threshold, config.reference).rate
        for step in range(len(course.steps))
    ]
    return float(np.mean([rate for rate in rates if rate is not None]))


@dataclass(frozen=True, slots=True)
class _Replay:
    rates: list[float]
    group_sizes: list[int]
    prices: list[float]


def _replay(course: _Course, config: SagcConfig, spec: Mapping[str, Any]) -> _Replay:
    policy = SagcPolicy(config)
    decision, state = policy.init()
    replay = _Replay([], [], [])
    for step in range(len(course.steps)):
        size = decision.group_size
        replay.group_sizes.append(size)
        replay.prices.append(state.price)
        decision, state = policy.update(state, Observation(course.observe(step, _prompts(spec, size), size)))
        assert state.straggler_rate is not None  # every candidate has at least two rollouts
        replay.rates.append(state.straggler_rate)
    return replay


def _row(
    name: str,
    config: SagcConfig,
    recorded: SagcConfig,
    courses: Sequence[_Course],
    static_rates: NDArray[np.float64],
    spec: Mapping[str, Any],
) -> SweepRow:
    worth = dict(zip(recorded.candidates, utilities(recorded.utility, recorded.candidates), strict=True))
    replays = [_replay(course, config, spec) for course in courses]
    rates = [float(np.mean(replay.rates)) for replay in replays]
    values = [float(np.mean([worth[size] for size in replay.group_sizes])) for replay in replays]
    static_values = np.array([worth[size] for size in recorded.candidates])
    weights = [best_mixture(row, static_values, rate) for row, rate in zip(static_rates, rates, strict=True)]
    leads = [value - float(w @ static_values) for value, w in zip(values, weights, strict=True) if w is not None]
    return SweepRow(
        setting=name,
        straggler_rate=float(np.mean(rates)),
        budget=config.budget,
        mean_group_size=float(np.mean([replay.group_sizes for replay in replays])),
        utility=float(np.mean(values)),
        mixture_lead=float(np.mean(leads)) if len(leads) == len(courses) else None,
        switches_per_step=float(np.mean([np.diff(replay.group_sizes) != 0 for replay in replays])),
        binding_share=float(np.mean([np.array(replay.prices) > 0 for replay in replays])),
    )
