"""Tiny Shakespeare: 40,000 lines of Shakespeare's plays, for language models of characters."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.sets import DataSet, Download, Layout

_FOLDER, _FILE = "tiny-shakespeare", "input.txt"
_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
_PLACE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
DATASET = DataSet(
    name="tiny-shakespeare",
    summary="1,115,394 characters of Shakespeare's plays, 65 different (Karpathy, 2015)",
    layouts=(Layout(_FOLDER, {_FILE: _SHA256}),),
    terms="the text is in the public domain",
    downloads=(Download(_PLACE + _FILE, _SHA256, 1_115_394, f"{_FOLDER}/{_FILE}"),),
)
TRAINING = 0.9  # the usual fraction of the text
PIECES = 8
"""The rest of the text is cut into this many pieces, which alternate between validation and test.
Its second half is harder to predict than the first (5-grams: 1.77 nats against 1.57)."""


def tiny_shakespeare(folder: Path | None = None) -> tuple[list[Tensor], list[str]]:
    """Return training, validation and test as numbers, and the characters in sorted order."""
    file = (folder or root()) / _FOLDER / _FILE
    text = read_checked(file, _SHA256, DATASET.source()).decode()
    characters = sorted(set(text))
    numbers = {character: i for i, character in enumerate(characters)}
    tokens = torch.tensor([numbers[character] for character in text])
    train = int(TRAINING * len(tokens))
    pieces = tokens[train:].chunk(PIECES)
    return [tokens[:train], torch.cat(pieces[::2]), torch.cat(pieces[1::2])], characters
