"""Multi30k (Elliott et al., 2016), German to English: captions of photographs, raw text."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from adamomentum_paper.data.files import read_checked, root
from adamomentum_paper.data.parallel import Text
from adamomentum_paper.data.sets import DataSet, Download, Layout

_FOLDER = "multi30k-de-en"
_PLACE = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
# sha256 of the text; sha256 and size of the published gzip.
_FILES = {
    "train.de": (
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        637_044,
    ),
    "train.en": (
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        568_929,
    ),
    "val.de": (
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        24_681,
    ),
    "val.en": (
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        21_650,
    ),
    "test_2016_flickr.de": (
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        22_890,
    ),
    "test_2016_flickr.en": (
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        21_077,
    ),
}
DATASET = DataSet(
    name="multi30k",
    summary="31,014 captions of photographs in German and English (Elliott et al., 2016)",
    layouts=(Layout(_FOLDER, {name: digest for name, (digest, _, _) in _FILES.items()}),),
    terms="none stated; derived from Flickr30k, for non-commercial research and education",
    downloads=tuple(
        Download(f"{_PLACE}{name}.gz", digest, size, f"{_FOLDER}/{name}")
        for name, (_, digest, size) in _FILES.items()
    ),
)


def multi30k(
    split: Literal["train", "val", "test_2016_flickr"], folder: Path | None = None
) -> Text:
    """Return 29,000, 1,014 or 1,000 captions, German and English."""
    folder = (folder or root()) / _FOLDER
    german, english = (
        read_checked(folder / name, _FILES[name][0], DATASET.source()).decode().splitlines()
        for name in (f"{split}.de", f"{split}.en")
    )
    return Text(german, english)
