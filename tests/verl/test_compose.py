"""Every GPU profile composes with verl's real config tree and passes its validator, without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.engines import ENGINES
from benchmarks.engines.verl.dry_run import DryRun, dry_run, report
from benchmarks.suite import load_profile, plan
from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)


def runs_of(profile: str) -> list[DryRun]:
    planned = plan(load_profile(profile, ENGINES), engines=ENGINES, seeds=1).runs  # a seed changes numbers alone
    return dry_run([run.spec for run in planned], Path("runs"), sys.executable)


@pytest.mark.parametrize(("profile", "count", "gpus"), [("gpu-1", 14, 1), ("gpu-8", 14, 8), ("verl-cpu", 6, 1)])
def test_verl_accepts_every_run_of_a_profile(profile: str, count: int, gpus: int) -> None:
    runs = runs_of(profile)
    assert {run.name: run.error for run in runs if run.error} == {}
    assert (len(runs), {run.gpus for run in runs}) == (count, {gpus})
    assert f"{count} runs, {count} accepted" in report(runs)


def test_what_verl_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    (run, *_) = plan(load_profile("gpu-1", ENGINES), engines=ENGINES, seeds=1).runs
    settings = {**run.spec.engine_settings, "overrides": {"actor_rollout_ref.actor.no_such_key": 1}}
    (refused,) = dry_run([replace(run.spec, engine_settings=settings)], Path("runs"), sys.executable)
    assert "no_such_key" in refused.error
    assert f"REFUSED {refused.name}" in report([refused])
