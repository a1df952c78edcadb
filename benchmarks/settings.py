"""One run, fully resolved: names and changed settings, checked and turned into a `RunSpec`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar, cast, get_args

from baselines.algorithms import ALGORITHMS
from baselines.arms import ARMS
from benchmarks.costs import expected_cpu_seconds
from benchmarks.engines import TASKS_OF, EngineFactory
from benchmarks.loop import step_prompts
from benchmarks.spec import BatchPolicy, EvaluationPlan, Horizon, RunSpec, TrainingSettings
from benchmarks.tasks import ALL_TASKS
from sagc.checks import real, whole
from sagc.errors import ConfigError, unknown_name
from sagc.types import Decision

SECTIONS = ("horizon", "evaluation", "controller", "training")
"""Groups of settings that a profile or `--set` may change, key by key."""
Settings = TypeVar("Settings", Horizon, EvaluationPlan, TrainingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What is changed from the task's own settings."""

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Section of `SECTIONS` -> key -> value."""
    rollouts_per_step: int | None = None
    """None: the task's own."""
    batch_policy: str = "fixed_rollouts"
    engine_settings: Mapping[str, Any] = field(default_factory=dict)
    """What the engine alone understands, and checks itself."""


def make_spec(
    *,
    engine: str,
    task: str,
    algorithm: str,
    arm: str,
    seed: int,
    engines: Mapping[str, EngineFactory],
    overrides: Overrides | None = None,
) -> RunSpec:
    """One run with the task's own settings, where `overrides` does not change them.

    Raises:
        ConfigError: on an unknown name or key (the nearest is offered), a bad value, or group sizes that
            cannot divide the rollouts of a step.
    """
    overrides = overrides or Overrides()
    tables: dict[str, Iterable[str]] = {"task": ALL_TASKS, "algorithm": ALGORITHMS, "arm": ARMS, "engine": engines}
    for (kind, table), name in zip(tables.items(), (task, algorithm, arm, engine), strict=True):
        check_names(kind, [name], table)
    check_names(f"task of {engine}", [task], TASKS_OF.get(engine, ALL_TASKS))
    if overrides.engine_settings and engine in TASKS_OF:
        raise ConfigError(
            f"engine_settings must be left out for {engine}, which has none, got {dict(overrides.engine_settings)!r}; "
            "delete the table"
        )
    check_names("batch_policy", [overrides.batch_policy], get_args(BatchPolicy))
    row, sections = ALL_TASKS[task], overrides.sections
    rollouts = row.rollouts_per_step if overrides.rollouts_per_step is None else overrides.rollouts_per_step
    rollouts = whole("rollouts_per_step", rollouts)
    # only fixed_rollouts keeps the effective batch, so only there must the candidates divide it
    divided = rollouts if overrides.batch_policy == "fixed_rollouts" else None
    changes = _typed("controller", row.controller, {**sections.get("controller", {})})
    spec = RunSpec(
        engine=engine,
        task=task,
        algorithm=algorithm,
        arm=arm,
        seed=whole("seed", seed, at_least=0),
        controller=replace(row.controller, **{**changes, "rollouts_per_step": divided}),
        horizon=_change("horizon", row.horizon, sections),
        rollouts_per_step=rollouts,
        prompts_per_step=row.prompts_per_step,
        batch_policy=cast(BatchPolicy, overrides.batch_policy),
        evaluation=_change("evaluation", EvaluationPlan(), sections),
        training=_change("training", TrainingSettings(), sections),
        engine_settings=_jsonable(overrides.engine_settings),
    )
    if size := ARMS[arm].group_size:
        step_prompts(Decision(group_size=size), spec)
    return spec


def _jsonable(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """`settings`, if the run's configuration can hold them: TOML has dates and NaN, JSON has neither."""
    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"engine_settings must be text, numbers, lists and tables, got {dict(settings)!r} ({error}); change them"
        ) from error
    return settings


def _change(name: str, default: Settings, sections: Mapping[str, Mapping[str, Any]]) -> Settings:
    changes = _typed(name, default, sections.get(name, {}))
    return replace(default, **changes)


def _typed(section: str, default: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` with lists as tuples; numbers outside `controller`, which checks its own, must be above 0."""
    known = [item.name for item in fields(default)]
    if section == "controller":
        known.remove("rollouts_per_step")  # follows the run's own
    check_names(f"{section} setting", changes, known)
    typed: dict[str, Any] = {}
    for key, value in changes.items():
        name, present = f"{section}.{key}", getattr(default, key)
        if section == "controller":
            typed[key] = tuple(value) if isinstance(value, list) else value
        elif isinstance(present, tuple):
            items = expect(list, name, value)
            if len(items) != len(present):
                raise ConfigError(f"{name} must be {len(present)} numbers, got {value!r}; write e.g. {list(present)}")
            typed[key] = tuple(real(name, item, "in [0, 1)", lambda x: 0 <= x < 1) for item in items)
        elif isinstance(present, int):
            typed[key] = whole(name, value)
        else:
            typed[key] = real(name, value, "above 0", lambda x: x > 0)
    return typed


def run_name(spec: RunSpec) -> str:
    """``task/algorithm/arm/engine/sN``: what a run is called in tables and in MLflow; unique within a plan."""
    return f"{spec.task}/{spec.algorithm}/{spec.arm}/{spec.engine}/s{spec.seed}"


def resolved_config(spec: RunSpec) -> dict[str, Any]:
    """What `config.json` holds: the spec, the rows of the tables that it names, and what it is called."""
    config = {
        "name": run_name(spec),
        "spec": spec.to_json(),
        "task": asdict(ALL_TASKS[spec.task]),
        "algorithm": asdict(ALGORITHMS[spec.algorithm]),
        "config_hash": spec.config_hash,
    }
    resolved: dict[str, Any] = json.loads(json.dumps(config))  # tuples become lists, as a reader will see them
    return resolved


def expected_rollouts(spec: RunSpec) -> int:
    """A guess of the rollouts that the run will take, for the time left: an adaptive arm is taken to stay at G_1."""
    group_size = ARMS[spec.arm].group_size or spec.controller.initial_group_size
    return max(spec.horizon.rollouts, spec.horizon.prompts * group_size)


def expected_seconds(spec: RunSpec) -> float | None:
    """A guess of the run's process CPU-seconds, its evaluations included; None where the engine was never measured."""
    plan = spec.evaluation
    responses = plan.samples * (plan.milestones * plan.problems + plan.final_problems)
    return expected_cpu_seconds(spec.engine, expected_rollouts(spec), responses)


_TOML: dict[type, str] = {list: "a list", dict: "a table", bool: "true or false"}


def check_names(kind: str, names: Iterable[object], known: Iterable[str]) -> None:
    """Refuse a name that is not known, offering the nearest one that is."""
    known = list(known)
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


def expect(kind: type, name: str, value: Any) -> Any:
    """`value`, if it is of that kind, one of `_TOML`."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} must be {_TOML[kind]}, got {value!r}; see benchmarks/profiles/cpu.toml")
    return value
