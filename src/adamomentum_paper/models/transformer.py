"""The pre-norm Transformer (Vaswani et al., 2017) as the authors ran it on IWSLT'14.

Everything goes through `forward`, decoding too: what wraps a network for several devices or another
precision wraps nothing else.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

KeysValues = tuple[Tensor, Tensor]
"""Each (sentences, heads, length, width of a head)."""


class Shape(NamedTuple):
    """Sizes and dropout. The default is the paper's (notes on the paper, section 3)."""

    layers: int = 6
    """Of the encoder, and of the decoder."""
    width: int = 512
    hidden: int = 1024
    """Of the feed-forward layers."""
    heads: int = 4
    dropout: float = 0.3
    attention_dropout: float = 0.1
    """Of the weights of attention."""
    relu_dropout: float = 0.1
    """Inside the feed-forward layers."""


class _Kept:
    """What one layer of the decoder keeps from step to step."""

    def __init__(self, cross: KeysValues) -> None:
        self.cross = cross
        """Of the source, computed once; all hypotheses of a sentence share them."""
        self.own: KeysValues | None = None
        """Of the tokens so far; here each hypothesis is a sentence."""

    def grow(self, new: KeysValues) -> KeysValues:
        """With the keys and values of one more token."""
        if self.own is not None:
            new = (torch.cat([self.own[0], new[0]], 2), torch.cat([self.own[1], new[1]], 2))
        self.own = new
        return new

    def reorder(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep these, in this order."""
        if self.own is not None:
            self.own = (self.own[0][rows], self.own[1][rows])
        if len(sentences) != len(self.cross[0]):
            self.cross = (self.cross[0][sentences], self.cross[1][sentences])


class Cache:
    """What decoding keeps from step to step; new for every batch of sentences."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None
        self.length = 0
        self.layers: list[_Kept] = []

    def reorder(self, parents: Tensor) -> None:
        """Continue these hypotheses: rows of the step before, (sentences, beam).

        A sentence may be dropped, but not change its place otherwise.
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
        """Of what is attended to."""
        keys, values = self.key_value(x).chunk(2, -1)
        return self._split(keys), self._split(values)

    def forward(
        self, x: Tensor, kept: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """What each position of x finds; the mask is True where it may look."""
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
    """Attention to the source, then two linear layers; each after a norm, added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.own = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.feed_forward = _feed_forward(shape)
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The next layer's input."""
        y = self.norms[0](x)
        x = x + self.dropout(self.own(y, self.own.keys_values(y), mask))
        added: Tensor = x + self.dropout(self.feed_forward(self.norms[1](x)))
        return added


class DecoderLayer(nn.Module):
    """As the encoder's, with attention to the translation so far, and then to the source."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.own = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.cross = Attention(shape.width, shape.heads, shape.attention_dropout)
        self.feed_forward = _feed_forward(shape)
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(3)])
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: Tensor, cross: KeysValues, mask: Tensor, kept: _Kept | None = None
    ) -> Tensor:
        """The next layer's input: of whole translations, or of one token of each hypothesis.

        Of hypotheses, x is (sentences, beam, width): they are so many queries to one source, and
        only the attention to their own tokens has to tell them apart.
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
    """Logits of the next token of a translation.

    One embedding serves the encoder, the decoder and the output. Initialised as in fairseq, save
    that all biases are 0.
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
        """The logits after each token of `target`.

        Args:
            source: numbers of tokens, padded behind, (sentences, length).
            target: the same of translations, as far as they are known. With a cache, the last token
                of each hypothesis, (sentences, beam); the source is read by the first such call.
            cache: of the calls before.
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
                cache.layers = [_Kept(layer.cross.keys_values(memory)) for layer in layers]
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
    """Sines, then cosines, of each position at wavelengths from 2 pi to 20,000 pi."""
    half = width // 2
    steps = torch.arange(half, device=positions.device) / (half - 1)
    angles = positions[:, None] * 10_000.0**-steps
    return torch.cat([angles.sin(), angles.cos()], 1)
