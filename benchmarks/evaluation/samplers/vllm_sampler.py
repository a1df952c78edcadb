"""Completions by vLLM's offline `LLM`; the only module that imports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.evaluation.prompts import Prompt, encode
from benchmarks.evaluation.protocols import Sampling
from benchmarks.evaluation.samplers import Completion, Request
from benchmarks.evaluation.samplers.loading import cannot_load, completion, end_tokens, load_tokenizer
from sagc.errors import ConfigError


class VllmSampler:
    """A model in vLLM. One request is one completion: vLLM's own n > 1 would count seeds up from the first."""

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Load a model.

        Raises:
            ConfigError: if vLLM is not installed or cannot load the model.
        """
        try:
            import vllm  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ConfigError(
                f"engine vllm must be installed, got {error}; use `nox -s evaluate` or --engine transformers"
            ) from error
        self._vllm = vllm
        self._tokenizer = load_tokenizer(model, revision)
        try:
            # "vllm": the protocol alone decides, not the defaults that came with the model
            self._llm: Any = vllm.LLM(model=model, revision=revision, generation_config="vllm", seed=0)
        except (OSError, ValueError) as error:
            raise cannot_load(model, error) from error
        self.window = int(self._llm.llm_engine.model_config.max_model_len)
        self._ends = end_tokens(self._tokenizer, _generation_config(model, revision))

    def encode(self, turns: Sequence[str]) -> Prompt:
        """The prompt of a conversation, the user's turns first and last."""
        return encode(self._tokenizer, turns)

    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """One completion for each request."""
        prompts = [self._vllm.TokensPrompt(prompt_token_ids=list(request.token_ids)) for request in requests]
        parameters = [
            self._vllm.SamplingParams(
                n=1,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=request.seed,
                stop_token_ids=sorted(self._ends),
                detokenize=False,
            )
            for request in requests
        ]
        outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
        return [completion(self._tokenizer, list(output.outputs[0].token_ids), self._ends) for output in outputs]


def _generation_config(model: str, revision: str | None) -> Any:
    """The model's generation settings, for their end tokens; None where it has none."""
    import transformers

    try:
        return transformers.GenerationConfig.from_pretrained(model, revision=revision or "main")
    except OSError:
        return None
