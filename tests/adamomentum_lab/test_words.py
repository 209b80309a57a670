"""Numbers and lists in words."""

from adamomentum_lab.words import amount, join_words, probability


def test_numbers_in_words():
    assert amount(0.5234, 0.32) == "0.52"
    assert amount(1234.5, 12.0) == "1234"
    assert amount(-0.001, 0.32) == "0.00"
    assert amount(1.23456e-9, 1e-10) == "1.23e-09"
    assert amount(2.0, None) == "2"
    assert probability(0.0004) == "p < 0.001"
    assert probability(0.0501) == "p = 0.0501"
    assert probability(0.05) == "p = 0.05"
    assert probability(0.04999) == "p = 0.05"
    assert probability(1.0) == "p = 1"
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words([]) == ""
