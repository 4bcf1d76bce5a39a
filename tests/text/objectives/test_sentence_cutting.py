import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.objectives.cutting import texts_of
from t5x_like.text.objectives.objective import DocumentWindow
from t5x_like.text.objectives.sentence_cutting import (
    cut_full_sentences,
    pair_cuts,
    sentences_of,
    target_lengths,
)
from tests.text.objectives.encoder_rows import KEY, SEP, window_of

DOCUMENTS = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=1, max_size=6)


def bert_truncates(lengths, max_length, chooser):
    """What BERT's loop leaves: [start, end] of each segment."""
    spans = [[0, length] for length in lengths]
    while sum(end - start for start, end in spans) > max_length:
        longer = spans[0] if spans[0][1] - spans[0][0] > spans[1][1] - spans[1][0] else spans[1]
        if chooser.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return spans


@given(
    lengths=st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200)), min_size=1, max_size=10),
    max_length=st.integers(2, 100),
)
def test_the_longer_segment_is_cut_until_both_fit_as_berts_loop_cuts(lengths, max_length):
    pairs = [(1000, 1000 + first, 5000, 5000 + second, 1) for first, second in lengths]
    cuts = pair_cuts(pairs, max_length, KEY)
    for row, pair in enumerate(lengths):
        expected = [end - start for start, end in bert_truncates(pair, max_length, random.Random(0))]
        assert (cuts.ends[row] - cuts.starts[row]).tolist() == expected
        assert (cuts.starts[row] >= [1000, 5000]).all()
        assert (cuts.ends[row] <= [1000 + pair[0], 5000 + pair[1]]).all()


def test_tokens_are_taken_from_front_and_end_like_tosses_of_a_coin():
    cuts = pair_cuts([(0, 300, 400, 450, 0)] * 4000, 200, KEY)
    front = cuts.starts[:, 0]  # of 150 that are dropped
    assert np.mean(front) == pytest.approx(75, abs=0.5)
    assert np.var(front) == pytest.approx(150 / 4, rel=0.1)
    chooser = random.Random(1)
    expected = [bert_truncates((300, 50), 200, chooser)[0][0] for _ in range(300)]
    assert np.mean(expected) == pytest.approx(np.mean(front), abs=2)


@given(documents=DOCUMENTS, most=st.integers(2, 40), across=st.booleans())
@settings(deadline=None)
def test_rows_hold_whole_sentences_and_as_many_as_fit(documents, most, across):
    window = window_of(documents, eos=SEP)
    cuts = cut_full_sentences(window, most, across_documents=across)
    edges = set(sentences_of(window, most).edges.tolist())
    ends = window.ends.tolist()
    covered = np.zeros(len(window.tokens), int)
    for start, end in np.concatenate([cuts.starts, cuts.ends], axis=1).tolist():
        covered[start:end] += 1
        assert end - start <= most
        assert start in edges
        assert end in edges or end + 1 in ends
        assert across or not any(start < stop <= end for stop in ends)
        if end in edges and end not in ends:
            following = min(edge for edge in edges if edge > end)
            assert following - start > most or (not across and end in ends)
    assert (covered[window.tokens != SEP] == 1).all()
    assert covered.max() == 1


def test_a_sentence_over_the_limit_is_cut_into_parts_and_none_of_it_is_lost():
    window = window_of([[25, 3]])
    assert sentences_of(window, 10).edges.tolist() == [0, 10, 20, 25, 28]


def test_documents_that_share_a_row_have_an_end_between_them_and_none_behind():
    window = window_of([[2], [3]], eos=SEP)
    cuts = cut_full_sentences(window, 20, across_documents=True)
    (text,) = texts_of(window, cuts, [0])
    assert text.tokens.tolist() == [104, 105, SEP, 106, 107, 108]


def test_one_text_in_ten_is_to_be_short_of_any_length():
    targets = np.array(target_lengths(50_000, 509, 0.1, KEY))
    short = targets[targets < 509]
    assert len(short) / len(targets) == pytest.approx(0.1, abs=0.005)
    assert (short.min(), short.max()) == (2, 508)
    assert np.mean(short) == pytest.approx(255, abs=8)


def test_windows_without_sentence_ends_are_refused():
    with pytest.raises(ValueError, match="set sentences=True in the task"):
        sentences_of(DocumentWindow(np.arange(9), np.array([9])), 5)
