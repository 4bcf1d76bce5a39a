import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.objectives.sentence_order import SentenceOrder
from tests.text.objectives.encoder_rows import KEY, examples_of, window_of

MANY = [[9, 11, 10, 12, 8, 10]] * 500


def test_two_neighbors_are_swapped_half_of_the_time_and_the_label_says_so():
    window = window_of(MANY)
    cuts = SentenceOrder(short_rate=0.0).cut(window, Lengths(100, 2), KEY)
    swapped = cuts.labels == 1
    assert swapped.mean() == pytest.approx(0.5, abs=0.08)
    np.testing.assert_array_equal(cuts.ends[~swapped, 0], cuts.starts[~swapped, 1])
    np.testing.assert_array_equal(cuts.ends[swapped, 1], cuts.starts[swapped, 0])
    assert (cuts.ends - cuts.starts).sum() == len(window.tokens)  # documents fit a row: nothing is lost


def test_the_first_segment_read_is_the_later_one_where_they_are_swapped():
    window = window_of([[2, 3]])
    for rate, first in ((0.0, [104, 105]), (1.0, [106, 107, 108])):
        (text,), (example,) = examples_of(SentenceOrder(swap_rate=rate), window, 20)
        assert text.tokens[: text.second].tolist() == first
        assert example.label == rate
        assert example.token_types.tolist() == [0] * (len(first) + 2) + [1] * (6 - len(first))


@given(length=st.integers(1, 30), key=st.integers(0, 2**40))
def test_a_single_sentence_is_cut_inside_and_one_token_is_no_pair(length, key):
    cuts = SentenceOrder(swap_rate=0.0).cut(
        window_of([[length]]), Lengths(40, 2), np.array([key, 5], np.uint64)
    )
    if length == 1:
        assert len(cuts.starts) == 0
    else:
        ((start, middle), (split, end)) = cuts.starts[0], cuts.ends[0]
        assert (start, end) == (0, length)
        assert 0 < split == middle < length


def test_masks_are_ngrams_of_whole_words_with_up_to_three():
    masking = SentenceOrder().masking
    assert (masking.whole_words, masking.max_ngram, masking.noise_density) == (True, 3, 0.15)
