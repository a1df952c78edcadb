"""The model folder: written so that transformers, verl and vLLM load it, and read back.

    config.json, model.safetensors, generation_config.json      a Qwen2ForCausalLM
    tokenizer.json, tokenizer_config.json, chat_template.jinja  a word-level tokenizer over the task's vocabulary

Text is tokens joined by single spaces; a token that is not in the vocabulary is an error, not "unknown".
The files are written without transformers, so the same weights give the same bytes whatever is installed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.store import write_json
from sagc.errors import SagcError

CONFIG, WEIGHTS = "config.json", "model.safetensors"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "max_positions": "max_position_embeddings",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "intermediate_size": "intermediate_size",
    "norm_eps": "rms_norm_eps",
}
"""Qwen2's name of each of our settings; `rope_theta` stands inside `rope_parameters`."""


class ModelError(SagcError, ValueError):
    """A model folder that cannot be read; the text names the folder, what is wrong and the cure."""


def write_model(model: Decoder, folder: Path, vocabulary: Sequence[str], *, eos: int, pad: int) -> None:
    """Write `model` to `folder`, which appears whole or not at all; a folder of that name is replaced.

    Args:
        model: the policy.
        folder: where to; its parents are made.
        vocabulary: the text of each token id, without white space.
        eos: id of the end-of-sequence token.
        pad: id of the padding token.
    """
    temporary = _sibling(folder, "writing")
    temporary.mkdir(parents=True)
    try:
        for name, content in _documents(model.config, vocabulary, eos, pad).items():
            write_json(temporary / name, content)
        (temporary / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        (temporary / WEIGHTS).write_bytes(save(qwen2_weights(model), metadata={"format": "pt"}))
        _replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_model(folder: Path) -> Decoder:
    """The model in `folder`, as `write_model` wrote it.

    Raises:
        ModelError: if a file is missing or damaged, or holds another model.
    """
    try:
        stored = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        settings = {ours: stored[theirs] for ours, theirs in _CONFIG_KEYS.items()}
        config = DecoderConfig(**settings, rope_theta=stored["rope_parameters"]["rope_theta"])
        model = Decoder(config, torch.Generator())
        load_qwen2_weights(model, load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(
            f"model folder must hold {CONFIG} and {WEIGHTS} of one model, got {str(folder)!r} ({error!r}); "
            "write it again"
        ) from error
    return model


def qwen2_weights(model: Decoder) -> dict[str, Tensor]:
    """Copies of the weights under transformers' names, fused matrices taken apart."""
    return {name: view.detach().clone().contiguous() for name, view in _views(model)}


def load_qwen2_weights(model: Decoder, weights: dict[str, Tensor]) -> None:
    """Copy weights under transformers' names into `model`.

    Raises:
        ModelError: if names or shapes differ from the model's.
    """
    views = dict(_views(model))
    shapes = {name: tuple(view.shape) for name, view in views.items()}
    given = {name: tuple(weight.shape) for name, weight in weights.items()}
    if given != shapes:
        name = min(name for name in given.keys() | shapes.keys() if given.get(name) != shapes.get(name))
        raise ModelError(
            f"shape of {name} must be {shapes.get(name)!r}, got {given.get(name)!r}; "
            "read the weights with the config that they were written with"
        )
    with torch.no_grad():
        for name, view in views.items():
            view.copy_(weights[name])


def _views(model: Decoder) -> Iterator[tuple[str, Tensor]]:
    """Each of transformers' tensors as a view into `model`."""
    yield "model.embed_tokens.weight", model.embedding
    yield "model.norm.weight", model.final_norm
    yield "lm_head.weight", model.head
    for number, block in enumerate(model.layers()):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", block.input_norm
        yield f"{layer}.post_attention_layernorm.weight", block.post_norm
        for letter, weight, bias in zip(
            "qkv",
            torch.split(block.qkv, model.config.qkv_sizes),
            torch.split(block.qkv_bias, model.config.qkv_sizes),
            strict=True,
        ):
            yield f"{layer}.self_attn.{letter}_proj.weight", weight
            yield f"{layer}.self_attn.{letter}_proj.bias", bias
        yield f"{layer}.self_attn.o_proj.weight", block.output
        gate, up = block.gate_up.chunk(2)
        yield f"{layer}.mlp.gate_proj.weight", gate
        yield f"{layer}.mlp.up_proj.weight", up
        yield f"{layer}.mlp.down_proj.weight", block.down


def _documents(config: DecoderConfig, vocabulary: Sequence[str], eos: int, pad: int) -> dict[str, dict[str, Any]]:
    """Every JSON file of the folder, by name."""
    special = {"eos_token_id": eos, "pad_token_id": pad}
    model = {theirs: getattr(config, ours) for ours, theirs in _CONFIG_KEYS.items()}
    return {
        CONFIG: {
            **model,
            **special,
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_act": "silu",
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
            "rope_theta": config.rope_theta,  # readers older than transformers 5
            "tie_word_embeddings": False,
            "use_sliding_window": False,
            "dtype": "float32",
        },
        "generation_config.json": {**special, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
        "tokenizer.json": _tokenizer(vocabulary, eos, pad),
        "tokenizer_config.json": {
            # transformers 5 loads every qwen2 with its byte-level tokenizer, whatever class is named, unless a map
            # to custom code stands here. This one maps to none, so that the named class is taken; with
            # trust_remote_code=True transformers would look for the code and fail.
            "tokenizer_class": "TokenizersBackend",
            "auto_map": {"AutoTokenizer": [None, None]},
            "eos_token": vocabulary[eos],
            "pad_token": vocabulary[pad],
            "padding_side": "left",
            "clean_up_tokenization_spaces": False,  # it would glue "!" to the token before
            "model_max_length": config.max_positions,
        },
    }


def _tokenizer(vocabulary: Sequence[str], eos: int, pad: int) -> dict[str, Any]:
    special = [
        {"id": number, "content": vocabulary[number], "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number in sorted({eos, pad})
    ]
    vocab = {token: number for number, token in enumerate(vocabulary)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,  # none: tokens joined by single spaces
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unknown>"},
    }


def _replace(source: Path, target: Path) -> None:
    """Rename `source` to `target`; a folder of that name is moved aside first, since it cannot be renamed onto."""
    if not target.exists():
        source.rename(target)
        return
    old = _sibling(target, "old")
    target.rename(old)
    source.rename(target)
    shutil.rmtree(old)


def _sibling(folder: Path, purpose: str) -> Path:
    """A name beside `folder` that no other process uses and nothing stands under."""
    path = folder.with_name(f".{folder.name}.{purpose}.{os.getpid()}")
    shutil.rmtree(path, ignore_errors=True)  # left by a killed process of the same number
    return path
