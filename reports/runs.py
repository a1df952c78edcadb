"""Run folders, read and sorted into comparisons: one engine, task and algorithm each, all arms and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from baselines.algorithms import ALGORITHMS
from baselines.arms import ARMS
from benchmarks.spec import RunSpec
from benchmarks.store import RunData, check_whole, read_run
from benchmarks.tasks import ALL_TASKS
from reports.curves import Curve, curve
from reports.undecidable import NotDecidable
from sagc.errors import ConfigError, unknown_name

SAGC, SHUFFLED = "sagc", "shuffled_sagc"
STATIC_SIZES: dict[str, int] = dict(
    sorted(((arm.name, arm.group_size) for arm in ARMS.values() if arm.group_size is not None), key=itemgetter(1))
)
"""G of every static arm of the table, smallest first."""
STATIC_ARMS = tuple(STATIC_SIZES)
""""The best static" and "the largest static" are among these, run or not."""


class RunKey(NamedTuple):
    """What a run is of; unique within a report."""

    engine: str
    task: str
    algorithm: str
    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task}/{self.algorithm}/{self.arm}/seed {self.seed} on {self.engine}"


def key_of(spec: RunSpec) -> RunKey:
    """The key of a planned run."""
    return RunKey(spec.engine, spec.task, spec.algorithm, spec.arm, spec.seed)


@dataclass(frozen=True, slots=True)
class Run:
    """A run with its curves."""

    key: RunKey
    data: RunData
    curve: Curve

    @property
    def run_id(self) -> str:
        """The name of its folder."""
        return self.data.run_id

    @property
    def status(self) -> str:
        """How it ended; `unfinished` while it has not said so."""
        return self.data.outcome.status if self.data.outcome else "unfinished"

    @property
    def spec(self) -> Mapping[str, Any]:
        """The resolved run spec."""
        return spec_of(self.data.config)


def spec_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `RunSpec` fields within a run's `config.json`."""
    spec: Mapping[str, Any] = config["spec"]
    return spec


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs of one engine, task and algorithm."""

    engine: str
    task: str
    algorithm: str
    seeds: tuple[int, ...]
    """Planned seeds."""
    arms: tuple[str, ...]
    """Planned arms, in the order of the table of arms."""
    runs: Mapping[tuple[str, int], Run]
    """(arm, seed) -> run, finished or not."""

    def run(self, arm: str, seed: int) -> Run:
        """The finished run of an arm and seed.

        Raises:
            NotDecidable: naming what is missing or did not finish.
        """
        run = self.runs.get((arm, seed))
        if run is None:
            missing = f"arm {arm}" if arm not in self.arms else f"the run of {arm}, seed {seed},"
            raise NotDecidable(f"{missing} is missing for {self.algorithm} on {self.task}")
        if run.status != "finished":
            reason = run.data.outcome.reason if run.data.outcome else "it has not said how it ended"
            raise NotDecidable(f"{run.run_id} is {run.status}: {reason or 'no reason given'}")
        return run

    def all_seeds(self, arms: Sequence[str]) -> dict[str, list[Run]]:
        """The finished runs of every planned seed, by arm.

        Raises:
            NotDecidable: if one is missing, did not finish, or was run with another configuration.
        """
        # arms first: a missing arm is the better reason than its first missing seed
        found = {arm: [self.run(arm, seed) for seed in self.seeds] for arm in arms}
        hashes: dict[str, str] = {}
        for runs in found.values():
            for run in runs:
                hashes.setdefault(str(run.data.config["config_hash"]), run.run_id)
        if len(hashes) > 1:
            raise NotDecidable("runs of different configurations: " + ", ".join(sorted(hashes.values())))
        return found

    def budget(self, axis: str, seed: int) -> float:
        """The amount of `axis` at which all arms of one seed are compared.

        P_h prompts and R_h rollouts by the horizon; on every other axis what the cheapest finished arm of this
        seed reached, over *all* arms, so that every claim and the table of arms share one budget.

        Raises:
            NotDecidable: if no arm of the seed finished, or the axis was not measured.
        """
        finished = [run for (_, of), run in self.runs.items() if of == seed and run.status == "finished"]
        if not finished:
            raise NotDecidable(f"no run of seed {seed} finished for {self.algorithm} on {self.task}")
        if axis in {"prompts", "rollouts"}:
            return float(min(run.spec["horizon"][axis] for run in finished))
        return min(run.curve.total(axis) for run in finished)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Everything that a report is made of."""

    runs: Mapping[RunKey, Run]
    planned: tuple[RunKey, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def unfinished(self) -> list[tuple[RunKey, str, str]]:
        """(key, status, reason) of every planned or found run that is not finished."""
        rows = []
        for key in sorted({*self.planned, *self.runs}):
            run = self.runs.get(key)
            if run is None:
                rows.append((key, "missing", "no records"))
            elif run.status != "finished":
                rows.append((key, run.status, run.data.outcome.reason if run.data.outcome else "no outcome written"))
        return rows


def load(folders: Sequence[Path], planned: Iterable[RunSpec] | None = None) -> Reproduction:
    """Read run folders.

    Args:
        folders: one per run.
        planned: what should be there; None takes, for each engine, task and algorithm, all found arms times all
            found seeds.

    Raises:
        ConfigError: without folders, when two folders hold the same run, or a run names an unknown table row.
        RecordError: if a file cannot be read, or a finished run lacks records.
    """
    runs: dict[RunKey, Run] = {}
    for folder in sorted(folders):
        run = _read(folder)
        if run.key in runs:
            raise ConfigError(
                f"run_folders must hold each run once, got {runs[run.key].run_id} and {run.run_id} for {run.key}; "
                "leave out the one that is stale"
            )
        runs[run.key] = run
    if not runs and not planned:
        raise ConfigError("run_folders must name at least one run, got none; run something first")
    keys = _grid(runs) if planned is None else tuple(sorted({key_of(spec) for spec in planned}))
    groups = sorted({key[:3] for key in (*keys, *runs)}, key=_table_order)
    return Reproduction(
        runs=dict(sorted(runs.items())), planned=keys, comparisons=tuple(_comparison(g, keys, runs) for g in groups)
    )


def _table_order(group: tuple[str, str, str]) -> tuple[str, int, int]:
    """Engine, then tasks and algorithms as their tables have them."""
    engine, task, algorithm = group
    return engine, list(ALL_TASKS).index(task), list(ALGORITHMS).index(algorithm)


def _read(folder: Path) -> Run:
    data = read_run(folder)
    check_whole(data)
    spec = spec_of(data.config)
    key = RunKey(spec["engine"], spec["task"], spec["algorithm"], spec["arm"], spec["seed"])
    known = (("task", key.task, ALL_TASKS), ("algorithm", key.algorithm, ALGORITHMS), ("arm", key.arm, ARMS))
    for kind, name, table in known:
        if name not in table:
            raise unknown_name(f"{kind} of {folder.name}", name, table)
    return Run(key=key, data=data, curve=curve(data))


def _grid(runs: Iterable[RunKey]) -> tuple[RunKey, ...]:
    found = list(runs)
    return tuple(
        sorted(
            {
                a._replace(seed=b.seed)
                for a in found
                for b in found
                if (a.engine, a.task, a.algorithm) == (b.engine, b.task, b.algorithm)
            }
        )
    )


def _comparison(group: tuple[str, str, str], planned: Sequence[RunKey], runs: Mapping[RunKey, Run]) -> Comparison:
    keys = {key for key in (*planned, *runs) if key[:3] == group}
    arms = {key.arm for key in keys}
    return Comparison(
        engine=group[0],
        task=group[1],
        algorithm=group[2],
        seeds=tuple(sorted({key.seed for key in keys})),
        arms=tuple(arm for arm in ARMS if arm in arms),
        runs={(key.arm, key.seed): run for key, run in runs.items() if key[:3] == group},
    )
