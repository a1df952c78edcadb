"""Draws rollouts from the policy: one prefill per prompt, a KV cache, finished rows dropped at once.

A token is the inverse-CDF draw of a uniform number given from outside, so rows share no random stream, and
neither their order nor their company changes what they say.

What bounds it: up to some 25 rows the operator calls of a decode step (about 0.2 ms, whatever the rows), beyond
that arithmetic (about 8 us a row; at 256 rows half of it attention's many small products, a third the matrices).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.engines.torch_cpu.decoding import Decoding
from benchmarks.engines.torch_cpu.model import Decoder
from sagc.errors import ConfigError, SagcError


class SamplingError(SagcError, ArithmeticError):
    """The policy has no distribution to draw from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """R = prompts x group size rollouts, those of one prompt next to each other."""

    tokens: list[NDArray[np.int64]]
    """[R] response tokens, the end-of-sequence token included where there is one."""
    log_probs: list[NDArray[np.float32]]
    """[R] log-probability of each of them, at the temperature of the draw."""
    truncated: NDArray[np.bool_]
    """[R] whether the response reached the cap without its end token."""
    decode_steps: int
    """Forward passes after the prefill: the longest response less one."""
    row_steps: int
    """Rows decoded, summed over decode steps."""


def sample(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    max_new_tokens: int,
    uniforms: NDArray[np.float32] | None,
    *,
    eos: int,
    pad: int,
    temperature: float = 1.0,
) -> Samples:
    """Sample `group_size` responses to each prompt.

        token t of rollout r = min { v : p(0) + ... + p(v) > uniforms[r, t] },   p = softmax(logits / temperature)

    Args:
        model: the policy.
        prompts: tokens of each prompt, at least one; lengths may differ.
        group_size: rollouts per prompt, G, 1 or more.
        max_new_tokens: most tokens of a response, 1 or more.
        uniforms: [R, max_new_tokens] in [0, 1); None takes the most probable token instead, the first on ties.
        eos: token that ends a response.
        pad: token that fills prompts up; any will do, `eos` too.
        temperature: positive.

    Raises:
        ConfigError: if an argument breaks these rules.
        SamplingError: if logits are not finite.

    Degenerate cases: no prompts give no rollouts and no decode step; where every first token is `eos`, or
    `max_new_tokens` is 1, there is no decode step either. A number of exactly 0 draws the first token of
    non-zero probability.
    """
    _check(model, prompts, group_size, max_new_tokens, uniforms, temperature)
    if not prompts:
        return Samples(tokens=[], log_probs=[], truncated=np.zeros(0, dtype=np.bool_), decode_steps=0, row_steps=0)
    noise = None if uniforms is None else torch.from_numpy(uniforms.T.astype(np.float64))
    with torch.inference_mode():
        decoding = Decoding(model, prompts, group_size, max_new_tokens - 1, pad, temperature)
        return _draw(decoding, max_new_tokens, noise, eos)


def _draw(decoding: Decoding, max_new_tokens: int, noise: Tensor | None, eos: int) -> Samples:
    logits = decoding.prefill()
    tokens = np.empty((len(logits), max_new_tokens), dtype=np.int64)
    log_probs = np.empty((len(logits), max_new_tokens), dtype=np.float32)
    lengths = np.full(len(logits), max_new_tokens)
    truncated = np.ones(len(logits), dtype=np.bool_)
    rows = np.arange(len(logits))  # the rollout in each row that is still decoded
    row_steps = 0
    for step in range(max_new_tokens):
        drawn, drawn_log_probs = _choose(logits, None if noise is None else noise[step][rows])
        tokens[rows, step] = drawn
        log_probs[rows, step] = drawn_log_probs
        ended = drawn.numpy() == eos
        if ended.any():
            lengths[rows[ended]] = step + 1
            truncated[rows[ended]] = False
            live = len(rows) - np.count_nonzero(ended)
            sources, targets = live + np.flatnonzero(~ended[live:]), np.flatnonzero(ended[:live])
            decoding.move(torch.from_numpy(sources), torch.from_numpy(targets))
            rows[targets], drawn[targets] = rows[sources], drawn[sources]
            rows, drawn = rows[:live], drawn[:live]
        if not len(rows) or step == max_new_tokens - 1:
            break
        logits = decoding.step(drawn)
        row_steps += len(rows)
    return Samples(
        tokens=[row[:length] for row, length in zip(tokens, lengths, strict=True)],
        log_probs=[row[:length] for row, length in zip(log_probs, lengths, strict=True)],
        truncated=truncated,
        decode_steps=step,
        row_steps=row_steps,
    )


def _choose(logits: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Tokens [n] drawn with noise [n], greedily without, and their log-probabilities [n]."""
    log_probs = torch.log_softmax(logits, dim=-1)
    if log_probs[:, 0].isnan().any():  # one bad logit makes the whole row NaN
        raise SamplingError("logits must be finite, got NaN or infinity; the policy has diverged, use an earlier one")
    if noise is None:
        drawn = log_probs.argmax(dim=-1, keepdim=True)
    else:
        # In double precision a number below 1 times the sum stays below the sum: the draw never falls off the end.
        cdf = log_probs.exp().cumsum(dim=-1, dtype=torch.float64)
        drawn = torch.searchsorted(cdf, cdf[:, -1:] * noise[:, None], right=True)
    return drawn[:, 0], log_probs.gather(1, drawn)[:, 0]


def _check(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    max_new_tokens: int,
    uniforms: NDArray[np.float32] | None,
    temperature: float,
) -> None:
    if group_size < 1:
        raise ConfigError(f"group_size must be at least 1, got {group_size!r}; ask for one rollout per prompt or more")
    if max_new_tokens < 1:
        raise ConfigError(f"max_new_tokens must be at least 1, got {max_new_tokens!r}; allow one token or more")
    if not 0 < temperature < math.inf:
        raise ConfigError(f"temperature must be positive and finite, got {temperature!r}; for greedy pass no uniforms")
    if not all(map(len, prompts)):
        raise ConfigError("each prompt must hold at least one token, got an empty one; start it with a token")
    longest = max(map(len, prompts), default=0)
    if longest + max_new_tokens > model.config.max_positions:
        raise ConfigError(
            f"prompt and response must fit into {model.config.max_positions} positions, got a prompt of {longest} "
            f"tokens and max_new_tokens {max_new_tokens}; lower it or build the model with more positions"
        )
    if uniforms is None:
        return
    shape = (len(prompts) * group_size, max_new_tokens)
    if uniforms.shape != shape:
        raise ConfigError(f"uniforms must have shape {shape}, got {uniforms.shape!r}; give each token a number")
    if uniforms.size and not (uniforms.min() >= 0 and uniforms.max() < 1):
        raise ConfigError(
            f"uniforms must lie in [0, 1), got {uniforms.min()!r} to {uniforms.max()!r}; "
            "draw them as Generator.random does"
        )
