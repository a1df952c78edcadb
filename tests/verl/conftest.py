"""One real run for each way of training; the tests of a file look at different sides of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines.verl.process import METRICS
from benchmarks.record import Outcome, StepRecord
from benchmarks.spec import Horizon, RunSpec
from tests.verl.harness import Collector, changes_of_size, kill_everything, tiny_spec, train


@dataclass
class Trained:
    """A run and what it left."""

    spec: RunSpec
    folder: Path
    steps: list[StepRecord]
    outcomes: list[Outcome]
    sinks: list[Collector]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """verl's own numbers of every training step."""

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "verl-events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


def step_metrics(path: Path, key: str = "sagc/group_size") -> list[dict[str, Any]]:
    """verl's log: one dictionary for every training step, which the key tells from an evaluation."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{"step": line["step"], **line["data"]} for line in lines if key in line["data"]]


def twice(what: str, attempt: Callable[[int], Trained]) -> Trained:
    """The first attempt whose controller moved at least twice; the one retry is said in the log."""
    for number in (1, 2):
        run = attempt(number)
        moved = changes_of_size(run.steps)
        print(f"{what}, attempt {number}: {len(run.steps)} steps, group size {[step.group_size for step in run.steps]}")
        if moved >= 2:
            break
    return run


@pytest.fixture(scope="session")
def grpo(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """GRPO at fixed rollouts: killed after step 6, resumed from the checkpoint of step 4, finished."""

    def attempt(number: int) -> Trained:
        folder = tmp_path_factory.mktemp(f"grpo-{number}") / "run"
        spec = tiny_spec("grpo", "sagc", Horizon(prompts=24, rollouts=320), {"save_every": 4})
        first, second = Collector(after={6: kill_everything}), Collector()
        killed = train(spec, first, folder)
        shutil.copy(folder / METRICS, folder / "before.jsonl")  # verl begins the file anew when it resumes
        finished = train(spec, second, folder, resume=True)
        resumed = second.steps[0].step
        metrics = [*step_metrics(folder / "before.jsonl")[: resumed - 1], *step_metrics(folder / METRICS)]
        steps = [*first.steps[: resumed - 1], *second.steps]
        return Trained(spec, folder, steps, [killed, finished], [first, second], metrics)

    return twice("GRPO, killed and resumed", attempt)


@pytest.fixture(scope="session")
def dapo(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """DAPO at fixed rollouts, asked to stop after step 22."""

    def attempt(number: int) -> Trained:
        folder = tmp_path_factory.mktemp(f"dapo-{number}") / "run"
        spec = tiny_spec("dapo", "sagc", Horizon(prompts=2000, rollouts=20_000), {"save_every": 1000})
        sink = Collector(stop_after=22)
        outcome = train(spec, sink, folder)
        return Trained(spec, folder, sink.steps, [outcome], [sink], step_metrics(folder / METRICS))

    return twice("DAPO", attempt)


@pytest.fixture(scope="session")
def fixed_prompts(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """DAPO at fixed prompts, so that the rows of a step follow G."""

    def attempt(number: int) -> Trained:
        folder = tmp_path_factory.mktemp(f"prompts-{number}") / "run"
        micro = ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"]
        horizon = Horizon(prompts=32, rollouts=256)
        settings = {"save_every": 1000, "overrides": micro}
        spec = tiny_spec("dapo", "sagc", horizon, settings, batch_policy="fixed_prompts", prompts_per_step=4)
        sink = Collector()
        outcome = train(spec, sink, folder)
        return Trained(spec, folder, sink.steps, [outcome], [sink], step_metrics(folder / METRICS))

    return twice("DAPO at fixed prompts", attempt)
