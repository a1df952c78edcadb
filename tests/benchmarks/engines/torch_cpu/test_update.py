"""The update: masks, batches, denominators, skipped steps and what it reports."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from baselines.algorithms import ALGORITHMS, DAPO, GRPO, AlgorithmSpec
from benchmarks.engines.protocol import Prompt, TrainBatch, TrainStats
from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.engines.torch_cpu.update import (
    micro_batches,
    mini_batches,
    token_batch,
    token_log_probs,
    update_policy,
)
from benchmarks.noise import Stream, generator
from benchmarks.spec import TrainingSettings
from benchmarks.tasks.modular_chain import PAD, STEADY, VOCABULARY

SETTINGS = TrainingSettings()
both_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)


@pytest.fixture
def model() -> Decoder:
    config = DecoderConfig(vocab_size=len(VOCABULARY), max_positions=256)
    return Decoder(config, torch.Generator().manual_seed(0)).double()


def on_policy_batch(model: Decoder, rows: int = 12) -> TrainBatch:
    """Demonstrations with the model's own log-probabilities and made-up advantages."""
    rng = generator(1, Stream.WARM_START)
    pairs = [STEADY.demonstration(rng) for _ in range(rows)]
    prompts = [Prompt(index=i, tokens=prompt, answer=0) for i, (prompt, _) in enumerate(pairs)]
    tokens = [np.array(response, dtype=np.int64) for _, response in pairs]
    return TrainBatch(
        prompts=prompts,
        tokens=tokens,
        log_probs=own_log_probs(model, prompts, tokens),
        advantages=rng.normal(size=rows),
    )


def own_log_probs(model: Decoder, prompts: list[Prompt], tokens: list[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
    """One row at a time, without padding."""
    rows = []
    for prompt, response in zip(prompts, tokens, strict=True):
        batch = token_batch([prompt.tokens], [response], PAD)
        with torch.no_grad():
            rows.append(token_log_probs(model, batch)[batch.mask].float().numpy())
    return rows


def train(
    model: Decoder,
    batch: TrainBatch,
    algorithm: AlgorithmSpec = GRPO,
    settings: TrainingSettings = SETTINGS,
    micro_batch_rows: int = 8,
    learning_rate: float = 0.0,
) -> tuple[TrainStats, Decoder]:
    """Update a copy of the model by plain gradient descent, rows in their own order."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    order = np.arange(len(batch.prompts))
    return update_policy(model, optimizer, batch, order, algorithm, settings, PAD, micro_batch_rows), model


def flat(model: Decoder) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_token_batch_trains_exactly_the_response_tokens() -> None:
    batch = token_batch([(10, 11)], [np.array([12, 13, 1])], pad=0)
    assert batch.inputs.tolist() == [[10, 11, 12, 13]]
    assert batch.targets.tolist() == [[11, 12, 13, 1]]
    assert batch.mask.tolist() == [[False, True, True, True]]


def test_token_batch_takes_its_mask_from_lengths_even_if_padding_is_the_end_token() -> None:
    """Responses [5,6,2], [5,6,7,8,9] (truncated), [2] and [5,2] after one prompt token, pad = eos = 2."""
    responses = [np.array(row) for row in ([5, 6, 2], [5, 6, 7, 8, 9], [2], [5, 2])]
    batch = token_batch([(4,)] * 4, responses, pad=2)
    assert batch.mask.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]
    for row, response in enumerate(responses):
        assert batch.targets[row][batch.mask[row]].tolist() == response.tolist()


def test_log_probs_do_not_depend_on_padding(model: Decoder) -> None:
    batch = on_policy_batch(model)
    padded = token_batch([prompt.tokens for prompt in batch.prompts], list(batch.tokens), PAD)
    with torch.no_grad():
        log_probs = token_log_probs(model, padded)
    for row, expected in enumerate(batch.log_probs):
        np.testing.assert_allclose(log_probs[row][padded.mask[row]].numpy(), expected, rtol=0, atol=1e-5)


def test_mini_batches_cover_all_rows_and_too_few_rows_stay_together() -> None:
    order = np.array([3, 1, 0, 2, 4])
    assert [part.tolist() for part in mini_batches(order, 2)] == [[3, 1, 0], [2, 4]]
    assert [part.tolist() for part in mini_batches(order[:1], 2)] == [[3]]
    assert [part.tolist() for part in mini_batches(order[:0], 2)] == [[]]


def test_micro_batches_hold_rows_of_similar_length() -> None:
    lengths = np.array([9, 1, 8, 2, 7])
    parts = micro_batches(np.array([0, 1, 2, 3, 4]), lengths, 2)
    assert [part.tolist() for part in parts] == [[1, 3], [4, 2], [0]]


@both_algorithms
def test_micro_batch_size_changes_neither_loss_nor_weights(model: Decoder, algorithm: AlgorithmSpec) -> None:
    batch = on_policy_batch(model)
    stats, reference = train(model, batch, algorithm, micro_batch_rows=12, learning_rate=0.1)
    for size in (1, 2, 3, 5, 7):
        other_stats, other = train(model, batch, algorithm, micro_batch_rows=size, learning_rate=0.1)
        assert other_stats.loss == pytest.approx(stats.loss, abs=1e-6)
        torch.testing.assert_close(flat(other), flat(reference), rtol=0, atol=1e-6)
    assert not torch.equal(flat(reference), flat(model))


@both_algorithms
def test_first_update_has_ratio_one(model: Decoder, algorithm: AlgorithmSpec) -> None:
    batch = on_policy_batch(model.float())
    one = replace(SETTINGS, mini_batches=1)
    for size in (1, 5, 12):
        stats, _ = train(model, batch, algorithm, one, micro_batch_rows=size)
        assert stats.ratio_deviation_max is not None
        assert stats.ratio_deviation_max < 1e-5
        assert stats.clip_frac == 0.0
        assert stats.loss == pytest.approx(expected_on_policy_loss(batch, algorithm), abs=1e-5)


def expected_on_policy_loss(batch: TrainBatch, algorithm: AlgorithmSpec) -> float:
    lengths = np.array([len(row) for row in batch.tokens])
    weights = lengths / lengths.sum() if algorithm is DAPO else np.full(len(lengths), 1 / len(lengths))
    return float(-(weights * batch.advantages).sum())


def test_without_advantages_no_step_is_taken(model: Decoder) -> None:
    batch = replace(on_policy_batch(model), advantages=np.zeros(12))
    stats, after = train(model, batch, learning_rate=0.1)
    assert stats == TrainStats(optimizer_steps=0, loss=None, grad_norm=None, clip_frac=None, ratio_deviation_max=None)
    assert torch.equal(flat(after), flat(model))


def test_an_empty_batch_takes_no_step(model: Decoder) -> None:
    stats, _ = train(model, TrainBatch(prompts=[], tokens=[], log_probs=[], advantages=np.zeros(0)))
    assert stats.optimizer_steps == 0


def test_a_mini_batch_without_advantages_is_skipped_and_not_counted(model: Decoder) -> None:
    batch = on_policy_batch(model)
    advantages = batch.advantages.copy()
    advantages[:6] = 0.0
    stats, after = train(model, replace(batch, advantages=advantages), learning_rate=0.1)
    second_half = TrainBatch(
        prompts=batch.prompts[6:],
        tokens=batch.tokens[6:],
        log_probs=batch.log_probs[6:],
        advantages=batch.advantages[6:],
    )
    alone, expected = train(model, second_half, settings=replace(SETTINGS, mini_batches=1), learning_rate=0.1)
    assert stats == alone
    assert stats.optimizer_steps == 1
    assert torch.equal(flat(after), flat(expected))


@both_algorithms
def test_rows_without_advantage_are_not_run_through_the_model_but_count(
    model: Decoder, algorithm: AlgorithmSpec
) -> None:
    """A row of impossible tokens would raise an IndexError in the embedding."""
    batch = on_policy_batch(model, rows=4)
    advantages = np.append(batch.advantages, 0.0)
    impossible = TrainBatch(
        prompts=[*batch.prompts, batch.prompts[0]],
        tokens=[*batch.tokens, np.full(20, len(VOCABULARY) + 1)],
        log_probs=[*batch.log_probs, np.zeros(20, dtype=np.float32)],
        advantages=advantages,
    )
    one = replace(SETTINGS, mini_batches=1)
    stats, _ = train(model, impossible, algorithm, one)
    assert stats.loss == pytest.approx(expected_on_policy_loss(impossible, algorithm), abs=1e-6)


def test_clip_fraction_of_a_step_counts_tokens_not_mini_batches(model: Decoder) -> None:
    """A long clipped row and a short unclipped one, each its own mini-batch; the mean of shares would be 1/2."""
    batch = on_policy_batch(model)
    lengths = [len(row) for row in batch.tokens]
    long, short = int(np.argmax(lengths)), int(np.argmin(lengths))
    pair = TrainBatch(
        prompts=[batch.prompts[long], batch.prompts[short]],
        tokens=[batch.tokens[long], batch.tokens[short]],
        log_probs=[batch.log_probs[long] - 1.0, batch.log_probs[short]],
        advantages=np.array([1.0, 1.0]),
    )
    stats, _ = train(model, pair)
    assert stats.optimizer_steps == 2
    assert stats.clip_frac == lengths[long] / (lengths[long] + lengths[short])
    assert stats.clip_frac > 0.6


def test_loss_and_gradient_norm_are_means_over_the_optimizer_steps(model: Decoder) -> None:
    batch = on_policy_batch(model)
    stats, _ = train(model, batch)
    halves = [
        train(model, half, settings=replace(SETTINGS, mini_batches=1))[0]
        for half in (
            TrainBatch(
                prompts=batch.prompts[part],
                tokens=batch.tokens[part],
                log_probs=batch.log_probs[part],
                advantages=batch.advantages[part],
            )
            for part in (slice(0, 6), slice(6, 12))
        )
    ]
    assert stats.loss == pytest.approx(np.mean([half.loss for half in halves]))
    assert stats.grad_norm == pytest.approx(np.mean([half.grad_norm for half in halves]))


def test_the_gradient_norm_is_bounded(model: Decoder) -> None:
    batch = on_policy_batch(model)
    stats, after = train(
        model, batch, settings=replace(SETTINGS, mini_batches=1, max_grad_norm=0.01), learning_rate=1.0
    )
    assert stats.grad_norm is not None
    assert stats.grad_norm > 0.1
    assert float((flat(after) - flat(model)).norm()) == pytest.approx(0.01, rel=1e-3)
