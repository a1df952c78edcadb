"""What a user types, without the suite around it: the shipped trainer, and verl's own trainer beside it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines.verl import tiny
from benchmarks.engines.verl.launcher import engine_settings
from benchmarks.engines.verl.overrides import overrides
from benchmarks.engines.verl.process import METRICS, child_environment
from benchmarks.spec import Horizon
from tests.verl.conftest import step_metrics
from tests.verl.harness import LIMIT_S, NEEDS_VERL, policy_of, tiny_spec

pytest.importorskip("verl", reason=NEEDS_VERL)
pytestmark = pytest.mark.slow  # two runs of a minute each

PLATFORM = "benchmarks.engines.verl.cpu.platform"
STEPS = 5
STOCK_POLL_S, OUR_POLL_S = 2.0, 0.1


def run(folder: Path, trainer: str, modules: str, sagc: list[str]) -> list[dict[str, Any]]:
    """verl's numbers of every step of a plain run: 4 prompts x 8 rollouts, verl's own command line."""
    spec = tiny_spec("grpo", "static_8", Horizon(prompts=24, rollouts=320), {})
    cache = Path(os.environ.get("SAGC_TEST_CACHE", folder.parent / "cache"))
    tiny.prepare(spec, cache)
    folder.mkdir(parents=True)
    lines = overrides(spec, policy_of(spec), engine_settings(spec), tiny.paths(spec, folder, cache))
    lines = [line for line in lines if "trainer.sagc" not in line and "trainer.save_freq" not in line]
    lines += [f"trainer.v1.trainer_mode={trainer}", f"trainer.total_training_steps={STEPS}", *sagc]
    lines += ["trainer.val_before_train=False", "trainer.save_freq=-1"]
    with tempfile.TemporaryDirectory(prefix="sagc-") as ray_folder, (folder / "log").open("w") as log:
        env = {
            **child_environment(os.environ, folder, Path(ray_folder), "cpu"),
            "VERL_USE_EXTERNAL_MODULES": modules,
        }
        command = [sys.executable, "-m", "verl.trainer.main_ppo", *last_of_each(lines)]
        ended = subprocess.run(command, env=env, cwd=folder, stdout=log, stderr=log, timeout=LIMIT_S)
    assert ended.returncode == 0, (folder / "log").read_text()[-3000:]
    return step_metrics(folder / METRICS, "actor/pg_loss")


def last_of_each(lines: list[str]) -> list[str]:
    """Of several values of one key the last; Hydra takes each key once."""
    return [f"{key}={value}" for key, value in dict(line.split("=", 1) for line in lines).items()]


def without_poll(metrics: dict[str, Any], poll_s: float) -> float:
    """A step's seconds without the sleeps between two looks at the rollouts."""
    return float(metrics["timing_s/step"] - poll_s * (metrics["timing_s/gen"] // poll_s))


def test_two_settings_and_one_variable_are_enough_and_cost_next_to_nothing(tmp_path: Path) -> None:
    ours = run(
        tmp_path / "sagc",
        "sagc",
        f"{PLATFORM},sagc.integrations.verl",
        [
            "+trainer.sagc.candidates=[4,8,16]",
            "+trainer.sagc.budget=0.25",
            "+trainer.sagc.threshold=2",
            f"+trainer.sagc.poll_interval_s={OUR_POLL_S}",
        ],
    )
    stock = run(tmp_path / "stock", "sync", PLATFORM, [])
    assert len(ours) == len(stock) == STEPS
    for metrics in ours:
        assert metrics["sagc/num_prompts"] * metrics["sagc/group_size"] == metrics["sagc/trained_rows"] == 32
        assert metrics["sagc/padded_rows"] == 0
        assert metrics["sagc/controller/dual_variable"] >= 0
    own = statistics.median(metrics["sagc/own_s"] for metrics in ours[1:])
    step = statistics.median(without_poll(metrics, OUR_POLL_S) for metrics in ours[1:])
    stock_step = statistics.median(without_poll(metrics, STOCK_POLL_S) for metrics in stock[1:])
    print(f"without poll sleeps: a sagc step {step:.3f} s, of it own code {own:.4f} s; a stock step {stock_step:.3f} s")
    assert own < 0.01 * step
