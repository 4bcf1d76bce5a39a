import numpy as np
import pytest

from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.objectives.sentence_cutting import sentences_of
from t5x_like.text.objectives.sentence_pairs import FOLLOWS, RANDOM, SentencePairs
from tests.text.objectives.encoder_rows import KEY, window_of

MANY = [[9, 11, 10, 12, 8, 10]] * 400


def places_of(objective, window, limit, key=KEY):
    cuts = objective.cut(window, Lengths(limit, 2), key)
    return cuts, np.searchsorted(window.ends, cuts.starts, side="right")


def test_half_of_the_pairs_continue_and_half_end_in_another_document():
    window = window_of(MANY)
    cuts, documents = places_of(SentencePairs(short_rate=0.0), window, 63)
    follows = cuts.labels == FOLLOWS
    assert (documents[follows, 0] == documents[follows, 1]).all()
    assert (documents[~follows, 0] != documents[~follows, 1]).all()
    # After a random next segment one sentence may remain, without a next one: over half are random, as in BERT.
    assert 0.38 < follows.mean() < 0.5
    assert 399 > len(np.unique(documents[~follows, 1])) > 200
    assert set(SentencePairs().cut(window, Lengths(63, 2), KEY).labels) == {FOLLOWS, RANDOM}


def test_a_next_segment_begins_where_the_first_one_ended():
    window = window_of(MANY)
    objective = SentencePairs(short_rate=0.0, random_next_rate=0.0)
    cuts, _ = places_of(objective, window, 200)  # no document is so long: nothing is cut off
    assert (cuts.labels == FOLLOWS).all()
    np.testing.assert_array_equal(cuts.ends[:, 0], cuts.starts[:, 1])
    np.testing.assert_array_equal(cuts.starts[:, 0], window.ends - 60)
    np.testing.assert_array_equal(cuts.ends[:, 1], window.ends)
    splits = (cuts.ends - cuts.starts)[:, 0]
    assert set(splits) == {9, 20, 30, 42, 50}  # after any sentence but the last


def test_the_rest_after_a_random_next_begins_the_next_text():
    window = window_of(MANY)
    cuts, _ = places_of(SentencePairs(short_rate=0.0, random_next_rate=1.0), window, 200)
    assert (cuts.labels == RANDOM).all()
    edges = sentences_of(window, 197).edges
    starts = np.sort(cuts.starts[:, 0])
    assert np.isin(starts, edges).all()
    np.testing.assert_array_equal(np.append(starts[1:], len(window.tokens)), np.sort(cuts.ends[:, 0]))
    assert np.isin(cuts.starts[:, 1], edges).all()
    lengths = (cuts.ends - cuts.starts).sum(axis=1)
    assert (lengths <= 197).all()


def test_rows_are_filled_but_for_documents_ends_and_short_ones():
    window = window_of([[10] * 400] * 20)
    cuts, _ = places_of(SentencePairs(short_rate=0.0), window, 131)
    lengths = (cuts.ends - cuts.starts).sum(axis=1)
    assert (lengths == 128).mean() > 0.95
    cuts, _ = places_of(SentencePairs(), window, 131)
    lengths = (cuts.ends - cuts.starts).sum(axis=1)
    assert (lengths < 110).mean() == pytest.approx(0.09, abs=0.03)


def test_sentence_pairs_are_single_sentences():
    window = window_of(MANY)
    cuts, _ = places_of(SentencePairs(segments="sentences"), window, 100)
    edges = sentences_of(window, 97).edges
    first = np.searchsorted(edges, cuts.starts)
    np.testing.assert_array_equal(edges[first], cuts.starts)
    np.testing.assert_array_equal(edges[first + 1], cuts.ends)
    follows = cuts.labels == FOLLOWS
    np.testing.assert_array_equal(first[follows, 0] + 1, first[follows, 1])


def test_a_single_document_has_no_other_document_to_continue_in():
    cuts, _ = places_of(SentencePairs(), window_of([[5, 5, 5]]), 40)
    assert cuts.labels.tolist() == [FOLLOWS]
    cuts, _ = places_of(SentencePairs(), window_of([[5]]), 40)
    assert len(cuts.starts) == 0


def test_other_keys_cut_other_pairs():
    window = window_of(MANY)
    one, other = (SentencePairs().cut(window, Lengths(63, 2), np.array([k, 0], np.uint64)) for k in (1, 2))
    assert one.starts.shape != other.starts.shape or (one.starts != other.starts).any()


def test_unknown_segments_are_refused():
    with pytest.raises(ValueError, match="must be 'segments' or 'sentences', got 'words'"):
        SentencePairs(segments="words")
