"""The tokenizer that verl wants beside the tiny model: the task's own words, and two that verl insists on.

verl takes a model of type qwen2 for a chat model, whose tokenizer must know a line break and ``<|im_end|>`` as one
token each. Neither stands in a prompt and the model has no row for them. In a folder without a model config
transformers takes the tokenizer class that is named; beside one it would take Qwen2's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.store import write_json

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
EXTRA_WORDS = ("\n", "<|im_end|>")


def write_tokenizer(folder: Path, vocabulary: Sequence[str], *, eos: int, pad: int, max_length: int) -> None:
    """Write a word-level tokenizer to `folder`.

    Args:
        folder: where to; it is made.
        vocabulary: the text of each token id, without white space.
        eos: id of the end-of-sequence token.
        pad: id of the padding token.
        max_length: longest sequence of the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = (*vocabulary, *EXTRA_WORDS)
    added = [*sorted({eos, pad}), *range(len(vocabulary), len(words))]
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": words[number], "special": number in (eos, pad), "normalized": False}
            | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
            for number in added
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(words)},
            "unk_token": "<unknown>",
        },
    }
    write_json(folder / "tokenizer.json", document)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": vocabulary[eos],
            "pad_token": vocabulary[pad],
            "padding_side": "left",
            "clean_up_tokenization_spaces": False,
            "model_max_length": max_length,
        },
    )
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
