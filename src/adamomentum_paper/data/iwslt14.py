"""IWSLT'14, German to English: TED talks from WIT3, tokenised and in lower case.

There are no published digests of the whole training set, which fairseq's script makes from the
original. A part of it has digests, with all of validation and test, at word level.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Literal

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.bpe import join_pieces
from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.parallel import Text
from adamomentum_paper.data.sets import DataSet, Layout

Split = Literal["train", "valid", "test"]
PAIRS: dict[Split, int] = {"train": 160_239, "valid": 7_283, "test": 6_750}
_FOLDER = "iwslt14.tokenized.de-en"
_HELD_OUT = {
    "valid.de": "3f051579c9d8c7281a6ea8c72ad4ae09dbaa9bb24dfd41166f2c3a3df7cd940a",
    "valid.en": "e6d7317a9772cd1ed970910c611e9e7dada1f34439269b44a9d801334bff948d",
    "test.de": "e718c783e33160b7d72af8f733756a466e0d0c016eff8ab624c1b0d1d01cbbdf",
    "test.en": "4b127beb9050511a3e6209cd837ff36f623a3a423666b32aba6e208b7330cf4c",
}
_PART = {
    **_HELD_OUT,
    "train-4600.de": "7951bdd2a3ba41401bb47d9f06ec9d536a8083c304f89f32c9477408b2294621",
    "train-4600.en": "a6f0e0023229f216cf19603792572f25edde54a935f872a9241666dca6730dbb",
    "code": "3dd02684b6693abce3ba59520425901b0b910abeec2ae6b15cc62e458441d503",
}
DATASET = DataSet(
    name="iwslt14",
    summary="174,272 sentences of talks in German and English (IWSLT 2014)",
    layouts=(
        # The output of the script. Digests are known of its files at word level, before BPE.
        Layout(_FOLDER, {f"tmp/{name}": digest for name, digest in _HELD_OUT.items()}),
        Layout(_FOLDER, _PART, part="4,600 of 160,239 training pairs; all of validation and test"),
    ),
    terms="CC BY-NC-ND 4.0 (WIT3)",
    by_hand=(
        "Run examples/translation/prepare-iwslt14.sh of fairseq and put the folder "
        f"{_FOLDER} that it makes into the data folder"
    ),
)


def iwslt14(split: Split, whole: bool, folder: Path | None = None) -> Text:
    """Return a split at word level, German and English.

    Args:
        split: name of the split.
        whole: read the output of fairseq's script, checked by the number of pairs. Otherwise read
            the published part with 4,600 training pairs, checked by its digests.
        folder: a folder to use instead of the data folder.
    """
    place = (folder or root()) / _FOLDER
    name = "train-4600" if split == "train" and not whole else split
    contents = []
    for language in ("de", "en"):
        file = place / f"{name}.{language}"
        if whole:
            contents.append(_read(file))
        else:
            contents.append(read_checked(file, _PART[file.name], DATASET.source()).decode())
    # The script's files are already cut into pieces; join them to words.
    german, english = (
        [join_pieces(line) for line in content.removesuffix("\n").split("\n")]
        for content in contents
    )
    if whole and (len(german), len(english)) != (PAIRS[split],) * 2:
        raise LabError(
            f"{place}/{name} has {len(german):,} German and {len(english):,} English sentences, "
            f"not {PAIRS[split]:,}: {DATASET.source()}"
        )
    return Text(german, english)


def only_whole(folder: Path | None = None) -> bool:
    """Whether the data folder has the output of fairseq's script, but not the published part."""
    place = (folder or root()) / _FOLDER
    return (place / "train.de").exists() and not (place / "train-4600.de").exists()


def merges(whole: bool, folder: Path | None = None) -> str:
    """Return the table of 10,000 merges, learnt on both languages of the whole training set."""
    file = (folder or root()) / _FOLDER / "code"
    if whole:
        return _read(file)
    return read_checked(file, _PART["code"], DATASET.source()).decode()


def _read(file: Path) -> str:
    """Read a file of the whole set. The error for a missing file lists the files that exist."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        found = ", ".join(sorted(path.name for path in file.parent.glob("*"))) or "nothing"
        raise LabError(
            f"{file} is missing; it belongs to the whole of IWSLT'14 with {PAIRS['train']:,} "
            f"training pairs. Its folder has {found}. {DATASET.source()}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{file} cannot be read ({error}).") from error


_TO_THE_LEFT = re.compile(r" (?=[.,!?;:%)\]}]+(?: |$))")
_TO_THE_RIGHT = re.compile(r"(?<![^ ])([(\[{$£]) ")
_SHORTENED = re.compile(r"(?<=\w) (?='(?:s|t|m|d|re|ve|ll)(?: |$))")  # it 's, don 't
_PLURAL = re.compile(r"(?<=s) (?='(?: |$))")  # the dogs ' bowl
_QUOTED = re.compile(r'" ?([^"]*?) ?"')


def detokenise(sentence: str) -> str:
    """Join Moses' tokens to English as it is written. Most of its rules are covered."""
    text = html.unescape(sentence)
    text = _SHORTENED.sub("", text)
    text = _PLURAL.sub("", text)
    text = _TO_THE_LEFT.sub("", text)
    text = _QUOTED.sub(r'"\1"', text)
    return _TO_THE_RIGHT.sub(r"\1", text)
