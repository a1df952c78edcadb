"""The step engine: noise, scores, updates, state; and the engine that the runner drives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from baselines.algorithms import GRPO
from benchmarks.engines.protocol import Rollouts, TrainBatch
from benchmarks.engines.torch_cpu.engine import TorchCpuEngine, TorchStepEngine
from benchmarks.engines.torch_cpu.export import read_model, write_model
from benchmarks.engines.torch_cpu.model import Decoder
from benchmarks.engines.torch_cpu.update import token_batch, token_log_probs
from benchmarks.engines.torch_cpu.warm_start import MODEL as MODEL_SHAPE
from benchmarks.engines.torch_cpu.warm_start import WarmStartSettings
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.spec import EvaluationPlan, Horizon, RunSpec
from benchmarks.store import MODEL
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY
from sagc.errors import ConfigError
from sagc.policies import StaticPolicy

SPEC = RunSpec(
    engine="torch_cpu",
    task="steady",
    algorithm="grpo",
    arm="static_8",
    seed=0,
    controller=TASKS["steady"].controller,
    horizon=Horizon(prompts=16, rollouts=128),
    rollouts_per_step=64,
    prompts_per_step=8,
    evaluation=EvaluationPlan(problems=8, final_problems=16, milestones=2),
)
MakeEngine = Callable[..., TorchStepEngine]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained policy that ends a response about as often as any token, so that lengths differ."""
    folder = tmp_path_factory.mktemp("untrained") / "model"
    write_model(Decoder(MODEL_SHAPE, torch.Generator().manual_seed(0)), folder, VOCABULARY, eos=EOS, pad=PAD)
    return folder


@pytest.fixture
def make(model_folder: Path) -> MakeEngine:
    """An engine on the untrained policy; keywords replace fields of the spec."""
    return lambda **changes: TorchStepEngine(replace(SPEC, **changes), model_folder)


def rows(rollouts: Rollouts) -> list[tuple[int, ...]]:
    return [tuple(row.tolist()) for group in rollouts.tokens for row in group]


def train_batch(rollouts: Rollouts, advantages: np.ndarray | None = None) -> TrainBatch:
    """All rollouts, with alternating advantages unless others are given."""
    prompts = [prompt for prompt, group in zip(rollouts.prompts, rollouts.tokens, strict=True) for _ in group]
    alternating = np.where(np.arange(len(prompts)) % 2 == 0, 1.0, -1.0)
    return TrainBatch(
        prompts=prompts,
        tokens=[row for group in rollouts.tokens for row in group],
        log_probs=[row for group in rollouts.log_probs for row in group],
        advantages=alternating if advantages is None else advantages,
    )


def weights(engine: TorchStepEngine) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in engine.state().items()}


def test_same_seed_same_rollouts_and_any_other_key_other_rollouts(make: MakeEngine) -> None:
    prompts = make().draw(0, 1, 0.0)
    first = rows(make().generate(prompts, 8, 1))
    assert len(set(first)) == 8
    assert first == rows(make().generate(prompts, 8, 1))
    assert not set(first) & set(rows(make().generate(prompts, 8, 2)))
    assert not set(first) & set(rows(make(seed=1).generate(prompts, 8, 1)))
    assert not set(first) & set(rows(make().generate([replace(prompts[0], index=1)], 8, 1)))


def test_a_larger_group_leaves_the_first_rollouts_as_they_were(make: MakeEngine) -> None:
    engine = make()
    prompts = engine.draw(0, 2, 0.0)
    small, large = engine.generate(prompts, 2, 1), engine.generate(prompts, 4, 1)
    for few, many in zip(small.tokens, large.tokens, strict=True):
        assert [row.tolist() for row in few] == [row.tolist() for row in many[:2]]


def test_rollouts_are_grouped_by_prompt(make: MakeEngine) -> None:
    engine = make()
    prompts = engine.draw(5, 3, 0.0)
    rollouts = engine.generate(prompts, 4, 1)
    assert [prompt.index for prompt in rollouts.prompts] == [5, 6, 7]
    assert rollouts.lengths.shape == rollouts.truncated.shape == (3, 4)
    for prompt, group in zip(prompts, rollouts.tokens, strict=True):
        alone = engine.generate([prompt], 4, 1)
        assert [row.tolist() for row in alone.tokens[0]] == [row.tolist() for row in group]


def test_log_probs_of_sampler_and_trainer_agree(make: MakeEngine, model_folder: Path) -> None:
    """Their sums too, truncated rows included: no token is shifted, forced or left out."""
    engine = make()
    batch = train_batch(engine.generate(engine.draw(0, 8, 0.0), 8, 1))
    assert any(row[-1] != EOS for row in batch.tokens)
    assert any(row[-1] == EOS for row in batch.tokens)
    padded = token_batch([prompt.tokens for prompt in batch.prompts], list(batch.tokens), PAD)
    with torch.no_grad():
        log_probs = token_log_probs(read_model(model_folder), padded)
    for row, sampled in enumerate(batch.log_probs):
        trained = log_probs[row][padded.mask[row]].numpy()
        np.testing.assert_allclose(trained, sampled, rtol=0, atol=1e-5)
        assert trained.sum() == pytest.approx(sampled.sum(), abs=1e-3)


def test_scores_come_from_the_verifier(make: MakeEngine) -> None:
    engine = make()
    rollouts = engine.generate(engine.draw(0, 2, 0.0), 3, 1)
    answer = VOCABULARY.index(str(rollouts.prompts[1].answer))
    right = np.array([VOCABULARY.index("#"), answer, EOS])
    tokens = [list(rollouts.tokens[0]), [right, right[:2], right[:0]]]
    scores = engine.score(replace(rollouts, tokens=tokens))
    assert scores[1].tolist() == [1.0, 0.0, 0.0]
    assert scores.shape == (2, 3)


def test_first_update_has_ratio_one_and_changes_the_policy(make: MakeEngine) -> None:
    engine = make()
    before = weights(engine)
    stats = engine.train(train_batch(engine.generate(engine.draw(0, 8, 0.0), 8, 1)), GRPO, 1)
    assert stats.optimizer_steps == 2
    assert stats.ratio_deviation_max is not None
    assert stats.ratio_deviation_max < 1e-5
    assert weights(engine) != before


def test_without_a_signal_the_policy_stays_as_it_was(make: MakeEngine) -> None:
    engine = make()
    before = weights(engine)
    batch = train_batch(engine.generate(engine.draw(0, 2, 0.0), 4, 1), np.zeros(8))
    assert engine.train(batch, GRPO, 1).optimizer_steps == 0
    assert weights(engine) == before


def test_evaluation_is_the_same_at_every_step(make: MakeEngine) -> None:
    engine = make()
    scores = engine.evaluate(130, samples=1)
    assert len(scores.right) == len(scores.output_tokens) == len(scores.truncated) == 130
    engine.generate(engine.draw(0, 2, 0.0), 2, 1)
    assert engine.evaluate(130, samples=1) == scores
    assert engine.evaluate(16, samples=1).output_tokens == scores.output_tokens[:16]
    assert make(seed=1).evaluate(130, samples=1) != scores


def test_several_samples_of_a_problem_add_up(make: MakeEngine) -> None:
    engine = make()
    one, four = engine.evaluate(40, samples=1), engine.evaluate(40, samples=4)
    assert len(four.right) == len(four.truncated) == 40
    assert all(few < many for few, many in zip(one.output_tokens, four.output_tokens, strict=True))
    assert sum(four.output_tokens) / 4 == pytest.approx(sum(one.output_tokens), rel=0.2)


@pytest.mark.parametrize("steps_before", range(3))
def test_a_restored_state_gives_the_same_bits_ever_after(make: MakeEngine, steps_before: int) -> None:
    going_on, restored = make(), make()
    for step in range(1, steps_before + 1):
        going_on.train(train_batch(going_on.generate(going_on.draw(step, 2, 0.0), 4, step)), GRPO, step)
    restored.train(train_batch(restored.generate(restored.draw(9, 2, 0.0), 4, 9)), GRPO, 9)  # to be forgotten
    restored.load_state(going_on.state())
    for engine in (going_on, restored):
        for step in (11, 12):
            engine.train(train_batch(engine.generate(engine.draw(step, 2, 0.0), 4, step)), GRPO, step)
    assert weights(going_on) == weights(restored)


def test_a_state_does_not_change_when_training_goes_on(make: MakeEngine) -> None:
    engine = make()
    state = engine.state()
    kept = {name: array.copy() for name, array in state.items()}
    engine.train(train_batch(engine.generate(engine.draw(0, 2, 0.0), 4, 1)), GRPO, 1)
    for name, array in state.items():
        np.testing.assert_array_equal(array, kept[name])


def test_an_unknown_task_offers_the_nearest(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'growing'"):
        TorchStepEngine(replace(SPEC, task="grwing"), model_folder)


def test_a_run_without_preparation_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="prepare must be called before run"):
        TorchCpuEngine().run(SPEC, StaticPolicy(8), Records(), tmp_path, None)


@dataclass(slots=True)
class Records:
    """A sink that keeps what it is sent."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[EvaluationRecord] = field(default_factory=list)

    def step(self, record: StepRecord, timing: StepTiming) -> None:
        self.steps.append(record)

    def evaluation(self, record: EvaluationRecord) -> None:
        self.evaluations.append(record)

    def stop_requested(self) -> bool:
        return False


def test_a_run_goes_to_its_horizon_and_leaves_its_model(tmp_path: Path) -> None:
    short = WarmStartSettings(target_accuracy=0.0, check_every=2, max_steps=2, check_problems=8, held_out_problems=8)
    engine, records = TorchCpuEngine(short), Records()
    engine.prepare(SPEC, tmp_path / "cache")
    outcome = engine.run(SPEC, StaticPolicy(8), records, tmp_path / "run", None)
    assert (outcome.status, outcome.steps, outcome.prompts, outcome.rollouts) == ("finished", 2, 16, 128)
    assert [record.step for record in records.steps] == [1, 2]
    assert [record.step for record in records.evaluations] == [0, 1, 2]
    assert len(records.evaluations[-1].right) == 16
    assert read_model(tmp_path / "run" / MODEL).config == MODEL_SHAPE
