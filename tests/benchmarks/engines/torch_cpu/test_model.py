"""The decoder is a Qwen2: transformers, with the same weights, is the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.engines.torch_cpu.export import qwen2_weights
from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from sagc.errors import ConfigError

CONFIG = DecoderConfig(vocab_size=59, max_positions=160)
LARGER = DecoderConfig(
    vocab_size=31, max_positions=80, hidden_size=96, layers=3, heads=6, kv_heads=2, intermediate_size=128, norm_eps=1e-5
)


def decoder(config: DecoderConfig = CONFIG, seed: int = 0) -> Decoder:
    """Random weights, biases and norms included, large enough that attention is not uniform."""
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


def qwen2(model: Decoder) -> Qwen2ForCausalLM:
    config = model.config
    reference = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=config.vocab_size,
            max_position_embeddings=config.max_positions,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            intermediate_size=config.intermediate_size,
            rms_norm_eps=config.norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=False,
        )
    )
    reference.load_state_dict(qwen2_weights(model))
    return reference


def tokens(rows: int, length: int, config: DecoderConfig = CONFIG) -> Tensor:
    return torch.randint(0, config.vocab_size, (rows, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("config", [CONFIG, LARGER], ids=["task", "larger"])
@pytest.mark.parametrize("length", [1, 2, 37, 80])
def test_logits_equal_those_of_transformers(config: DecoderConfig, length: int) -> None:
    model, batch = decoder(config), tokens(3, length, config)
    with torch.no_grad():
        assert (model(batch) - qwen2(model)(batch).logits).abs().max() <= 1e-5


def test_gradients_equal_those_of_transformers() -> None:
    model, batch = decoder(), tokens(2, 12)
    reference = qwen2(model)
    torch.autograd.backward(model(batch).logsumexp(-1).mean())
    torch.autograd.backward(reference(batch).logits.logsumexp(-1).mean())
    ours, theirs = model.blocks[0].get_parameter("qkv").grad, reference.model.layers[0].self_attn.q_proj.weight.grad
    assert ours is not None
    torch.testing.assert_close(ours[: model.config.hidden_size], theirs, atol=1e-6, rtol=1e-4)


def test_the_default_shape_has_a_tenth_of_a_million_parameters() -> None:
    assert sum(parameter.numel() for parameter in decoder().parameters()) == 106_432


def test_a_position_does_not_see_what_comes_after_it() -> None:
    model, batch = decoder(), tokens(2, 20)
    changed = batch.clone()
    changed[:, 10:] = 58
    with torch.no_grad():
        assert torch.equal(model(batch)[:, :10], model(changed)[:, :10])


def test_right_padding_changes_no_logit_before_it() -> None:
    model, batch = decoder(), tokens(2, 9)
    with torch.no_grad():
        padded = model(torch.nn.functional.pad(batch, (0, 30), value=58))
        torch.testing.assert_close(padded[:, :9], model(batch), atol=1e-5, rtol=0)


def test_initial_weights_depend_on_the_generator_alone() -> None:
    def weights(seed: int) -> dict[str, Tensor]:
        return Decoder(CONFIG, torch.Generator().manual_seed(seed)).state_dict()

    first = weights(0)
    torch.rand(7)  # the global stream moves on, which must not matter
    state = torch.get_rng_state()
    second = weights(0)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding"], weights(1)["embedding"])
    assert first["blocks.0.gate_up"].std().item() == pytest.approx(0.05, rel=0.05)
    assert not first["blocks.0.qkv_bias"].any()


def test_every_parameter_gets_a_gradient() -> None:
    model = decoder()
    torch.autograd.backward(model(tokens(2, 9)).square().mean())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_a_sequence_beyond_the_last_position_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be at most max_positions = 160, got 161"):
        decoder()(tokens(1, 161))


@pytest.mark.parametrize(
    ("shape", "message"),
    [({"hidden_size": 60}, "hidden_size must be .* got 60"), ({"heads": 4, "kv_heads": 3}, "heads must be .* got 4")],
)
def test_shapes_that_do_not_divide_are_refused(shape: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DecoderConfig(vocab_size=59, max_positions=16, **shape)
