"""Penn Treebank: its words and their numbers."""

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import penn_treebank as treebank
from adamomentum_paper.data.files import root

real = pytest.mark.skipif(
    not (root() / "penn-treebank").is_dir(), reason="Penn Treebank is not in the data folder"
)


@real
def test_counts_of_the_real_text():
    texts, words = treebank.penn_treebank()
    assert [len(text) for text in texts] == [929_589, 73_760, 82_430]
    assert len(words) == 10_000
    assert " ".join(words[int(i)] for i in texts[1][:8]) == (
        "consumers may want to move their telephones a"
    )


def test_words_are_numbered_as_they_come():
    numbers, words = treebank.number_words([" the cat \n the dog \n", " the <unk> \n", ""])
    assert words == ["the", "cat", "<eos>", "dog", "<unk>"]
    assert [n.tolist() for n in numbers] == [[0, 1, 2, 0, 3, 2], [0, 4, 2], []]


def test_text_that_is_missing_or_damaged(tmp_path):
    with pytest.raises(LabError, match=r"train\.txt is missing: `adamomentum data fetch penn-tr"):
        treebank.penn_treebank(tmp_path)
    (tmp_path / "penn-treebank").mkdir()
    (tmp_path / "penn-treebank" / "ptb.train.txt").write_text("the cat")
    with pytest.raises(LabError, match=r"train\.txt is damaged: its sha256 is"):
        treebank.penn_treebank(tmp_path)
