"""What runs: profiles (TOML) and command lines, turned into a list of planned runs. Nothing is started here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baselines.algorithms import ALGORITHMS
from baselines.arms import ARMS
from benchmarks.engines import EngineFactory
from benchmarks.provenance import ROOT
from benchmarks.settings import SECTIONS, Overrides, check_names, expect, make_spec, run_name
from benchmarks.spec import RunSpec
from benchmarks.tasks import ALL_TASKS, TASKS
from sagc.checks import whole
from sagc.errors import ConfigError, unknown_name

PROFILES = Path(__file__).parent / "profiles"
MAX_SEEDS = 1000
"""More would be a slip of the finger: a plan lists every run [ours]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Every combination of these runs."""

    tasks: tuple[str, ...]
    algorithms: tuple[str, ...]
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One file of `benchmarks/profiles`, or one of your own."""

    name: str
    summary: str
    engine: str
    seeds: int
    """Seeds 0 ... seeds - 1."""
    matrix: tuple[Block, ...]
    overrides: Overrides
    final_models: bool = False
    """Whether the final models of seed 0 go through `evaluate` at the end; see `benchmarks.final_models`."""
    report: str | None = None
    """Folder of the report, from the root of the checkout; None: the reproduction's own folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that has not begun; `source` names the planned run whose group sizes it will replay."""

    spec: RunSpec
    source: str | None = None

    @property
    def name(self) -> str:
        """``task/algorithm/arm/engine/sN``; unique within a plan."""
        return run_name(self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Planned runs in the order in which they are started, and what the user should know about them."""

    runs: tuple[PlannedRun, ...]
    notes: tuple[str, ...] = ()


def profile_names() -> list[str]:
    """The profiles that come with the suite."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def load_profile(name: str, engines: Mapping[str, EngineFactory]) -> Profile:
    """The profile called `name`, or the one in the TOML file at that path.

    Raises:
        ConfigError: on an unknown profile, key or table row (the nearest is offered) or a bad value.
    """
    path = Path(name) if name.endswith(".toml") else PROFILES / f"{name}.toml"
    if not name.endswith(".toml") and name not in profile_names():
        raise unknown_name("profile", name, profile_names())
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"profile must be a readable TOML file, got {name!r} ({error}); mend or replace it"
        ) from error
    profile = _profile(data, engines)
    if path.parent.resolve() != PROFILES and profile.name in profile_names():
        raise ConfigError(
            f"profile name must not be that of a built-in profile, got {profile.name!r} in {name!r}; its reproduction "
            "would take that one's place: rename it"
        )
    return profile


def _profile(data: Mapping[str, Any], engines: Mapping[str, EngineFactory]) -> Profile:
    required = ("name", "engine", "seeds", "matrix")
    optional = ("summary", "report", "final_models", "rollouts_per_step", "batch_policy", "engine_settings", *SECTIONS)
    check_names("profile key", data, (*required, *optional))
    if missing := [key for key in required if key not in data]:
        raise ConfigError(f"profile must have {', '.join(required)}, got none for {', '.join(missing)}; add them")
    if not isinstance(data["name"], str) or not re.fullmatch(r"[a-z0-9_-]{1,64}", data["name"]):
        raise ConfigError(
            f"profile name must be lower-case letters, digits, - and _, 64 at most, got {data['name']!r}; rename it"
        )
    check_names("engine", [data["engine"]], engines)
    profile = Profile(
        name=data["name"],
        summary=str(data.get("summary", "")),
        engine=data["engine"],
        seeds=_seeds(data["seeds"]),
        final_models=expect(bool, "final_models", data.get("final_models", False)),
        report=_report_folder(data.get("report")),
        matrix=tuple(_block(block) for block in expect(list, "matrix", data["matrix"])),
        overrides=Overrides(
            sections={name: expect(dict, name, data[name]) for name in SECTIONS if name in data},
            rollouts_per_step=data.get("rollouts_per_step"),
            batch_policy=data.get("batch_policy", Overrides().batch_policy),
            engine_settings=expect(dict, "engine_settings", data.get("engine_settings", {})),
        ),
    )
    if not profile.matrix:
        raise ConfigError("matrix must hold at least one block, got none; see benchmarks/profiles/cpu.toml")
    if profile.final_models:
        check_names("task of final models", [task for block in profile.matrix for task in block.tasks], TASKS)
    plan(profile, engines=engines)  # a profile whose runs cannot be is refused here, whatever is asked of it later
    return profile


def _seeds(value: object) -> int:
    seeds = whole("seeds", value)
    if seeds > MAX_SEEDS:
        raise ConfigError(f"seeds must be at most {MAX_SEEDS}, got {seeds}; ask for fewer")
    return seeds


def _report_folder(value: object) -> str | None:
    """A folder inside the checkout: no profile makes the suite write anywhere else."""
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value or not (ROOT / value).resolve().is_relative_to(ROOT):
        raise ConfigError(f"report must be a folder inside the checkout, got {value!r}; name it from the root")
    return value


def _block(data: Any) -> Block:
    tables: dict[str, Iterable[str]] = {"tasks": ALL_TASKS, "algorithms": ALGORITHMS, "arms": ARMS}
    check_names("matrix key", expect(dict, "matrix block", data), tables)
    chosen = {key: tuple(expect(list, f"matrix {key}", data.get(key, []))) for key in tables}
    for key, table in tables.items():
        if not chosen[key]:
            raise ConfigError(f"matrix {key} must name at least one row, got none; add some of {', '.join(table)}")
        check_names(key.removesuffix("s"), chosen[key], table)
    return Block(**chosen)


def plan(
    profile: Profile,
    *,
    engines: Mapping[str, EngineFactory],
    seeds: int | None = None,
    tasks: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    arms: Sequence[str] = (),
) -> Plan:
    """The runs of a profile: by seed, arms next to each other, and each seed begins with another arm.

    So a machine that gets slower in the middle touches all arms alike.

    Args:
        profile: what to plan.
        engines: the table of engines.
        seeds: number of seeds instead of the profile's.
        tasks, algorithms, arms: where given, only these; a name that no block of the profile holds is added
            to every block that is left.

    Returns:
        The plan; an arm that follows another brings that arm with it, and a note says so.

    Raises:
        ConfigError: on an unknown name or a bad value.
    """
    count = profile.seeds if seeds is None else _seeds(seeds)
    cells, notes = _with_sources(_cells(profile, tasks, algorithms, arms))
    runs: list[PlannedRun] = []
    for seed in range(count):
        for (task, algorithm), cell_arms in cells.items():
            turn = seed % len(cell_arms)
            for arm in (*cell_arms[turn:], *cell_arms[:turn]):
                spec = make_spec(
                    engine=profile.engine,
                    task=task,
                    algorithm=algorithm,
                    arm=arm,
                    seed=seed,
                    engines=engines,
                    overrides=profile.overrides,
                )
                runs.append(planned_run(spec))
    return Plan(runs=tuple(runs), notes=notes)


def planned_run(spec: RunSpec) -> PlannedRun:
    """`spec` as a planned run that waits for the run it follows, if its arm follows one."""
    follows = ARMS[spec.arm].follows
    return PlannedRun(spec=spec, source=run_name(replace(spec, arm=follows)) if follows else None)


def single_run_plan(spec: RunSpec) -> Plan:
    """One run; an arm that follows another brings that run with it, and a note says so."""
    follows = ARMS[spec.arm].follows
    if follows is None:
        return Plan(runs=(planned_run(spec),))
    return Plan(
        runs=(planned_run(replace(spec, arm=follows)), planned_run(spec)),
        notes=(f"arm {follows} is added: {spec.arm} replays its group sizes",),
    )


def _cells(
    profile: Profile, tasks: Sequence[str], algorithms: Sequence[str], arms: Sequence[str]
) -> dict[tuple[str, str], list[str]]:
    """(task, algorithm) -> arms, after the user's choice."""
    blocks = list(profile.matrix)
    tables = (("tasks", tasks, ALL_TASKS), ("algorithms", algorithms, ALGORITHMS), ("arms", arms, ARMS))
    for key, names, table in tables:
        check_names(key.removesuffix("s"), names, table)
        if names:
            blocks = _choose(blocks, key, names)
    cells: dict[tuple[str, str], list[str]] = {}
    for block in blocks:
        for task in block.tasks:
            for algorithm in block.algorithms:
                cell = cells.setdefault((task, algorithm), [])
                cell += [arm for arm in dict.fromkeys(block.arms) if arm not in cell]
    return cells


def _choose(blocks: Sequence[Block], key: str, names: Sequence[str]) -> list[Block]:
    """`blocks` with only `names` under `key`; a name that none of them holds is added to all."""
    held = {name for block in blocks for name in getattr(block, key)}
    chosen = []
    for block in blocks:
        kept = tuple(name for name in names if name in getattr(block, key) or name not in held)
        if kept:
            chosen.append(replace(block, **{key: kept}))
    return chosen


def _with_sources(
    cells: dict[tuple[str, str], list[str]],
) -> tuple[dict[tuple[str, str], list[str]], tuple[str, ...]]:
    """The cells with every followed arm in them, and a note for each that had to be added."""
    complete: dict[tuple[str, str], list[str]] = {}
    notes: dict[str, None] = {}  # ordered, each once
    for cell, arms in cells.items():
        complete[cell] = []
        for arm in arms:
            source = ARMS[arm].follows
            if source and source not in arms and source not in complete[cell]:
                complete[cell].append(source)
                notes[f"arm {source} is added: {arm} replays its group sizes"] = None
            complete[cell].append(arm)
    return complete, tuple(notes)
