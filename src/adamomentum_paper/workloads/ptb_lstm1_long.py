"""`ptb_lstm1` with more epochs, to test whether a lead is just a larger learning rate."""

from adamomentum_paper.workloads.ptb_lstm1 import PTBLSTM1


class PTBLSTM1Long(PTBLSTM1):
    """One-layer LSTM on the words of Penn Treebank. At mini: as ptb_lstm1, with 24 epochs."""

    epochs = {"smoke": 1, "mini": 24, "full": 200}
