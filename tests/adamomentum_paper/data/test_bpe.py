"""Pieces of words: by a published table, and learnt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.bpe import LearntBPE, Merges, PublishedBPE, join_pieces
from adamomentum_paper.data.files import root
from adamomentum_paper.data.iwslt14 import iwslt14, merges
from adamomentum_paper.data.parallel import SPECIAL, UNKNOWN

TABLE = "#version: 0.2\ne r</w>\nl o\nlo w\ne s\nlow er</w>\n"
GENUINE = root() / "iwslt14.tokenized.de-en" / "code"


def test_a_table_by_hand():
    table = Merges(TABLE)
    # l o w e r</w>: first er</w>, then lo, low, lower.
    assert table.pieces("lower") == ["lower"]
    # The end of a word is part of its last letter: "low" is not the low of "lower".
    assert table.pieces("low") == ["lo@@", "w"]
    assert table.pieces("lowest lows") == ["low@@", "es@@", "t", "low@@", "s"]
    # All of a pair at once, from the left.
    assert table.pieces("lolo") == ["lo@@", "l@@", "o"]
    assert table.pieces("x") == ["x"]
    assert table.pieces("") == []


def test_the_first_merge_learnt_comes_first():
    assert Merges("#version: 0.2\nb c\na b\n").pieces("abcd") == ["a@@", "bc@@", "d"]
    assert Merges("#version: 0.2\na b\nb c\n").pieces("abcd") == ["ab@@", "c@@", "d"]


@pytest.mark.parametrize("table", ["", "l o\n", "#version: 0.1\nl o\n", "#version: 0.2\nl o w\n"])
def test_tables_that_are_none(table):
    with pytest.raises(LabError, match=r"must be '#version: 0\.2'"):
        Merges(table)


WORDS = st.lists(st.text("lowersten .,'äß-", min_size=1).map(lambda w: w.replace(" ", "")))


@settings(deadline=None, derandomize=True)
@given(WORDS)
def test_joining_pieces_gives_the_sentence(words):
    sentence = " ".join(word for word in words if word)
    assert join_pieces(" ".join(Merges(TABLE).pieces(sentence))) == sentence
    assert join_pieces(sentence) == sentence


def test_numbers_are_by_frequency():
    subwords = PublishedBPE(Merges(TABLE), ["low low lower", "s low"])
    # lo@@ and w thrice each (w after @ and l in order), then lower and s.
    assert subwords.size == SPECIAL + 4
    assert subwords.numbers(["low", "lower s", "lot"]) == [[3, 4], [5, 6], [3, UNKNOWN]]
    assert subwords.sentence([3, 4, 6]) == "low s"
    assert subwords.sentence([3, UNKNOWN]) == "lo<unk>"
    assert subwords.sentence([6, 3]) == "s lo"  # a joint at the end has nothing to join


TEXT = ["Zwei Hunde spielen im Schnee.", "Two dogs play in the snow.", "Größe: 10 €!"] * 5


def learnt(size=300):
    return LearntBPE(TEXT, size)


@pytest.fixture(scope="module")
def subwords():
    return learnt()


def test_learnt_pieces_are_the_same_again(subwords):
    for _ in range(5):
        assert learnt().numbers(TEXT) == subwords.numbers(TEXT)
    assert subwords.size == 300
    assert max(n for row in subwords.numbers(TEXT) for n in row) < 300
    assert min(n for row in subwords.numbers(TEXT) for n in row) >= SPECIAL
    assert sum(map(len, subwords.numbers(TEXT))) < 0.7 * sum(map(len, TEXT))


@settings(deadline=None, derandomize=True)
@given(text=st.text())
def test_learnt_pieces_lose_nothing(subwords, text):
    (numbers,) = subwords.numbers([text])
    assert subwords.sentence([*numbers, 1, 0]) == text


def test_a_word_is_the_same_anywhere(subwords):
    begins, later = subwords.numbers(["Zwei", "im Zwei"])
    assert later[-len(begins) :] == begins


@pytest.mark.skipif(not GENUINE.is_file(), reason="IWSLT'14 is not in the data folder")
def test_the_genuine_table():
    text = iwslt14("train", whole=False)
    table = Merges(merges(whole=False))
    for side in (text.source, text.target):
        for sentence in side[:500]:
            assert join_pieces(" ".join(table.pieces(sentence))) == sentence
    subwords = PublishedBPE(table, [*text.source, *text.target])
    assert subwords.size == 9_535
    assert subwords.sentence(subwords.numbers(text.target[:1])[0]) == text.target[0]
