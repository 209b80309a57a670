"""The readers of Multi30k, Tatoeba and IWSLT'14."""

import hashlib
import itertools

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import iwslt14, multi30k, tatoeba
from adamomentum_paper.data.files import root
from adamomentum_paper.data.parallel import Text
from tests.adamomentum_paper.sentences import invented

HAS_MULTI30K = (root() / "multi30k-de-en").is_dir()


HAS_IWSLT = (root() / "iwslt14.tokenized.de-en").is_dir()


HAS_TATOEBA = (root() / "tatoeba-de-en").is_dir()


def test_multi30k_that_is_missing(tmp_path):
    with pytest.raises(LabError, match=r"val\.de is missing: `adamomentum data fetch multi30k`"):
        multi30k.multi30k("val", tmp_path)


@pytest.mark.skipif(not HAS_MULTI30K, reason="Multi30k is not in the data folder")
def test_the_real_multi30k():
    sizes = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    for split, size in sizes.items():
        assert len(multi30k.multi30k(split)) == size
    assert len(multi30k.multi30k("train").clean()) == 29_000 - 888
    assert multi30k.DATASET.state()[0] == "complete"


def test_pairs_between_tabs(tmp_path, monkeypatch):
    with pytest.raises(LabError, match=r"deu\.txt is missing: `adamomentum data fetch tatoeba`"):
        tatoeba.tatoeba(tmp_path)
    file = tmp_path / "tatoeba-de-en" / "deu.txt"
    file.parent.mkdir()

    def read(content):
        file.write_bytes(content)
        monkeypatch.setattr(tatoeba, "_SHA256", hashlib.sha256(content).hexdigest())
        return tatoeba.tatoeba(tmp_path)

    text = read("Go.\tGeh.\nHi\u2028!\tHallo!\tCC-BY\n".encode())
    assert text == Text(["Geh.", "Hallo!"], ["Go.", "Hi\u2028!"])
    with pytest.raises(LabError, match=r"line 2 of .*deu\.txt has no tab"):
        read(b"Go.\tGeh.\nHi!\n")


def test_no_sentence_is_on_two_sides():
    many = invented(3000)
    text = Text([*many.source, *many.source], [*many.target, *map(str.upper, many.target)])
    train, validation, test = tatoeba.split_pairs(text, train=0.5, held_out=0.1)
    for one, other in itertools.combinations((train, validation, test), 2):
        assert not set(one.target) & set(other.target)
    for held_out in (validation, test):
        assert len(held_out) > 50
        assert not set(train.source) & set(held_out.source)
    assert len(train) == pytest.approx(3000, rel=0.05)
    assert list(train.target) != sorted(train.target, key=len)
    again = tatoeba.split_pairs(Text(text.source[::-1], text.target[::-1]), 0.5, 0.1)
    assert again == (train, validation, test)


@pytest.mark.skipif(not HAS_TATOEBA, reason="Tatoeba is not in the data folder")
def test_the_real_tatoeba():
    text = tatoeba.tatoeba()
    assert len(text) == 169_813
    assert (text.source[0], text.target[0]) == ("Hallo!", "Hi.")
    train, _, _ = tatoeba.split_pairs(text, train=0.15, held_out=0.004)  # as at mini
    assert (len(train), len(train.clean())) == (25_503, 24_286)
    assert tatoeba.DATASET.state()[0] == "complete"


@pytest.mark.skipif(not HAS_IWSLT, reason="IWSLT'14 is not in the data folder")
def test_the_real_part_of_iwslt14():
    sizes = {"train": 4_600, "valid": 7_283, "test": 6_750}
    for split, size in sizes.items():
        assert len(iwslt14.iwslt14(split, whole=False)) == size
    # The usual preparation has cleaned training and validation before they were published.
    assert len(iwslt14.iwslt14("train", whole=False).clean()) == 4_600


def test_the_whole_of_iwslt14(tmp_path, monkeypatch):
    folder = tmp_path / "iwslt14.tokenized.de-en"
    folder.mkdir()
    (folder / "train-4600.de").touch()
    with pytest.raises(
        LabError, match=r"train\.de is missing.*160,239.*Its folder has train-4600\.de\."
    ):
        iwslt14.iwslt14("train", True, tmp_path)
    with pytest.raises(LabError, match=r"prepare-iwslt14\.sh of fairseq"):
        iwslt14.merges(True, tmp_path)
    with pytest.raises(LabError, match=r"train-4600\.de is damaged"):
        iwslt14.iwslt14("train", False, tmp_path)
    (folder / "train.de").write_text("gu@@ ten tag .\ndank@@ e\n")
    (folder / "train.en").write_text("good day .\nth@@ an@@ ks\n")
    with pytest.raises(LabError, match="has 2 German and 2 English sentences, not 160,239"):
        iwslt14.iwslt14("train", True, tmp_path)
    monkeypatch.setitem(iwslt14.PAIRS, "train", 2)
    text = iwslt14.iwslt14("train", True, tmp_path)
    assert text == Text(["guten tag .", "danke"], ["good day .", "thanks"])


@pytest.mark.parametrize(
    ("tokens", "written"),
    [
        ("it &apos;s that pyramid .", "it's that pyramid."),
        ("don &apos;t , we &apos;ll see !", "don't, we'll see!"),
        ("the dogs &apos; bowl", "the dogs' bowl"),
        ("he said , &quot; go . &quot; then", 'he said, "go." then'),
        ("&quot; yes &quot; , &quot; no &quot; .", '"yes", "no".'),
        ("a ( small &#91; one &#93; ) : 50 %", "a (small [one]): 50%"),
        ("$ 5 &amp; more ...", "$5 & more..."),
        ("sixty - four -- or 1,000 ?", "sixty - four -- or 1,000?"),
        ("", ""),
    ],
)
def test_tokens_put_together(tokens, written):
    assert iwslt14.detokenise(tokens) == written


def test_the_catalogue_fetches_what_is_read():
    names = {name for layout in multi30k.DATASET.layouts for name in layout.files}
    assert {download.into.split("/")[1] for download in multi30k.DATASET.downloads} == names


def test_the_whole_of_iwslt14_is_used_where_the_part_is_not(tmp_path):
    folder = tmp_path / "iwslt14.tokenized.de-en"
    assert not iwslt14.only_whole(tmp_path)
    folder.mkdir()
    (folder / "train.de").touch()
    assert iwslt14.only_whole(tmp_path)
    (folder / "train-4600.de").touch()
    assert not iwslt14.only_whole(tmp_path)
