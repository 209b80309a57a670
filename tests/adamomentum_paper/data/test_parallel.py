"""Parallel text and its batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.parallel import Text, buckets


def test_text_needs_a_translation_of_every_sentence():
    with pytest.raises(LabError, match="there are 2 sentences and 1 translations"):
        Text(["a", "b"], ["c"])
    assert Text(["a", "b"], ["c", "d"])[1:] == Text(["b"], ["d"])


def test_what_is_left_out_of_training():
    long = " ".join(["x"] * 175)
    pairs = [("a b", "c d e"), ("a b", "c d e f"), ("", "a"), ("", ""), (long, long)]
    pairs += [(f"{long} x", f"{long} x"), ("a b c", "d e"), ("a b c d", "e f")]
    text = Text(*zip(*pairs, strict=True)).clean()
    kept = [pairs[i] for i in (0, 4, 6)]
    assert list(zip(text.source, text.target, strict=True)) == kept


LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)


@settings(deadline=None, derandomize=True)
@given(LENGTHS, st.integers(20, 300))
def test_every_sentence_is_in_one_batch(lengths, max_tokens):
    batches = buckets(lengths, max_tokens)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        for side in (0, 1):
            longest = max(lengths[i][side] for i in batch.tolist())
            assert longest * len(batch) <= max_tokens or len(batch) == 1
    first = [lengths[i][0] for batch in batches for i in batch.tolist()]
    assert first == sorted(first)


def test_batches_are_full():
    batches = buckets([(10, 8)] * 95, 100)
    assert [len(batch) for batch in batches] == [10] * 9 + [5]
