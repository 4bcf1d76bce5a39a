"""Counting of frequent texts in bounded memory."""

import sys

from t5x_like.corpora.building.tally import FrequentTexts


def test_the_most_frequent_come_first_and_ties_in_order():
    counts = FrequentTexts()
    counts.add(["b", "a", "c", "a"])
    counts.add_counts({"c": 5, "b": 1})
    assert list(counts.most(3).items()) == [("c", 6), ("a", 2), ("b", 2)]
    assert counts.most(1) == {"c": 6}


def test_frequent_texts_are_counted_exactly_among_many_unique_ones():
    counts = FrequentTexts()
    for block in range(100):
        counts.add(["often"] * 3 + [f"{block}/{index}" for index in range(1000)])
    assert counts.most(1) == {"often": 300}
    assert len(counts.most(10**6)) <= 20_000


def test_texts_can_be_written_and_are_short():
    counts = FrequentTexts()
    counts.add(["\udc80 odd", "long" * 10**6])
    assert list(counts.most(2)) == ["long" * 50, "? odd"]
    assert sum(map(sys.getsizeof, counts.most(2))) < 1000
