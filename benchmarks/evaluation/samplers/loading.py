"""What both engines do with a model's name: tokenizer, end tokens, text of a completion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.evaluation.samplers import Completion
from sagc.errors import ConfigError


def location(model: str) -> dict[str, Any]:
    """Arguments of `from_pretrained` for a Hub name, a folder, or a .gguf file."""
    path = Path(model)
    if path.suffix == ".gguf":
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    return {"pretrained_model_name_or_path": model}


def load_tokenizer(model: str, revision: str | None) -> Any:
    """The tokenizer of a model, padding on the left.

    Raises:
        ConfigError: if there is none.
    """
    if model.startswith((".", "/", "~")) and not Path(model).exists():
        raise ConfigError(f"model must be a folder or .gguf file that is there, got {model!r}; check the path")
    try:
        return transformers.AutoTokenizer.from_pretrained(**location(model), revision=revision, padding_side="left")
    except (OSError, ValueError) as error:
        raise cannot_load(model, error) from error


def cannot_load(model: str, error: Exception) -> ConfigError:
    """The error for a model that is not there or not complete."""
    reason = " ".join(str(error).split())[:200]
    return ConfigError(
        f"model must be a model on the Hub or a folder that holds one, got {model!r} ({reason}); check it"
    )


def end_tokens(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Every token that ends an answer: chat models have one for the turn beside the tokenizer's own."""
    stated = generation_config.eos_token_id if generation_config is not None else None
    several = [] if stated is None else [stated] if isinstance(stated, int) else list(stated)
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return frozenset([*several, *own])


def completion(tokenizer: Any, ids: Sequence[int], ends: frozenset[int]) -> Completion:
    """The completion that `ids` are, up to the first end token."""
    stop = next((place for place, token in enumerate(ids) if token in ends), None)
    spoken = ids if stop is None else ids[:stop]
    text = tokenizer.decode(spoken, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return Completion(text, len(spoken) + (stop is not None), "length" if stop is None else "stop")
