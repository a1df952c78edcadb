"""Completions by transformers, each from its own random numbers.

`generate` samples a batch from one random stream, so a completion would depend on its neighbours. Here every
request draws one uniform number per token from a counter-based generator of its own seed, and the token is read off
the inverse of the distribution that temperature and top_p leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError

from benchmarks.evaluation.prompts import Prompt, encode
from benchmarks.evaluation.protocols import Sampling
from benchmarks.evaluation.samplers import Completion, Request
from benchmarks.evaluation.samplers.loading import cannot_load, completion, end_tokens, load_tokenizer, location


class TransformersSampler:
    """A causal language model on the GPU if there is one, else on the CPU in float32."""

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Load a model.

        Args:
            model: Hub name, folder, or .gguf file.
            revision: of the Hub model.

        Raises:
            ConfigError: if it cannot be loaded.
        """
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the command has its own
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer = load_tokenizer(model, revision)
        try:
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                **location(model), revision=revision, dtype="auto" if self._device == "cuda" else torch.float32
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise cannot_load(model, error) from error
        self._model: Any = loaded
        self._model.eval().to(self._device)  # type: ignore[no-untyped-call]
        self._ends = end_tokens(self._tokenizer, loaded.generation_config)
        # What the model's authors recommend (top_k, repetition penalty) is no part of the protocol.
        self._model.generation_config = _generation()
        self.window = int(loaded.config.max_position_embeddings)

    def encode(self, turns: Sequence[str]) -> Prompt:
        """The prompt of a conversation, the user's turns first and last."""
        return encode(self._tokenizer, turns)

    @torch.inference_mode()
    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """One completion for each request; equal batches give equal completions on one machine."""
        ids, mask = _left_padded([request.token_ids for request in requests], self._device)
        output = self._model.generate(
            ids,
            attention_mask=mask,
            generation_config=_generation(
                do_sample=False,  # the processor has drawn already and leaves one token
                max_new_tokens=sampling.max_tokens,
                eos_token_id=sorted(self._ends),
                pad_token_id=min(self._ends, default=0),
            ),
            logits_processor=transformers.LogitsProcessorList(
                [_Draw([request.seed for request in requests], ids.shape[1], sampling)]
            ),
        )
        return [completion(self._tokenizer, row, self._ends) for row in output[:, ids.shape[1] :].tolist()]


class _Draw(transformers.LogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Replaces the scores of each row by one certain token: the one that its random number picks."""

    def __init__(self, seeds: Sequence[int], prompt_tokens: int, sampling: Sampling) -> None:
        self._prompt_tokens, self._sampling = prompt_tokens, sampling
        self._uniforms = np.stack(
            [np.random.Generator(np.random.Philox(key=seed)).random(sampling.max_tokens) for seed in seeds]
        )

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._sampling.temperature == 0:
            return scores
        step = input_ids.shape[1] - self._prompt_tokens
        uniforms = torch.as_tensor(self._uniforms[:, step], device=scores.device)
        tokens = draw(scores, uniforms, self._sampling.temperature, self._sampling.top_p)
        return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)


def draw(logits: torch.Tensor, uniforms: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Tokens by inversion: the first whose cumulative share of the kept probability exceeds the uniform number.

    Args:
        logits: [rows, vocabulary].
        uniforms: [rows], in [0, 1).
        temperature: above 0.
        top_p: the likeliest tokens are kept until they hold this share, in (0, 1]; the one that reaches it is kept.

    Returns:
        [rows] token ids.
    """
    probabilities, order = (logits.double() / temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = probabilities.where(before < top_p, 0.0)
    cumulative = kept.cumsum(dim=-1)
    place = (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(dim=-1)
    return order.gather(1, place[:, None].clamp(max=logits.shape[1] - 1)).squeeze(1)


def _generation(**settings: Any) -> Any:
    return transformers.GenerationConfig(**settings)  # type: ignore[no-untyped-call]


def _left_padded(prompts: Sequence[Sequence[int]], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, [rows, longest]; the padding's value is masked out."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids, mask
