"""Three-layer LSTM on Penn Treebank."""

from __future__ import annotations

from adamomentum_paper.workloads._ptb import PennTreebank, settings_of


class PTBLSTM3(PennTreebank):
    """Three-layer LSTM on the words of Penn Treebank. At mini: 200,000 of 929,589 words, embedding
    100 instead of 400, hidden layers 200 instead of 1150, 8 of 200 epochs."""

    layers = 3
    settings = settings_of(layers)
