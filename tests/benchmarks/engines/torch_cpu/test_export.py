"""The model folder: what transformers reads is what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from benchmarks.engines.torch_cpu.export import ModelError, qwen2_weights, read_model, write_model
from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.engines.torch_cpu.sampler import sample

VOCABULARY = [
    *"0123456789",
    *(operator + digit for operator in "+-*" for digit in "0123456789"),
    *"abcdefghijkl",
    *"!?#$:^_",
]
EOS, PAD = VOCABULARY.index("$"), VOCABULARY.index("_")
TEXT = "^ 4 a +3 b *5 : 4 a +3 7 ! 4 b *5 5 ? # 5 $ _ _"
PROMPT = "^ 4 a +3 b *5 :"


def decoder(seed: int = 0) -> Decoder:
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(DecoderConfig(vocab_size=len(VOCABULARY), max_positions=96), generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


@pytest.fixture(scope="module")
def model() -> Decoder:
    return decoder()


@pytest.fixture(scope="module")
def folder(model: Decoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "deep" / "model"
    write_model(model, path, VOCABULARY, eos=EOS, pad=PAD)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_transformers_loads_the_same_model(model: Decoder, folder: Path) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    batch = torch.randint(0, len(VOCABULARY), (3, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert (loaded(batch).logits - model(batch)).abs().max() <= 1e-5
    assert type(loaded).__name__ == "Qwen2ForCausalLM"
    assert loaded.dtype == torch.float32


def test_the_tokenizer_gives_back_our_tokens(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [VOCABULARY.index(token) for token in TEXT.split()]
    assert tokenizer(TEXT)["input_ids"] == ids
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.decode(ids, skip_special_tokens=True) == TEXT.removesuffix(" $ _ _")
    assert tokenizer.convert_ids_to_tokens(list(range(59))) == VOCABULARY
    assert tokenizer(" ".join(VOCABULARY))["input_ids"] == list(range(59))
    assert (len(tokenizer), tokenizer.eos_token_id, tokenizer.pad_token_id) == (59, EOS, PAD)


def test_the_tokenizer_pads_on_the_left(folder: Path) -> None:
    batch = AutoTokenizer.from_pretrained(folder)([PROMPT, "^ 4 :"], padding=True)
    assert batch["attention_mask"] == [[1] * 7, [0, 0, 0, 0, 1, 1, 1]]
    assert batch["input_ids"][1][:4] == [PAD] * 4


def test_a_word_outside_the_vocabulary_is_an_error(folder: Path) -> None:
    with pytest.raises(Exception, match="UNK"):
        AutoTokenizer.from_pretrained(folder)("^ 4 seven")


def test_the_chat_template_adds_nothing(folder: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": PROMPT}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == PROMPT
    assert tokenizer.apply_chat_template(chat, return_dict=True)["input_ids"] == tokenizer(PROMPT)["input_ids"]


def test_greedy_generation_equals_our_sampler(model: Decoder, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [PROMPT, "^ 4 :", "^ 9 a -1 b -1 c -1 :"]
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    width = batch["input_ids"].shape[1]
    generated = AutoModelForCausalLM.from_pretrained(folder).generate(**batch, do_sample=False, max_new_tokens=40)
    ours = sample(model, [tokenizer(prompt)["input_ids"] for prompt in prompts], 1, 40, None, eos=EOS, pad=PAD)
    for row, theirs in zip(ours.tokens, generated[:, width:].numpy(), strict=True):
        np.testing.assert_array_equal(row, theirs[: len(row)])
        assert (theirs[len(row) :] == PAD).all()


def test_the_folder_says_how_the_policy_is_sampled(folder: Path) -> None:
    settings = GenerationConfig.from_pretrained(folder)
    assert (settings.eos_token_id, settings.pad_token_id) == (EOS, PAD)
    assert (settings.do_sample, settings.temperature, settings.top_k, settings.top_p) == (True, 1.0, 0, 1.0)


def test_reading_gives_back_config_and_weights(model: Decoder, folder: Path) -> None:
    loaded = read_model(folder)
    assert loaded.config == model.config
    ours, theirs = model.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_equal_weights_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    write_model(read_model(folder), again, VOCABULARY, eos=EOS, pad=PAD)
    assert contents(again) == contents(folder)


def test_writing_replaces_a_folder_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(decoder(0), folder, VOCABULARY, eos=EOS, pad=PAD)
    (folder / "left over").touch()
    write_model(decoder(1), folder, VOCABULARY, eos=EOS, pad=PAD)
    assert torch.equal(read_model(folder).embedding, decoder(1).embedding)
    assert not (folder / "left over").exists()
    assert list(tmp_path.iterdir()) == [folder]


def test_a_write_that_fails_leaves_the_old_folder_whole(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    write_model(decoder(0), target, VOCABULARY, eos=EOS, pad=PAD)
    before = contents(target)
    with pytest.raises(IndexError):
        write_model(decoder(1), target, VOCABULARY, eos=len(VOCABULARY), pad=PAD)
    assert contents(target) == before
    assert list(tmp_path.iterdir()) == [target]


def test_exported_weights_share_no_memory_with_the_model() -> None:
    model = decoder()
    weights = qwen2_weights(model)
    before = model.head.detach().clone()
    weights["lm_head.weight"].zero_()
    assert torch.equal(model.head, before)


def _truncate_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def _remove_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _break_config(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")


def _change_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}), encoding="utf-8")


@pytest.mark.parametrize("damage", [_truncate_weights, _remove_weights, _break_config, _change_shape])
def test_a_damaged_folder_is_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(decoder(), folder, VOCABULARY, eos=EOS, pad=PAD)
    damage(folder)
    with pytest.raises(ModelError, match=f"got '{folder}'.*write it again"):
        read_model(folder)
