"""The weights of the Inception network that defines FID."""

from __future__ import annotations

import os
from pathlib import Path

from adamomentum_paper.data.files import root
from adamomentum_paper.data.sets import DataSet, Download, Layout

SCRIPT, NUMBER = "inception-2015-12-05.pt", 2048
WEIGHTS = "pt_inception-2015-12-05-6726825d.pth"
SHA256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
_FOLDER = "inception"
DATASET = DataSet(
    name="inception",
    summary="the Inception network of FID: weights of 2015, converted by pytorch-fid",
    layouts=(Layout(_FOLDER, {WEIGHTS: SHA256}),),
    terms="Apache 2.0",
    downloads=(
        Download(
            "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/" + WEIGHTS,
            SHA256,
            95_628_359,
            f"{_FOLDER}/{WEIGHTS}",
        ),
    ),
)


def inception_file() -> Path:
    """Return $ADAMOMENTUM_INCEPTION, or the first file that exists in the data folder."""
    if given := os.environ.get("ADAMOMENTUM_INCEPTION"):
        return Path(given).expanduser()
    places = [root() / _FOLDER / WEIGHTS, root() / WEIGHTS, root() / SCRIPT]
    return next((place for place in places if place.is_file()), places[0])
