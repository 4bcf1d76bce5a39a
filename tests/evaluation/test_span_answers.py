"""The best spans, against trying all of them; and the window in which a token counts."""

import numpy as np
import pytest

from t5x_like.evaluation.span_answers import max_context_masks, n_best_spans


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_the_best_spans_are_those_of_all_in_their_order(size, seed):
    rng = np.random.default_rng(seed)
    starts, ends = rng.integers(0, 4, (2, 9)).astype(np.float32)
    may_start, may_end = rng.integers(0, 2, (2, 9)) > 0
    may_start[3] = may_end[4] = True
    result = n_best_spans(starts, ends, may_start, may_end, size=size, max_answer_length=4)
    expected = sorted(
        (-(starts[i] + ends[j]), i, j)
        for i in range(9)
        for j in range(i, min(i + 4, 9))
        if may_start[i] and may_end[j]
    )
    assert [(-span.score, span.first, span.last) for span in result] == expected[:size]


def test_bought_has_most_context_in_the_last_span():
    """The example of BERT's code: the man went to the store and bought a gallon of milk."""
    windows = [(0, 5), (3, 5), (6, 5)]
    bought = 7
    owned = max_context_masks(windows)
    assert [bool(owned[k][bought - offset]) for k, (offset, _) in enumerate(windows) if k] == [False, True]


@pytest.mark.parametrize(("size", "length", "stride"), [(30, 10, 3), (30, 10, 10), (7, 10, 3), (31, 8, 7)])
def test_every_token_has_most_context_in_one_window(size, length, stride):
    windows = [
        (start, min(length, size - start)) for start in range(0, max(size - length, 0) + stride, stride)
    ]
    windows = windows[: next(k for k, (start, _) in enumerate(windows) if start + length >= size) + 1]
    owned = max_context_masks(windows)
    for token in range(size):
        having = [k for k, (start, length) in enumerate(windows) if start <= token < start + length]
        around = {
            k: min(token - windows[k][0], sum(windows[k]) - 1 - token) + 0.01 * windows[k][1] for k in having
        }
        best = max(having, key=lambda k: (around[k], -k))
        assert [k for k in having if owned[k][token - windows[k][0]]] == [best]
