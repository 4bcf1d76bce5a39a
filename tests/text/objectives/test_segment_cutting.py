import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.segment_cutting import SegmentKind, cut_segments


def window_of(size):
    records = [{"tokens": np.arange(3, 3 + size, dtype=np.int32)}]
    return lay_window(records, chunks=np.zeros(1, np.uint64))


@given(
    size=st.integers(1, 400), max_length=st.integers(2, 50), seed=st.integers(0, 2**60), rate=st.floats(0, 1)
)
def test_texts_and_true_second_segments_cover_the_window_once(size, max_length, seed, rate):
    kinds = [SegmentKind(1 - rate, max_length, True), SegmentKind(rate, max_length + 1)]
    window = window_of(size)
    cuts = cut_segments(window, kinds, np.array([seed, 3], np.uint64))
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    assert np.concatenate([text.tokens for text in texts]).tolist() == window.tokens.tolist()
    for text in texts[:-1]:
        assert len(text.tokens) == kinds[text.label].max_length
        assert (text.second < len(text.tokens)) == kinds[text.label].has_two
    assert 0 < texts[-1].second <= len(texts[-1].tokens) <= max_length + 1


@given(size=st.integers(200, 400), max_length=st.integers(2, 40), seed=st.integers(0, 2**60))
def test_random_second_segments_are_not_the_continuation(size, max_length, seed):
    window = window_of(size)
    cuts = cut_segments(window, [SegmentKind(1.0, max_length, True, True)], np.array([seed, 3], np.uint64))
    firsts = [window.tokens[start:end] for (start, _), (end, _) in zip(cuts.starts, cuts.ends, strict=True)]
    assert np.concatenate(firsts).tolist() == window.tokens.tolist()
    for (_, start), (truth, end) in zip(cuts.starts, cuts.ends, strict=True):
        assert 0 <= start <= end <= size
        assert end <= truth or truth + end - start <= start or start == end


def test_kinds_come_at_their_shares_and_first_segments_end_anywhere():
    kinds = [SegmentKind(0.25, 11, True), SegmentKind(0.0, 10), SegmentKind(0.75, 10, True, True)]
    cuts = cut_segments(window_of(60_000), kinds, np.array([5, 6], np.uint64))
    np.testing.assert_allclose(np.bincount(cuts.labels) / len(cuts.labels), [0.25, 0.0, 0.75], atol=0.02)
    firsts = (cuts.ends - cuts.starts)[cuts.labels == 2, 0]
    np.testing.assert_allclose(np.bincount(firsts)[1:10] / len(firsts), 1 / 9, atol=0.015)


def test_an_empty_window_has_no_text():
    assert len(cut_segments(window_of(0), [SegmentKind(1.0, 5, True)], np.zeros(2, np.uint64)).starts) == 0
