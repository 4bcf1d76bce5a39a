"""The best span, against trying all of them."""

import numpy as np
import pytest

from t5x_like.evaluation.spans import NO_ANSWER, best_spans, most_context, n_best_spans


def _try_all(starts, ends, passage, max_length):
    found = [
        (starts[i] + ends[j], -i, -j)
        for i in range(len(starts))
        for j in range(i, min(i + max_length, len(starts)))
        if passage[i] and passage[j]
    ]
    _, first, last = max(found)
    return -first, -last


@pytest.mark.parametrize("max_length", [1, 3, 50])
def test_no_span_is_better(max_length):
    rng = np.random.default_rng(0)
    # Few different values, so that there are equals among which the first counts.
    starts, ends = rng.integers(0, 4, (2, 40, 12)).astype(np.float32)
    passage = rng.integers(0, 2, (40, 12))
    passage[:, 6] = 1
    found = best_spans(starts, ends, passage, max_answer_length=max_length)
    for row in range(40):
        expected = _try_all(starts[row], ends[row], passage[row], max_length)
        assert (found.starts[row], found.ends[row]) == expected
        assert found.scores[row] == starts[row, expected[0]] + ends[row, expected[1]]


def test_a_question_without_an_answer_gets_none():
    starts = np.array([[2.0, 0.0, 3.0, 0.0], [2.0, 0.0, 1.0, 0.0]])
    ends = np.array([[1.0, 0.0, 0.0, 4.0], [1.0, 0.0, 0.0, 1.0]])
    passage = np.array([[0, 1, 1, 1]] * 2)
    found = best_spans(starts, ends, passage, may_be_unanswerable=True)
    assert found.starts.tolist() == [2, NO_ANSWER]
    assert found.ends.tolist() == [3, NO_ANSWER]
    assert found.scores.tolist() == [7.0, 2.0]
    assert found.null_scores.tolist() == [3.0, 3.0]
    assert best_spans(starts, ends, passage).starts.tolist() == [2, 2]
    strict = best_spans(starts, ends, passage, may_be_unanswerable=True, threshold=4.0)
    assert strict.starts.tolist() == [NO_ANSWER, NO_ANSWER]
    generous = best_spans(starts, ends, passage, may_be_unanswerable=True, threshold=-1.5)
    assert generous.ends.tolist() == [3, 3]


def test_a_window_without_the_passage_has_no_answer():
    logits, nowhere = np.ones((1, 4)), np.zeros((1, 4))
    assert best_spans(logits, logits, nowhere, may_be_unanswerable=True).starts.tolist() == [NO_ANSWER]
    with pytest.raises(ValueError, match=r"no answer may lie in rows \[0\]"):
        best_spans(logits, logits, nowhere)


def test_mistakes_are_named():
    logits = np.ones((1, 4))
    with pytest.raises(ValueError, match="passage"):
        best_spans(logits, logits, np.ones((1, 5)))
    with pytest.raises(ValueError, match="max_answer_length is 0"):
        best_spans(logits, logits, logits, max_answer_length=0)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_the_best_spans_are_those_of_all_in_their_order(size):
    rng = np.random.default_rng(1)
    starts, ends = rng.integers(0, 4, (2, 9)).astype(np.float32)
    may_start, may_end = rng.integers(0, 2, (2, 9)) > 0
    may_start[3] = may_end[4] = True
    found = n_best_spans(starts, ends, may_start, may_end, size=size, max_answer_length=4)
    expected = sorted(
        (-(starts[i] + ends[j]), i, j)
        for i in range(9)
        for j in range(i, min(i + 4, 9))
        if may_start[i] and may_end[j]
    )
    assert [(-span.score, span.first, span.last) for span in found] == expected[:size]


def test_bought_has_most_context_in_the_last_span():
    """The example of BERT's code: the man went to the store and bought a gallon of milk."""
    windows = [(0, 5), (3, 5), (6, 5)]
    bought = 7
    owned = most_context(windows)
    assert [bool(owned[k][bought - offset]) for k, (offset, _) in enumerate(windows) if k] == [False, True]


@pytest.mark.parametrize(("size", "room", "stride"), [(30, 10, 3), (30, 10, 10), (7, 10, 3), (31, 8, 7)])
def test_every_token_has_most_context_in_one_window(size, room, stride):
    windows = [(start, min(room, size - start)) for start in range(0, max(size - room, 0) + stride, stride)]
    windows = windows[: next(k for k, (start, _) in enumerate(windows) if start + room >= size) + 1]
    owned = most_context(windows)
    for token in range(size):
        having = [k for k, (start, length) in enumerate(windows) if start <= token < start + length]
        around = {
            k: min(token - windows[k][0], sum(windows[k]) - 1 - token) + 0.01 * windows[k][1] for k in having
        }
        best = max(having, key=lambda k: (around[k], -k))
        assert [k for k in having if owned[k][token - windows[k][0]]] == [best]
