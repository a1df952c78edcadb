"""A tiny decoder in plain torch with Qwen2's arithmetic: the same weights give transformers' logits.

Per layer, with RMSNorm N and residual stream x:  x += O attention(N x);  x += down(silu(gate N x) * up N x).
Queries, keys and values have a bias, positions enter by rotation (RoPE), query heads share key-value heads
(GQA), the output head is not tied to the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sagc.errors import ConfigError

INIT_STD = 0.05
"""Standard deviation of every initial matrix [ours]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Shape of a `Decoder`; the defaults are about 0.1 M parameters at a vocabulary of 59 [ours]."""

    vocab_size: int
    max_positions: int
    """Longest sequence, prompt and response together."""
    hidden_size: int = 64
    layers: int = 2
    heads: int = 4
    """Query heads."""
    kv_heads: int = 2
    """Key-value heads, each shared by heads / kv_heads query heads."""
    intermediate_size: int = 192
    rope_theta: float = 1000.0
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.heads):
            raise ConfigError(
                f"hidden_size must be an even multiple of heads = {self.heads}, got {self.hidden_size!r}; "
                "rotation pairs the channels of each head"
            )
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"heads must be a multiple of kv_heads = {self.kv_heads}, got {self.heads!r}; "
                "each key-value head serves the same number of query heads"
            )

    @property
    def head_dim(self) -> int:
        """Channels of one head."""
        return self.hidden_size // self.heads

    @property
    def qkv_sizes(self) -> list[int]:
        """Output channels of the query, key and value projections, in the order of the fused matrix."""
        kv = self.kv_heads * self.head_dim
        return [self.hidden_size, kv, kv]


class Block(nn.Module):
    """One layer; matrices are [out, in], as in `torch.nn.Linear`."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        hidden, intermediate = config.hidden_size, config.intermediate_size
        self.input_norm = nn.Parameter(torch.ones(hidden))
        self.qkv = nn.Parameter(torch.empty(sum(config.qkv_sizes), hidden))
        self.qkv_bias = nn.Parameter(torch.zeros(sum(config.qkv_sizes)))
        self.output = nn.Parameter(torch.empty(hidden, hidden))
        self.post_norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = nn.Parameter(torch.empty(2 * intermediate, hidden))
        self.down = nn.Parameter(torch.empty(hidden, intermediate))

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attention's inputs for the residual stream x [B, T, D].

        Returns:
            Rotated queries [B, heads, T, head_dim], rotated keys and values [B, kv_heads, T, head_dim].
        """
        fused = F.linear(rms_norm(x, self.input_norm, self.config.norm_eps), self.qkv, self.qkv_bias)
        q, k, v = (
            part.view(*x.shape[:2], -1, self.config.head_dim).transpose(1, 2)
            for part in torch.split(fused, self.config.qkv_sizes, dim=-1)
        )
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after attention's output [B, heads, T, head_dim] and the MLP have been added to x."""
        x = x + F.linear(attended.transpose(1, 2).flatten(2), self.output)
        gate, up = F.linear(rms_norm(x, self.post_norm, self.config.norm_eps), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Decoder(nn.Module):
    """The policy. Its initial weights depend on the generator alone: matrices normal, biases 0, norms 1."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: DecoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.hidden_size))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocab_size, config.hidden_size))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=INIT_STD, generator=generator)
        cos, sin = rotation_tables(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def layers(self) -> list[Block]:
        """The blocks in order, typed."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def logits(self, x: Tensor) -> Tensor:
        """Logits [..., V] of the residual stream [..., D] after the last block."""
        return F.linear(rms_norm(x, self.final_norm, self.config.norm_eps), self.head)

    def forward(self, tokens: Tensor) -> Tensor:
        """Causal logits; right padding changes nothing before it.

        Args:
            tokens: [B, T] ids, T at most `max_positions`.

        Returns:
            [B, T, V]; position t predicts token t + 1.
        """
        length = tokens.shape[1]
        if length > self.config.max_positions:
            raise ConfigError(
                f"sequence length must be at most max_positions = {self.config.max_positions}, got {length!r}; "
                "build the model with more positions"
            )
        x = F.embedding(tokens, self.embedding)
        cos, sin = self.cos[:length], self.sin[:length]
        for block in self.layers():
            q, k, v = block.project(x, cos, sin)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
        return self.logits(x)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis."""
    return F.rms_norm(x, weight.shape, weight, eps)


def rotation_tables(config: DecoderConfig) -> tuple[Tensor, Tensor]:
    """cos and sin [max_positions, head_dim]; channel i turns with channel i + head_dim / 2, by the same angle."""
    half = config.head_dim // 2
    frequencies = 1.0 / config.rope_theta ** (torch.arange(half) / half)
    angles = torch.outer(torch.arange(config.max_positions).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [..., T, head_dim] turned by the angles of its positions."""
    return x * cos + half_turned(x) * sin


def half_turned(x: Tensor) -> Tensor:
    """(-second half, first half) of the last axis."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
