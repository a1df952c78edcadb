"""One token at a time through the decoder: a KV cache, and weights folded for speed.

Norm weights, the scale of the attention scores and the temperature are folded into the matrices behind them.
Per layer one projection gives, for each key-value head, its query heads, its key and its value. All rows
stand at the same column, so the rotation turns that projection's weights, once per step, instead of every
row's queries and keys. The logits equal the model's own up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.engines.torch_cpu.model import Block, Decoder, half_turned

MASKED = -1e9
"""Added to the attention score of a padded column."""


class Decoding:
    """Rows that are decoded together, each prompt `group_size` times; to be used under `torch.inference_mode`.

    Args:
        model: the policy; its weights must not change meanwhile.
        prompts: [P] tokens of each prompt; padded on the left, which the rotation does not see.
        group_size: rows per prompt, G; rows of one prompt next to each other.
        steps: most calls of `step`.
        pad: token that fills prompts up.
        temperature: divides the logits.
    """

    def __init__(
        self,
        model: Decoder,
        prompts: Sequence[Sequence[int]],
        group_size: int,
        steps: int,
        pad: int,
        temperature: float,
    ) -> None:
        config = model.config
        self._model = model
        self._config = config
        self._group_size = group_size
        self._temperature = temperature
        self._width = max(map(len, prompts))
        self._column = self._width
        """Where the next token goes."""
        self._tokens = torch.full((len(prompts), self._width), pad)
        self._padded = torch.zeros((len(prompts), self._width), dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            first = self._width - len(prompt)
            self._tokens[row, first:] = torch.tensor(prompt)
            self._padded[row, :first] = True
        rows, columns = len(prompts) * group_size, self._width + steps
        self._cache = torch.empty(config.layers, rows, config.kv_heads, 2, columns, config.head_dim)
        """Keys (0) and values (1)."""
        self._bias = torch.zeros(rows, config.kv_heads, 1, columns)
        padded = (self._padded * MASKED).repeat_interleave(group_size, 0)
        self._bias[..., : self._width] = padded[:, None, None]
        self._fold()

    def prefill(self) -> Tensor:
        """Run each prompt once; logits [P * G, V] of the first response token."""
        model, width = self._model, self._width
        x = F.embedding(self._tokens, model.embedding)
        causal = torch.ones(width, width, dtype=torch.bool).tril()
        itself = torch.eye(width, dtype=torch.bool)  # or a padded column would have nothing to attend to
        mask = (causal & ~self._padded[:, None, :] | itself)[:, None]
        cache = torch.unflatten(self._cache, 1, (len(self._tokens), self._group_size))
        for layer, block in enumerate(model.layers()):
            q, k, v = block.project(x, model.cos[:width], model.sin[:width])
            cache[layer, :, :, :, 0, :width] = k[:, None]
            cache[layer, :, :, :, 1, :width] = v[:, None]
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True))
        return (model.logits(x[:, -1]) / self._temperature).repeat_interleave(self._group_size, 0)

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token [n] to each row; logits [n, V] of the next."""
        config, column, rows = self._config, self._column, len(tokens)
        pairs, group = rows * config.kv_heads, config.heads // config.kv_heads
        torch.mul(self._qkv, self._cos[column], out=self._turned)
        self._turned.addcmul_(self._half_turned_qkv, self._sin[column])
        bias = self._bias[:rows].flatten(0, 1)[:, :, : column + 1]
        x = torch.index_select(self._model.embedding, 0, tokens)
        for layer in range(config.layers):
            weights = self._turned[layer]
            qkv = torch.addmm(weights[-1], self._normed(x), weights[:-1]).view(pairs, group + 2, config.head_dim)
            cache = self._cache[layer, :rows].flatten(0, 1)
            cache[:, :, column] = qkv[:, group:]
            keys, values = cache[:, :, : column + 1].unbind(1)
            scores = torch.baddbmm(bias, qkv[:, :group], keys.transpose(1, 2))
            attended = torch.bmm(torch.softmax(scores, dim=-1), values)
            x.addmm_(attended.view(rows, config.hidden_size), self._outputs[layer])
            gate, up = torch.mm(self._normed(x), self._gate_ups[layer]).chunk(2, dim=1)
            x.addmm_(F.silu(gate).mul_(up), self._downs[layer])
        self._column += 1
        return torch.mm(self._normed(x), self._head)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Let rows `targets` go on as rows `sources` [k]; later steps may then leave the last rows away."""
        filled = self._cache[..., : self._column, :]
        filled[:, targets] = filled[:, sources]
        self._bias[targets] = self._bias[sources]

    def _fold(self) -> None:
        model, config = self._model, self._config
        scale = math.sqrt(config.hidden_size)
        self._norm_floor = torch.tensor(math.sqrt(config.hidden_size * config.norm_eps))
        grouped = [_grouped_qkv(block) for block in model.layers()]
        self._qkv = torch.stack([weights.flatten(1) for weights in grouped])
        self._half_turned_qkv = torch.stack([half_turned(weights).flatten(1) for weights in grouped])
        self._turned = torch.empty_like(self._qkv)
        turned_heads = config.heads // config.kv_heads + 1
        still = torch.zeros(len(model.cos), config.head_dim)  # values, behind them, are not turned
        self._cos = torch.cat((model.cos.repeat(1, turned_heads), still + 1), dim=1).repeat(1, config.kv_heads)
        self._sin = torch.cat((model.sin.repeat(1, turned_heads), still), dim=1).repeat(1, config.kv_heads)
        self._outputs = [block.output.T.contiguous() for block in model.layers()]
        self._gate_ups = [(block.gate_up * block.post_norm * scale).T.contiguous() for block in model.layers()]
        self._downs = [block.down.T.contiguous() for block in model.layers()]
        self._head = (model.head * model.final_norm * scale / self._temperature).T.contiguous()

    def _normed(self, x: Tensor) -> Tensor:
        """x / sqrt(sum(x^2) + size * eps); the root of the size is in the matrix behind it."""
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return x / torch.hypot(norm, self._norm_floor)


def _grouped_qkv(block: Block) -> Tensor:
    """The projection with norm and score scale folded in: [D + 1, kv_heads, heads per kv + 2, head_dim], bias last."""
    config = block.config
    weights = block.qkv * block.input_norm * math.sqrt(config.hidden_size)
    columns = torch.cat((weights, block.qkv_bias[:, None]), dim=1).T
    q, k, v = (
        part.reshape(len(columns), config.kv_heads, -1, config.head_dim)
        for part in torch.split(columns, config.qkv_sizes, dim=1)
    )
    return torch.cat((q / math.sqrt(config.head_dim), k, v), dim=2)
