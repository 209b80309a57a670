"""Sentence pairs of Tatoeba, as selected by manythings.org."""

from __future__ import annotations

import hashlib
from pathlib import Path

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.parallel import Text
from adamomentum_paper.data.sets import DataSet, Download, Layout

_FOLDER, _FILE = "tatoeba-de-en", "deu.txt"
_SHA256 = "a79c90b3cd3102decffa49cc00fb6f20023974f2ae5c4782515bebe133fcc07b"
DATASET = DataSet(
    name="tatoeba",
    summary="169,813 short sentences in English and German (manythings.org, 2018-05-13)",
    layouts=(Layout(_FOLDER, {_FILE: _SHA256}),),
    terms="CC BY 2.0: www.manythings.org/anki and tatoeba.org",
    downloads=(
        Download(
            "https://raw.githubusercontent.com/rioyshky/translation/"
            "de48b7027f7318d77010a6e08ed928c10748c23d/deu-eng.zip",
            "b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28",
            4_012_023,
            _FOLDER,
        ),
    ),
)


def tatoeba(folder: Path | None = None) -> Text:
    """Return all pairs, German and English, sorted by the length of the English sentence."""
    file = (folder or root()) / _FOLDER / _FILE
    return _pairs(read_checked(file, _SHA256, DATASET.source()).decode(), str(file))


def _pairs(content: str, name: str) -> Text:
    # Not splitlines(), since sentences may contain Unicode line separators.
    fields = [line.split("\t") for line in content.removesuffix("\n").split("\n")]
    for number, line in enumerate(fields, 1):
        if len(line) < 2:
            raise LabError(f"line {number} of {name} has no tab between two sentences.")
    return Text([line[1] for line in fields], [line[0] for line in fields])


def split_pairs(text: Text, train: float, held_out: float) -> tuple[Text, Text, Text]:
    """Split pairs into training, validation and test.

    A hash of the translation decides the split and the order, so all pairs with one translation are
    in the same split. Validation and test leave out pairs whose source is in training too.

    Args:
        text: all pairs.
        train: fraction for training.
        held_out: fraction for each of validation and test.
    """
    places = [_place(target) for target in text.target]
    order = sorted(range(len(text)), key=lambda i: (places[i], text.source[i]))
    parts = [[i for i in order if places[i] >= 1.0 - train]]
    seen = {text.source[i] for i in parts[0]}
    for low, high in ((0.0, held_out), (held_out, 2 * held_out)):
        parts.append([i for i in order if low <= places[i] < high and text.source[i] not in seen])
    one, two, three = (
        Text([text.source[i] for i in part], [text.target[i] for i in part]) for part in parts
    )
    return one, two, three


def _place(sentence: str) -> float:
    """Hash a sentence to a number between 0 and 1."""
    return int.from_bytes(hashlib.sha256(sentence.encode()).digest()[:6], "big") / 2**48
