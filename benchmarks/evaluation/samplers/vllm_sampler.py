"""Completions by vLLM's offline `LLM`; the only module that imports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import transformers

from benchmarks.evaluation.prompts import Prompt, encode
from benchmarks.evaluation.protocols import Sampling
from benchmarks.evaluation.samplers import Completion, Request
from benchmarks.evaluation.samplers.loading import cannot_load, completion, end_tokens, load_tokenizer
from sagc.errors import ConfigError

_SETTINGS = {
    # With an engine in a process of its own, what is batched together depends on when a request arrives there.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Settings of vLLM that only the environment carries; what is set there already stays."""
_ON_CPU = {
    "enforce_eager": True,  # compiling takes minutes and gains nothing
    "enable_chunked_prefill": False,  # a part of a prompt draws a number that a CPU's generator cannot take back
}


class VllmSampler:
    """A model in vLLM. One request is one completion: vLLM's own n > 1 would count seeds up from the first."""

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Load a model.

        Raises:
            ConfigError: if vLLM is not installed or cannot load the model.
        """
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            import vllm  # type: ignore[import-not-found,unused-ignore]
            from vllm.platforms import current_platform  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ConfigError(
                f"engine vllm must be installed, got {error}; "
                "use `nox -s evaluate -- --engine vllm` or --engine transformers"
            ) from error
        self._vllm = vllm
        self._tokenizer = load_tokenizer(model, revision)
        try:
            config = transformers.AutoConfig.from_pretrained(model, revision=revision)
            self._llm: Any = vllm.LLM(
                model=model,
                revision=revision,
                tokenizer_revision=revision,
                dtype=config.dtype or "auto",  # "auto" alone would halve the precision of a float32 model
                generation_config="vllm",  # the protocol alone decides, not the defaults that came with the model
                use_tqdm_on_load=False,
                seed=0,
                **(_ON_CPU if current_platform.is_cpu() else {}),
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise cannot_load(model, error) from error
        self.window = int(self._llm.llm_engine.model_config.max_model_len)
        self._ends = end_tokens(self._tokenizer, _generation_config(model, revision))

    def encode(self, turns: Sequence[str]) -> Prompt:
        """The prompt of a conversation, the user's turns first and last."""
        return encode(self._tokenizer, turns)

    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """One completion for each request.

        Raises:
            ConfigError: on a temperature that vLLM refuses or would replace by another.
        """
        prompts = [self._vllm.TokensPrompt(prompt_token_ids=list(request.token_ids)) for request in requests]
        parameters = [self._parameters(request, sampling) for request in requests]
        self._llm.reset_prefix_cache()  # a resumed run skips the batches before, so none may leave anything behind
        outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
        return [completion(self._tokenizer, list(output.outputs[0].token_ids), self._ends) for output in outputs]

    def _parameters(self, request: Request, sampling: Sampling) -> Any:
        try:
            parameters = self._vllm.SamplingParams(
                n=1,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=request.seed,
                stop_token_ids=sorted(self._ends),
                detokenize=False,
            )
            if parameters.temperature != sampling.temperature:
                raise ValueError(f"it would become {parameters.temperature}")
        except Exception as error:  # a class of vLLM's own, which its versions derive from different ones
            raise ConfigError(
                f"temperature must be one that vLLM takes, got {sampling.temperature!r} ({error}); "
                "choose another or --engine transformers"
            ) from error
        return parameters


def _generation_config(model: str, revision: str | None) -> Any:
    """The model's generation settings, for their end tokens; None where it has none."""
    try:
        return transformers.GenerationConfig.from_pretrained(model, revision=revision or "main")
    except OSError:
        return None
