"""Every GPU profile composes with verl's real config tree and passes its validator, without a GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engines import ENGINES
from benchmarks.engines.verl.dry_run import DryRun, dry_run, report
from benchmarks.spec import RunSpec
from benchmarks.suite import load_profile, plan
from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)

PROFILES = {"gpu-1": (14, 1), "gpu-8": (14, 8), "verl-cpu": (6, 1)}
"""Profile -> (runs of one seed, GPUs); another seed changes numbers alone."""


def specs(profile: str) -> list[RunSpec]:
    return [run.spec for run in plan(load_profile(profile, ENGINES), engines=ENGINES, seeds=1).runs]


def wrong() -> RunSpec:
    spec = specs("gpu-1")[0]
    return replace(spec, engine_settings={**spec.engine_settings, "overrides": ["trainer.no_such_key=1"]})


@pytest.fixture(scope="module")
def composed() -> dict[str, DryRun]:
    """All runs in one verl process, which takes longer to start than to compose a config."""
    everything = [spec for profile in PROFILES for spec in specs(profile)]
    return {run.name: run for run in dry_run([*everything, wrong()], Path("runs"), sys.executable)}


@pytest.mark.parametrize("profile", PROFILES)
def test_verl_accepts_every_run_of_a_profile(profile: str, composed: dict[str, DryRun]) -> None:
    runs = [composed[spec.run_id] for spec in specs(profile)]
    assert {run.name: run.error for run in runs if run.error} == {}
    count, gpus = PROFILES[profile]
    assert (len(runs), {run.gpus for run in runs}) == (count, {gpus})
    assert f"{count} runs, {count} accepted" in report(runs)


def test_what_verl_refuses_is_said(composed: dict[str, DryRun]) -> None:
    refused = composed[wrong().run_id]
    assert "no_such_key" in refused.error
    assert f"REFUSED {refused.name}" in report([refused])
