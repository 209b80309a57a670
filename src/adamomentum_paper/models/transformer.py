"""The pre-norm Transformer (Vaswani et al., 2017) as the authors ran it on IWSLT'14.

Everything goes through `forward`, including decoding, since wrappers for several devices or other
precisions wrap only that method.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

KeysValues = tuple[Tensor, Tensor]
"""Keys and values, each (sentences, heads, length, width of a head)."""


class Shape(NamedTuple):
    """Sizes and dropout. The defaults are those of the authors' scripts."""

    layers: int = 6
    """Layers of the encoder, and of the decoder."""
    width: int = 512
    hidden: int = 1024
    """Width of the feed-forward layers."""
    heads: int = 4
    dropout: float = 0.3
    attention_dropout: float = 0.1
    """Dropout of the attention weights."""
    relu_dropout: float = 0.1
    """Dropout inside the feed-forward layers."""


class _LayerCache:
    """The cache of one layer of the decoder."""

    def __init__(self, cross: KeysValues) -> None:
        self.cross = cross
        """Keys and values of the source. All hypotheses of a sentence share them."""
        self.own: KeysValues | None = None
        """Keys and values of the tokens so far, for each hypothesis."""

    def grow(self, new: KeysValues) -> KeysValues:
        """Append the keys and values of one more token, and return all."""
        if self.own is not None:
            new = (torch.cat([self.own[0], new[0]], 2), torch.cat([self.own[1], new[1]], 2))
        self.own = new
        return new

    def reorder(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep these sentences and hypotheses, in this order."""
        if self.own is not None:
            self.own = (self.own[0][rows], self.own[1][rows])
        if len(sentences) != len(self.cross[0]):
            self.cross = (self.cross[0][sentences], self.cross[1][sentences])


class Cache:
    """Keys and values that decoding reuses. Make a new cache for every batch of sentences."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None
        self.length = 0
        self.layers: list[_LayerCache] = []

    def reorder(self, parents: Tensor) -> None:
        """Continue these hypotheses of the previous step.

        Args:
            parents: rows of the previous step, (sentences, beam). Sentences may be dropped, but
                must keep their order.
        """
        if self.mask is None:
            return
        sentences = parents[:, 0] // parents.shape[1]
        self.mask = self.mask[sentences]
        for kept in self.layers:
            kept.reorder(sentences, parents.flatten())


class Attention(nn.Module):
    """Scaled dot-product attention of several heads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        for projection in (self.query.weight, *self.key_value.weight.chunk(2)):
            nn.init.xavier_uniform_(projection.data, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.out.weight)

    def keys_values(self, x: Tensor) -> KeysValues:
        """Return the keys and values of x."""
        keys, values = self.key_value(x).chunk(2, -1)
        return self._split(keys), self._split(values)

    def forward(
        self, x: Tensor, kept: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Attend from each position of x. The mask is True at visible positions."""
        dropout = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(
            self._split(self.query(x)), *kept, mask, dropout, causal
        )
        joined: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return joined

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)


def _feed_forward(shape: Shape) -> nn.Sequential:
    layers = nn.Sequential(
        nn.Linear(shape.width, shape.hidden),
        nn.ReLU(),
        nn.Dropout(shape.relu_dropout),
        nn.Linear(shape.hidden, shape.width),
    )
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return layers


class EncoderLayer(nn.Module):
    """Self-attention, then two linear layers. Each follows a norm and is added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.own = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.feed_forward = _feed_forward(shape)
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the input of the next layer."""
        y = self.norms[0](x)
        x = x + self.dropout(self.own(y, self.own.keys_values(y), mask))
        added: Tensor = x + self.dropout(self.feed_forward(self.norms[1](x)))
        return added


class DecoderLayer(nn.Module):
    """Attention to the translation so far, attention to the source, then two linear layers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.own = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.cross = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.feed_forward = _feed_forward(shape)
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(3)])
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: Tensor, cross: KeysValues, mask: Tensor, kept: _LayerCache | None = None
    ) -> Tensor:
        """Return the input of the next layer, for whole translations or for one token.

        With a cache, x is one token of each hypothesis, (sentences, beam, width). All hypotheses of
        a sentence query the same source; only self-attention treats them separately.
        """
        y = self.norms[0](x)
        if kept is None:
            found = self.own(y, self.own.keys_values(y), causal=True)
        else:
            rows = y.flatten(0, 1).unsqueeze(1)
            found = self.own(rows, kept.grow(self.own.keys_values(rows))).view_as(x)
        x = x + self.dropout(found)
        x = x + self.dropout(self.cross(self.norms[1](x), cross, mask))
        added: Tensor = x + self.dropout(self.feed_forward(self.norms[2](x)))
        return added


class Transformer(nn.Module):
    """Returns logits of the next token of a translation.

    Encoder, decoder and output share one embedding. Weights are initialised as in fairseq, but all
    biases are 0.
    """

    def __init__(self, vocabulary: int, padding: int, shape: Shape | None = None) -> None:
        super().__init__()
        shape = shape or Shape()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, shape.width, padding)
        nn.init.normal_(self.embedding.weight, 0.0, shape.width**-0.5)
        with torch.no_grad():
            self.embedding.weight[padding] = 0.0
        self.encoder = nn.ModuleList([EncoderLayer(shape) for _ in range(shape.layers)])
        self.decoder = nn.ModuleList([DecoderLayer(shape) for _ in range(shape.layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.dropout = nn.Dropout(shape.dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, source: Tensor, target: Tensor, cache: Cache | None = None) -> Tensor:
        """Return the logits after each token of `target`.

        Args:
            source: tokens of the sentences, padded at the end, (sentences, length).
            target: tokens of the translations so far, (sentences, length). With a cache, the last
                token of each hypothesis, (sentences, beam).
            cache: the cache of the previous calls. The first call with it reads the source.
        """
        layers: Any = self.decoder
        if cache is None:
            mask = self._visible(source)
            memory = self._encode(source, mask)
            x = self._embed(target, torch.arange(target.shape[1], device=target.device))
            for layer in layers:
                x = layer(x, layer.cross.keys_values(memory), mask)
        else:
            if cache.mask is None:
                cache.mask = self._visible(source)
                memory = self._encode(source, cache.mask)
                cache.layers = [_LayerCache(layer.cross.keys_values(memory)) for layer in layers]
            x = self._embed(target, torch.tensor([cache.length], device=target.device))
            for layer, kept in zip(layers, cache.layers, strict=True):
                x = layer(x, kept.cross, cache.mask, kept)
            cache.length += 1
        return functional.linear(self.norms[1](x), self.embedding.weight)

    def _visible(self, source: Tensor) -> Tensor:
        return (source != self.padding)[:, None, None, :]

    def _encode(self, source: Tensor, mask: Tensor) -> Tensor:
        x = self._embed(source, torch.arange(source.shape[1], device=source.device))
        for layer in self.encoder:
            x = layer(x, mask)
        memory: Tensor = self.norms[0](x)
        return memory

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(tokens)
        width = x.shape[-1]
        embedded: Tensor = self.dropout(x * math.sqrt(width) + sinusoids(positions, width).to(x))
        return embedded


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return sines, then cosines, of each position. Wavelengths are from 2 pi to 20,000 pi."""
    half = width // 2
    steps = torch.arange(half, device=positions.device) / (half - 1)
    angles = positions[:, None] * 10_000.0**-steps
    return torch.cat([angles.sin(), angles.cos()], 1)
