"""The sampler against an independent slow one: the whole sequence through the model for every token."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.engines.torch_cpu.sampler import Samples, SamplingError, sample
from benchmarks.noise import Stream, rollout_uniforms
from sagc.errors import ConfigError

VOCAB, EOS, PAD, CAP = 23, 7, 22, 30
NEVER = -1
"""An end token that no model draws."""
PROMPTS = ((3, 1, 4), (1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8), (4,), (6, 2, 6, 4, 3))
Uniforms = NDArray[np.float32]
Rollout = tuple[list[int], list[float]]


def decoder(seed: int = 0, end_logit: float = 0.0) -> Decoder:
    """A policy whose distribution is neither flat nor sharp; `end_logit` moves the chance of the end token."""
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(DecoderConfig(vocab_size=VOCAB, max_positions=64), generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.08)
        if end_logit:
            model.final_norm[0] = 1.0
            for block in model.layers():
                block.output[0], block.down[0] = 0.0, 0.0
            model.embedding[:, 0] = 1.0  # channel 0 is a constant that the end token's logit reads
            model.head[:, 0] = 0.0
            model.head[EOS, 0] = end_logit
    return model


def uniforms(rows: int, length: int = CAP, seed: int = 0) -> Uniforms:
    return np.random.default_rng(seed).random((rows, length), dtype=np.float32)


def draw(model: Decoder, noise: Uniforms | None, group_size: int = 4, **changed: Any) -> Samples:
    prompts: Sequence[Sequence[int]] = changed.pop("prompts", PROMPTS)
    cap: int = changed.pop("cap", CAP)
    return sample(model, prompts, group_size, cap, noise, **({"eos": EOS, "pad": PAD} | changed))


def slow_rollout(
    model: Decoder, prompt: Sequence[int], noise: NDArray[np.float32] | None, cap: int = CAP, temperature: float = 1.0
) -> Rollout:
    tokens: list[int] = []
    log_probs: list[float] = []
    while len(tokens) < cap and EOS not in tokens:
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *tokens]]))[0, -1].double()
        all_log_probs = torch.log_softmax(logits / temperature, dim=0)
        if noise is None:
            token = int(all_log_probs.argmax())
        else:
            token = int((all_log_probs.exp().cumsum(0) <= float(noise[len(tokens)])).sum())
        tokens.append(token)
        log_probs.append(float(all_log_probs[token]))
    return tokens, log_probs


def forward_log_probs(
    model: Decoder, prompt: Sequence[int], response: NDArray[np.int64], temperature: float = 1.0
) -> Any:
    """What the trainer computes: one causal pass over prompt and response."""
    row = torch.tensor([[*prompt, *response.tolist()]])
    with torch.no_grad():
        logits = model(row[:, :-1])[0, len(prompt) - 1 :] / temperature
    return torch.log_softmax(logits, dim=1).gather(1, row[0, len(prompt) :, None])[:, 0].numpy()


def assert_same(ours: Samples, theirs: Samples) -> None:
    assert [row.tolist() for row in ours.tokens] == [row.tolist() for row in theirs.tokens]
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)
    for left, right in zip(ours.log_probs, theirs.log_probs, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5, rtol=0)


# Degenerate cases.


def test_no_prompts_give_no_rollouts() -> None:
    samples = draw(decoder(), uniforms(0), prompts=[])
    assert (samples.tokens, samples.log_probs, samples.decode_steps, samples.row_steps) == ([], [], 0, 0)
    assert samples.truncated.shape == (0,)


def test_one_prompt_and_a_group_of_one() -> None:
    model, noise = decoder(), uniforms(1)
    samples = draw(model, noise, group_size=1, prompts=PROMPTS[:1])
    assert [row.tolist() for row in samples.tokens] == [slow_rollout(model, PROMPTS[0], noise[0])[0]]


def test_a_cap_of_one_token_needs_no_decode_step() -> None:
    samples = draw(decoder(), uniforms(16, 1), cap=1)
    assert (samples.decode_steps, samples.row_steps) == (0, 0)
    assert [len(row) for row in samples.tokens] == [1] * 16
    assert samples.truncated.tolist() == [row[0] != EOS for row in samples.tokens]


def test_every_row_ends_at_once() -> None:
    samples = draw(decoder(end_logit=200.0), uniforms(16))
    assert [row.tolist() for row in samples.tokens] == [[EOS]] * 16
    assert not samples.truncated.any()
    assert (samples.decode_steps, samples.row_steps) == (0, 0)


def test_no_row_ends() -> None:
    samples = draw(decoder(end_logit=-200.0), uniforms(16))
    assert samples.truncated.all()
    assert {len(row) for row in samples.tokens} == {CAP}
    assert (samples.decode_steps, samples.row_steps) == (CAP - 1, 16 * (CAP - 1))


def test_a_number_of_zero_draws_the_first_token_of_non_zero_probability() -> None:
    model = decoder()
    with torch.no_grad():  # tokens 0 to 2 get a logit of -1,000 from a constant channel
        model.embedding[:, 0] = 1.0
        for block in model.layers():
            block.output[0], block.down[0] = 0.0, 0.0
        model.head[:, 0] = 0.0
        model.head[:3, 0] = -1000.0
    samples = draw(model, np.zeros((4, 5), dtype=np.float32), group_size=1, cap=5)
    assert {token for row in samples.tokens for token in row.tolist()} == {3}


def test_the_largest_number_below_one_draws_a_token() -> None:
    noise = np.full((16, CAP), np.nextafter(np.float32(1), np.float32(0)))
    assert {token for row in draw(decoder(), noise).tokens for token in row.tolist()} == {VOCAB - 1}


def test_a_policy_that_has_diverged_is_named() -> None:
    model = decoder()
    with torch.no_grad():
        model.head[3] = math.nan
    for noise in (uniforms(16), None):
        with pytest.raises(SamplingError, match="logits must be finite"):
            draw(model, noise)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: draw(model, uniforms(0), group_size=0), "group_size must be at least 1, got 0"),
        (lambda model: draw(model, uniforms(16, 1), cap=0), "max_new_tokens must be at least 1, got 0"),
        (lambda model: draw(model, uniforms(16), temperature=0.0), "temperature must be positive and finite, got 0.0"),
        (lambda model: draw(model, uniforms(16), temperature=math.nan), "temperature must be .* got nan"),
        (lambda model: draw(model, uniforms(4), prompts=[()]), "each prompt must hold at least one token"),
        (lambda model: draw(model, uniforms(16, 60), cap=60), "must fit into 64 positions, got a prompt of 16"),
        (lambda model: draw(model, uniforms(15)), r"uniforms must have shape \(16, 30\), got \(15, 30\)"),
        (lambda model: draw(model, uniforms(16) + 0.5), r"uniforms must lie in \[0, 1\)"),
        (lambda model: draw(model, uniforms(16) * np.float32(np.nan)), r"uniforms must lie in \[0, 1\), got .*nan"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[Decoder], Samples], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(decoder())


# Tokens and log-probabilities.


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tokens_and_log_probs_are_those_of_the_slow_sampler(seed: int, temperature: float) -> None:
    model, noise = decoder(seed), uniforms(16, seed=seed)
    samples = draw(model, noise, temperature=temperature)
    for row in range(16):
        tokens, log_probs = slow_rollout(model, PROMPTS[row // 4], noise[row], temperature=temperature)
        assert samples.tokens[row].tolist() == tokens
        np.testing.assert_allclose(samples.log_probs[row], log_probs, atol=1e-5, rtol=0)
        assert samples.truncated[row] == (tokens[-1] != EOS)


def test_greedy_tokens_are_those_of_the_slow_sampler() -> None:
    model = decoder()
    samples = draw(model, None, group_size=2)
    for row in range(8):
        tokens, log_probs = slow_rollout(model, PROMPTS[row // 2], None)
        assert samples.tokens[row].tolist() == tokens
        np.testing.assert_allclose(samples.log_probs[row], log_probs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_equal_the_training_forward(temperature: float) -> None:
    # Faults B19 and B21: the first update has ratio 1, whatever the temperature of the draw.
    model = decoder()
    samples = draw(model, uniforms(16), temperature=temperature)
    for row, (tokens, log_probs) in enumerate(zip(samples.tokens, samples.log_probs, strict=True)):
        recomputed = forward_log_probs(model, PROMPTS[row // 4], tokens, temperature)
        assert np.abs(np.exp(recomputed - log_probs) - 1).max() < 1e-5


def test_scaling_one_side_alone_is_seen() -> None:
    # Fault B21: had the sampler ignored the temperature, the ratios would be far from 1.
    model = decoder()
    samples = draw(model, uniforms(16), temperature=0.6)
    recomputed = forward_log_probs(model, PROMPTS[0], samples.tokens[0], temperature=1.0)
    assert np.abs(np.exp(recomputed - samples.log_probs[0]) - 1).max() > 0.1


def test_the_temperature_scales_the_log_probs_of_a_known_policy() -> None:
    # Fault B21, its numbers: logits [2, 1, 0] at temperature 0.6.
    model = Decoder(DecoderConfig(vocab_size=3, max_positions=8), torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding[:, 0] = 1.0
        model.final_norm[0] = 1.0
        scale = math.sqrt(model.config.hidden_size)  # channel 0 is all there is to normalise
        model.head[:, 0] = torch.tensor([2.0, 1.0, 0.0]) / scale
    noise = np.array([[0.5], [0.9], [0.99]], dtype=np.float32)
    for temperature, expected in ((1.0, [-0.40761, -1.40761, -2.40761]), (0.6, [-0.20257, -1.86924, -3.53591])):
        samples = sample(model, [(0,)], 3, 1, noise, eos=NEVER, pad=0, temperature=temperature)
        drawn = {int(row[0]): float(value[0]) for row, value in zip(samples.tokens, samples.log_probs, strict=True)}
        assert drawn == pytest.approx({token: expected[token] for token in drawn}, abs=1e-4)
        assert len(drawn) >= 2


def test_the_draw_follows_the_distribution() -> None:
    model, rows = decoder(), 20_000
    samples = draw(model, uniforms(rows, 1), group_size=rows, prompts=PROMPTS[:1], cap=1)
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor([PROMPTS[0]]))[0, -1], 0).numpy() * rows
    counts = np.bincount(np.concatenate(samples.tokens), minlength=VOCAB)
    assert ((counts - expected) ** 2 / expected).sum() < 48.3  # chi-square, 22 degrees of freedom, p = .001


# Rows and their company.


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dropping_finished_rows_changes_no_token(seed: int) -> None:
    model, noise = decoder(seed), uniforms(32, seed=seed)
    dropping = draw(model, noise, group_size=8)
    keeping = draw(model, noise, group_size=8, eos=NEVER)  # without an end token every row stays to the cap
    assert 32 * (CAP - 1) == keeping.row_steps > 1.3 * dropping.row_steps
    for short, whole in zip(dropping.tokens, keeping.tokens, strict=True):
        assert short.tolist() == whole[: len(short)].tolist()
        assert len(short) == CAP or short[-1] == EOS


@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
def test_padding_changes_nothing(prompt: int) -> None:
    # Fault B24: the same prompt alone, without padding, and among longer ones.
    model, noise = decoder(), uniforms(16)
    together = draw(model, noise)
    alone = draw(model, noise[4 * prompt : 4 * prompt + 4], prompts=[PROMPTS[prompt]])
    mine = slice(4 * prompt, 4 * prompt + 4)
    assert_same(
        alone,
        Samples(
            tokens=together.tokens[mine],
            log_probs=together.log_probs[mine],
            truncated=together.truncated[mine],
            decode_steps=together.decode_steps,
            row_steps=together.row_steps,
        ),
    )


@pytest.mark.parametrize("pad", [EOS, 0, 4])
def test_the_pad_token_may_be_any(pad: int) -> None:
    # Fault B22: lengths, truncation and attention come from lengths, never from "is it the pad token".
    model, noise = decoder(), uniforms(16)
    assert_same(draw(model, noise, pad=pad), draw(model, noise))


def test_the_end_token_inside_a_prompt_ends_nothing() -> None:
    prompts = [(EOS, 3, EOS), (EOS,)]
    model, noise = decoder(), uniforms(8)
    samples = draw(model, noise, prompts=prompts)
    expected = [slow_rollout(model, prompts[row // 4], noise[row])[0] for row in range(8)]
    assert [row.tolist() for row in samples.tokens] == expected


def test_lengths_end_tokens_and_truncation_agree() -> None:
    # Fault B22: the end token is counted, and nothing follows it.
    samples = draw(decoder(end_logit=0.1), uniforms(64), group_size=16)
    lengths = np.array([len(row) for row in samples.tokens])
    assert lengths.min() == 1
    assert lengths.max() == CAP
    for tokens, log_probs, truncated in zip(samples.tokens, samples.log_probs, samples.truncated, strict=True):
        assert EOS not in tokens[:-1]
        assert truncated == (tokens[-1] != EOS)
        assert len(tokens) == CAP or not truncated
        assert len(log_probs) == len(tokens)
        assert (tokens.dtype.name, log_probs.dtype.name) == ("int64", "float32")
    assert samples.decode_steps == lengths.max() - 1
    assert samples.row_steps == (lengths - 1).sum()


def test_an_end_token_at_the_cap_is_no_truncation() -> None:
    model, noise = decoder(), uniforms(16)
    ended = [row for row in draw(model, noise).tokens if 1 < len(row) < CAP]
    cap = len(ended[0])
    samples = draw(model, noise[:, :cap], cap=cap)
    at_cap = [row for row, tokens in enumerate(samples.tokens) if len(tokens) == cap and tokens[-1] == EOS]
    assert at_cap
    assert not samples.truncated[at_cap].any()


def test_truncated_rows_keep_their_sampled_tokens() -> None:
    # Fault B23: nothing is forced onto the last position, and the trainer's sum is the sampler's own.
    model, noise = decoder(end_logit=-200.0), uniforms(16)
    samples = draw(model, noise)
    assert samples.truncated.all()
    for row in range(16):
        assert samples.tokens[row].tolist() == slow_rollout(model, PROMPTS[row // 4], noise[row])[0]
        ours = forward_log_probs(model, PROMPTS[row // 4], samples.tokens[row])
        assert len(ours) == CAP
        assert ours.sum() == pytest.approx(samples.log_probs[row].sum(), abs=1e-4)


# Noise.


def _noise(seed: int, step: int, prompts: Sequence[int], group_size: int) -> Uniforms:
    return rollout_uniforms(seed, Stream.ROLLOUTS, step, prompts, group_size, CAP)


def test_eight_rollouts_of_a_flat_policy_are_distinct() -> None:
    # Fault B31: no two rows, steps or runs share their noise.
    model = decoder(end_logit=-200.0)
    with torch.no_grad():
        model.head[:, 1:] = 0.0
    seen = [
        tuple(row.tolist()[:8])
        for seed, step in ((1, 1), (1, 2), (2, 1))
        for row in draw(model, _noise(seed, step, [5], 8), group_size=8, prompts=PROMPTS[:1]).tokens
    ]
    assert len(set(seen)) == 24


def test_more_samples_leave_the_first_ones_as_they_were() -> None:
    # Fault B31: what G adds comes after what was there.
    model = decoder()
    few = draw(model, _noise(0, 1, [0, 1, 2, 3], 4), group_size=4)
    many = draw(model, _noise(0, 1, [0, 1, 2, 3], 16), group_size=16)
    for prompt in range(4):
        for member in range(4):
            assert few.tokens[4 * prompt + member].tolist() == many.tokens[16 * prompt + member].tolist()


def test_sampling_leaves_model_and_global_random_state_alone() -> None:
    model = decoder()
    before, state = {name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state()
    draw(model, uniforms(16))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.is_grad_enabled()


def digest() -> str:
    """Of everything one call returns."""
    samples = draw(decoder(), uniforms(64), group_size=16)
    parts: list[NDArray[Any]] = [*samples.tokens, *samples.log_probs, samples.truncated]
    steps = f"{samples.decode_steps} {samples.row_steps}".encode()
    return hashlib.sha256(b"".join(part.tobytes() for part in parts) + steps).hexdigest()


def test_the_same_inputs_give_the_same_bytes_in_another_process() -> None:
    threads = torch.get_num_threads()
    code = f"import runpy, torch; torch.set_num_threads({threads}); print(runpy.run_path({__file__!r})['digest']())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert other.stdout.strip() == digest()
