"""Sentences for tests of translation."""

import torch

from adamomentum_paper.data.parallel import Text


def invented(n, seed=0):
    """Sentences of an invented language, and the same words in another order."""
    draw = torch.Generator().manual_seed(seed)
    words = ["ein", "hund", "spielt", "im", "schnee", "und", "zwei", "katzen", "schlafen", "nicht"]
    rows = [
        [words[i] for i in torch.randint(10, (int(length),), generator=draw)]
        for length in torch.randint(2, 12, (n,), generator=draw)
    ]
    return Text([" ".join(row) for row in rows], [" ".join(reversed(row)) for row in rows])
