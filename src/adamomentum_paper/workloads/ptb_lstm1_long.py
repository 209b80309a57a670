"""`ptb_lstm1` over more epochs: is a lead on Penn Treebank one of learning rate?"""

from adamomentum_paper.workloads.ptb_lstm1 import PTBLSTM1


class PTBLSTM1Long(PTBLSTM1):
    """One-layer LSTM on Penn Treebank, words. At mini as ptb_lstm1, but 24 epochs for its 8."""

    epochs = {"smoke": 1, "mini": 24, "full": 200}
