"""A small decoder-only Transformer like GPT-2 (Radford et al., 2019), with rotary positions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Shape(NamedTuple):
    """Sizes of the network."""

    layers: int
    width: int
    heads: int
    context: int
    """Length of the context, in tokens."""


class Block(nn.Module):
    """Causal attention, then two linear layers. Each follows a norm and is added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norms = nn.ModuleList([nn.LayerNorm(width, bias=False) for _ in range(2)])
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Return the input of the next block."""
        parts = self.query_key_value(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        query, key = rotate(query, turns), rotate(key, turns)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        hidden = functional.relu(self.wide(self.norms[1](x))).square()
        added: Tensor = x + self.narrow(hidden)
        return added


class GPT(nn.Module):
    """Returns logits of the next token after each token of a text.

    Weights are initialised as in GPT-2: normal with standard deviation 0.02, divided by
    sqrt(2 layers) for layers that add to the residual stream. As in later models, there are no
    biases, positions are rotary (Su et al., 2021), and the activation is ReLU squared (So et al.,
    2021).
    """

    def __init__(self, vocabulary: int, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, vocabulary, bias=False)
        for name, param in self.named_parameters():
            if param.ndim == 2:
                added = name.endswith(("out.weight", "narrow.weight"))
                nn.init.normal_(param, 0.0, 0.02 / math.sqrt(2 * shape.layers if added else 1))
        cosines, sines = angles(shape.context, shape.width // shape.heads)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        self.cosines: Tensor
        self.sines: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (texts, length) to logits (texts, length, vocabulary)."""
        x = self.embedding(tokens)
        length = tokens.shape[1]
        turns = (self.cosines[:length], self.sines[:length])
        for block in self.blocks:
            x = block(x, turns)
        logits: Tensor = self.head(self.norm(x))
        return logits


def angles(context: int, width: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (context, width / 2) of each position. Wavelengths start at 2 pi."""
    half = width // 2
    turns = torch.arange(context)[:, None] * 10_000.0 ** -(torch.arange(half) / half)
    return turns.cos(), turns.sin()


def rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate pairs of coordinates of x (..., length, width) by the angles of their position."""
    cosines, sines = turns
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, a * sines + b * cosines], -1)
