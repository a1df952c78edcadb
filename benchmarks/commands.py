"""What each command does."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from baselines.algorithms import ALGORITHMS, AlgorithmSpec
from baselines.arms import ARMS
from benchmarks import evaluation_runs
from benchmarks.engines import DRY_RUNS, EngineFactory
from benchmarks.final_models import FINAL_MODELS, SEED, ask, page, trained_models
from benchmarks.progress import plan_lines
from benchmarks.provenance import ROOT
from benchmarks.reproduction import (
    Carried,
    asked_before,
    carry_out,
    run_folders,
    show_report,
)
from benchmarks.runs_folder import PLAN, RunsFolder
from benchmarks.settings import SECTIONS, Overrides, check_names, make_spec
from benchmarks.spec import RunSpec
from benchmarks.store import read_run
from benchmarks.suite import Plan, Profile, load_profile, plan, profile_names, single_run_plan
from benchmarks.sweep import SweepRow
from benchmarks.sweep import sweep as replay
from benchmarks.sync import SINGLE_RUNS, sync
from benchmarks.tasks import ALL_TASKS
from benchmarks.terminal import FINISHED, NOT_ALL_FINISHED, STOPPED
from sagc.checks import whole
from sagc.errors import ConfigError, SagcError


class BuiltReport(Protocol):
    """What a report builder made."""

    @property
    def headline(self) -> str:
        """The verdicts at a glance."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything written, the report first."""
        ...


class ReportBuilder(Protocol):
    """Builds the report; `reports.build` is one."""

    def __call__(self, run_folders: Sequence[Path], out: Path, planned: Sequence[RunSpec]) -> BuiltReport:
        """Read run folders and write the report into `out`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What the composition root knows of reports."""

    build: ReportBuilder
    keep: Callable[[Sequence[Path], Path, Sequence[RunSpec], Path, Path | None], BuiltReport]
    """Packs records and report into a folder; `reports.keep` is one."""
    sensitivity: Callable[[Sequence[SweepRow]], str]
    """The rows of a sweep as a page."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a command works with."""

    engines: Mapping[str, EngineFactory]
    reports: Reports


def list_tables(arguments: argparse.Namespace, parts: Parts) -> int:
    """Print the tables of names."""
    tables: dict[str, dict[str, str]] = {
        "arms": {name: arm.summary for name, arm in ARMS.items()},
        "algorithms": {name: _summary(row) for name, row in ALGORITHMS.items()},
        "tasks": {name: task.summary for name, task in ALL_TASKS.items()},
        "engines": {name: (make.__doc__ or "").strip().split("\n")[0] for name, make in parts.engines.items()},
        "profiles": {name: load_profile(name, parts.engines).summary for name in profile_names()},
    }
    if arguments.table is not None:
        check_names("table", [arguments.table], tables)
        tables = {arguments.table: tables[arguments.table]}
    for table, rows in tables.items():
        print(table)
        width = max(map(len, rows))
        for name, summary in rows.items():
            print(f"  {name:<{width}}  {summary}")
    return 0


def run(arguments: argparse.Namespace, parts: Parts) -> int:
    """Train one run."""
    if arguments.engine in DRY_RUNS:
        raise ConfigError(
            f"engine must be one that needs no settings of its own, got {arguments.engine!r}; "
            "name a profile that has them: `reproduce --profile`, narrowed by --arms, --tasks and --seeds"
        )
    sections = settings(arguments.set)
    horizon = {"prompts": arguments.horizon_prompts, "rollouts": arguments.horizon_rollouts}
    sections.setdefault("horizon", {}).update({key: value for key, value in horizon.items() if value is not None})
    spec = make_spec(
        engine=arguments.engine,
        task=arguments.task,
        algorithm=arguments.algorithm,
        arm=arguments.arm,
        seed=arguments.seed,
        engines=parts.engines,
        overrides=Overrides(
            sections=sections, rollouts_per_step=arguments.rollouts_per_step, batch_policy=arguments.batch_policy
        ),
    )
    folder = RunsFolder(arguments.runs.resolve())
    jobs = whole("jobs", arguments.jobs)
    carried = carry_out(single_run_plan(spec), folder=folder, engines=parts.engines, jobs=jobs, suite=SINGLE_RUNS)
    _say_how_to_go_on(carried)
    return carried.exit_code


def settings(items: Sequence[str]) -> dict[str, dict[str, Any]]:
    """``section.key=value`` items by section; a value is TOML, or text where it is none.

    Raises:
        ConfigError: on an item of another form, or an unknown section.
    """
    sections: dict[str, dict[str, Any]] = {}
    for item in items:
        name, equals, text = item.partition("=")
        section, dot, key = name.partition(".")
        if not (equals and dot and key):
            raise ConfigError(f"--set must be SECTION.KEY=VALUE, got {item!r}; write e.g. controller.threshold=3")
        check_names("section", [section], SECTIONS)
        try:
            document = tomllib.loads(f"value = {text}")
            value = document["value"] if len(document) == 1 else text
        except tomllib.TOMLDecodeError:
            value = text
        except RecursionError as error:
            raise ConfigError(f"--set must be SECTION.KEY=VALUE, got {item[:60]!r}; it is nested too deeply") from error
        sections.setdefault(section, {})[key] = value
    return sections


def reproduce(arguments: argparse.Namespace, parts: Parts) -> int:
    """Train every run of a profile and build the report."""
    profile = load_profile(arguments.profile, parts.engines)
    asked = {name: getattr(arguments, name) for name in ("seeds", "tasks", "algorithms", "arms")}
    planned = plan(profile, engines=parts.engines, **asked)
    jobs = whole("jobs", arguments.jobs)
    folder = RunsFolder(arguments.runs.resolve())
    print(f"profile {profile.name}: {len(planned.runs)} runs, {jobs} at a time")
    if any(asked.values()):
        print("note: a part of the profile; its report takes the place of the whole one, whose records stay")
    if arguments.plan:
        print("\n".join([*(f"note: {note}" for note in planned.notes), *plan_lines(planned.runs)]))
        return 0
    if arguments.dry_run:
        check_names("engine with a dry run", [profile.engine], DRY_RUNS)
        print(DRY_RUNS[profile.engine]([run.spec for run in planned.runs], folder.path))
        return 0
    carried = carry_out(
        planned,
        folder=folder,
        engines=parts.engines,
        jobs=jobs,
        suite=_suite(profile),
        profile=profile.name,
        asked=asked,
    )
    asked_all = True
    if carried.exit_code != STOPPED:
        if profile.final_models:
            asked_all = _ask_final_models(folder, profile, carried)
        _build_report(folder, profile, planned, parts)
    _say_how_to_go_on(carried)
    return carried.exit_code or (FINISHED if asked_all else NOT_ALL_FINISHED)


def report(arguments: argparse.Namespace, parts: Parts) -> int:
    """Build the report again."""
    profile = load_profile(arguments.profile, parts.engines)
    folder = RunsFolder(arguments.runs.resolve())
    asked = asked_before(folder, profile.name)
    _build_report(folder, profile, plan(profile, engines=parts.engines, **asked), parts, arguments.out)
    return 0


def _ask_final_models(folder: RunsFolder, profile: Profile, carried: Carried) -> bool:
    """Put the final models through the evaluation harness, as `evaluate` would; whether all of them answered.

    One that cannot be asked costs itself alone: the report does not need it.
    """
    models = trained_models(carried.runs)
    print(f"\nfinal models of seed {SEED}, through `evaluate`:")
    asked = []
    for number, model in enumerate(models, start=1):
        try:
            asked.append(ask(model, folder))
            said = asked[-1].describe()
        except (SagcError, OSError) as error:
            said = f"{model.name}  could not be asked: {' '.join(str(error).split())}"
        print(f"[{number}/{len(models)}] {said}", flush=True)
    out = folder.reproduction(profile.name) / FINAL_MODELS
    try:
        out.write_text(page(asked), encoding="utf-8")
        print(f"final models: {out}")
    except OSError as error:
        print(f"note: {out} could not be written: {error.strerror}")
    if problem := evaluation_runs.show(folder, [model.folder for model in asked]):
        print(f"note: {problem}")
    return len(asked) == len(models)


def _build_report(folder: RunsFolder, profile: Profile, planned: Plan, parts: Parts, out: Path | None = None) -> None:
    if out is None:
        out = ROOT / profile.report if profile.report else folder.reproduction(profile.name)
    built = parts.reports.build(run_folders(folder, profile.name), out, [run.spec for run in planned.runs])
    print(f"\n{built.headline}\n\nreport: {built.files[0]}")
    if problem := show_report(folder, profile.name, suite=_suite(profile), files=built.files, headline=built.headline):
        print(f"note: {problem}")


def archive(arguments: argparse.Namespace, parts: Parts) -> int:
    """Keep a reproduction: its report beside its packed records."""
    profile = load_profile(arguments.profile, parts.engines)
    folder = RunsFolder(arguments.runs.resolve())
    planned = plan(profile, engines=parts.engines, **asked_before(folder, profile.name))
    runs = run_folders(folder, profile.name)
    kept = parts.reports.keep(
        runs,
        arguments.out,
        [run.spec for run in planned.runs],
        folder.reproduction(profile.name) / PLAN,
        arguments.readme,
    )
    print("\n".join(str(file) for file in kept.files))
    return 0


def log_evaluation(evaluation: Path) -> None:
    """Show a finished evaluation in MLflow."""
    if problem := evaluation_runs.show(RunsFolder(evaluation.parent.resolve()), [evaluation]):
        print(f"note: {problem}")


def sync_mlflow(arguments: argparse.Namespace, parts: Parts) -> int:
    """Deliver to MLflow what it does not have yet."""
    folder = RunsFolder(arguments.runs.resolve())
    if not folder.path.is_dir():
        raise ConfigError(f"runs folder must hold runs, got {str(folder.path)!r}; name it with --runs")
    profile = None if arguments.profile is None else load_profile(arguments.profile, parts.engines).name
    complete, lines = sync(folder, profile)
    print("\n".join(lines) or "there are no runs yet")
    return FINISHED if complete else NOT_ALL_FINISHED


def sweep(arguments: argparse.Namespace, parts: Parts) -> int:
    """Replay recorded rollout lengths under changed controller settings."""
    profile = load_profile(arguments.profile, parts.engines)
    for key, table in (("task", ALL_TASKS), ("algorithm", ALGORITHMS), ("arm", ARMS)):
        check_names(key, [getattr(arguments, key)], table)
    folder = RunsFolder(arguments.runs.resolve())
    runs = [read_run(path) for path in run_folders(folder, profile.name)]
    chosen = [
        run
        for run in runs
        if all(run.config["spec"][key] == getattr(arguments, key) for key in ("task", "algorithm", "arm"))
        and run.outcome is not None
        and run.outcome.status == "finished"
    ]
    if not chosen:
        raise ConfigError(
            f"sweep needs a finished run of {arguments.task}/{arguments.algorithm}/{arguments.arm}, got none in "
            f"{str(folder.path)!r}; reproduce it first, or choose others with --task, --algorithm and --arm"
        )
    page = parts.reports.sensitivity(replay(chosen))
    out = folder.reproduction(profile.name) / "SENSITIVITY.md"
    out.write_text(page, encoding="utf-8")
    print(f"{page}\nfrom {len(chosen)} runs; written to {out}")
    return 0


def _suite(profile: Profile) -> str:
    """The MLflow experiment of a profile's reproductions."""
    return f"sagc-{profile.name}"


def _say_how_to_go_on(carried: Carried) -> None:
    if carried.exit_code:
        print("to go on: the same command; it repeats no run that has finished")
    print(f"to look at it: nox -s ui, or python -m mlflow server --backend-store-uri {carried.tracking}")


def _summary(algorithm: AlgorithmSpec) -> str:
    extras = [
        "dynamic sampling" if algorithm.dynamic_sampling else "",
        "soft overlong penalty" if algorithm.overlong_buffer_frac else "",
    ]
    clip = f"ratio clipped to {1 - algorithm.clip_low:g} ... {1 + algorithm.clip_high:g}"
    return ", ".join(part for part in (f"{algorithm.loss_aggregation} loss", clip, *extras) if part)
