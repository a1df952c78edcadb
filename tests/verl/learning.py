"""SAGC and static 8 learn the tiny task on verl's stack and on the torch engine: one experiment, one report.

    SAGC_VERL_PYTHON=... python -m tests.verl.learning --runs runs

Runs in the `cpu` environment; the variable names verl's own. Exit code 1 unless sampled accuracy rises in every run.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.engines import ENGINES
from benchmarks.reproduction import carry_out, run_folders
from benchmarks.runs_folder import RunsFolder
from benchmarks.spec import EvaluationPlan, Horizon, RunSpec
from benchmarks.store import read_run
from benchmarks.suite import Plan as RunPlan
from benchmarks.suite import PlannedRun, load_profile, plan
from reports import build

NAME = "verl-learning"
STEPS = 30
ROLLOUTS = 64


def specs() -> list[RunSpec]:
    """Two arms on two engines; the torch engine is set up as verl is, as far as it has the same settings."""
    runs = plan(load_profile("verl-cpu", ENGINES), engines=ENGINES, arms=["static_8", "sagc"], algorithms=["grpo"]).runs
    changed = [
        replace(
            run.spec,
            horizon=Horizon(prompts=STEPS * ROLLOUTS // 16, rollouts=STEPS * ROLLOUTS),
            rollouts_per_step=ROLLOUTS,
            controller=replace(run.spec.controller, rollouts_per_step=ROLLOUTS),
            evaluation=EvaluationPlan(problems=256, final_problems=256, samples=1, milestones=3),
        )
        for run in runs
    ]
    return [*changed, *(replace(spec, engine="torch_cpu", engine_settings={}) for spec in changed)]


def main() -> int:
    """Run all four, build the report, print what each learned."""
    parser = argparse.ArgumentParser(prog="python -m tests.verl.learning")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    folder = RunsFolder(parser.parse_args().runs.resolve())
    planned = specs()
    runs = tuple(PlannedRun(spec=spec) for spec in planned)
    carried = carry_out(RunPlan(runs=runs), folder=folder, engines=ENGINES, jobs=1, suite=f"sagc-{NAME}", profile=NAME)
    built = build(run_folders(folder, NAME), folder.reproduction(NAME), planned)
    rose = True
    for spec in planned if carried.exit_code == 0 else ():
        data = read_run(folder.run(spec.run_id))
        first, last = (
            sum(record.right) / (len(record.right) * record.samples)
            for record in (data.evaluations[0], data.evaluations[-1])
        )
        sizes = [record.group_size for record in data.steps]
        print(
            f"{spec.engine} {spec.arm}: {len(sizes)} steps, mean G {sum(sizes) / len(sizes):.1f}, "
            f"sampled accuracy {first:.3f} -> {last:.3f}"
        )
        rose = rose and last > first
    print(f"report: {built.files[0]}")
    return carried.exit_code or int(not rose)


if __name__ == "__main__":
    sys.exit(main())
