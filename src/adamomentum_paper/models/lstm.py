"""The regularised LSTM language model of Merity et al. (2018), as the authors ran it."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

State = list[tuple[Tensor, Tensor]]
"""Hidden and cell state of each layer."""


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Drop the same units at every time step. x is (time, batch, units)."""
    if not training or p == 0:
        return x
    return x * functional.dropout(x.new_ones(1, *x.shape[1:]), p)


class LSTMLayer(nn.LSTM):
    """One LSTM layer with dropout of its recurrent weights, drawn once per sequence.

    nn.LSTM holds and initialises the weights. Gradients reach them through the dropout.
    """

    def __init__(self, inputs: int, units: int, weight_dropout: float) -> None:
        super().__init__(inputs, units)
        self.weight_dropout = weight_dropout

    # Unlike nn.LSTM, this takes no packed sequences, and needs a state.
    def forward(  # type: ignore[override]
        self, x: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the hidden units at every time step, and the state after the last."""
        inputs, recurrent, *biases = cast(list[Tensor], self._flat_weights)
        recurrent = functional.dropout(recurrent, self.weight_dropout, self.training)
        weights = [inputs, recurrent, *biases]
        output, hidden, cell = torch.lstm(
            x, state, weights, True, 1, 0.0, self.training, False, False
        )
        return output, (hidden, cell)


class LSTMLanguageModel(nn.Module):
    """An embedding, LSTM layers, and a softmax whose weights are tied to the embedding.

    Args:
        words: size of the vocabulary.
        width: width of the embedding and of the last layer.
        hidden: units of the other layers.
        layers: number of LSTM layers.
        frozen: keep the recurrent matrices at their initial values. The authors' scripts do so by
            accident: they wrap the matrix in a new parameter at every step, so that no gradient
            reaches the stored one.
        dropout: dropout of the output.
        between: dropout between layers.
        inputs: dropout of the embedded words.
        embedding: fraction of the words whose embedding is zeroed, drawn once per sequence.
        recurrent: dropout of the recurrent weights, drawn once per sequence.
    """

    def __init__(
        self,
        words: int,
        width: int,
        hidden: int,
        layers: int,
        *,
        frozen: bool = False,
        dropout: float = 0.4,
        between: float = 0.25,
        inputs: float = 0.4,
        embedding: float = 0.1,
        recurrent: float = 0.5,
    ) -> None:
        super().__init__()
        self.dropout, self.between, self.inputs, self.rows = dropout, between, inputs, embedding
        self.embedding = nn.Embedding(words, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.bias = nn.Parameter(torch.zeros(words))
        widths = (width, *[hidden] * (layers - 1), width)
        self.units = widths[1:]
        self.layers = nn.ModuleList(LSTMLayer(a, b, recurrent) for a, b in pairwise(widths))
        if frozen:
            for layer in self.layers:
                layer.weight_hh_l0.requires_grad_(False)

    def zero_state(self, batch: int) -> State:
        """Return the state before the first word."""
        shapes = [(1, batch, units) for units in self.units]
        return [(self.bias.new_zeros(shape), self.bias.new_zeros(shape)) for shape in shapes]

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor, State]:
        """Map words (time, batch) to logits, the last layer with and without dropout, and state."""
        table = self.embedding.weight
        if self.training and self.rows:
            kept = functional.dropout(table.new_ones(len(table), 1), self.rows)
            x = functional.embedding(words, table) * functional.embedding(words, kept)
        else:
            x = functional.embedding(words, table)
        x = locked_dropout(x, self.inputs, self.training)
        after: State = []
        for i, layer in enumerate(self.layers):
            if i:
                x = locked_dropout(x, self.between, self.training)
            x, new = layer(x, state[i])
            after.append(new)
        dropped = locked_dropout(x, self.dropout, self.training)
        return functional.linear(dropped, table, self.bias), dropped, x, after
