"""Rows of like length share batches, and results come back in the rows' order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.batch import bucket_length
from t5x_like.inference.length_batches import length_batches, pad_prompts, round_length, run_by_length


@pytest.mark.parametrize(
    ("needed", "limit", "length"),
    [(1, 256, 32), (33, 256, 64), (200, 256, 256), (20, 100, 25), (26, 100, 50), (9, 8, 9)],
)
def test_a_bucket_is_the_shortest_half_that_holds_what_is_needed(needed, limit, length):
    assert bucket_length(needed, limit) == length


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 8))
def test_every_row_is_in_one_batch_and_no_later_row_is_longer(sizes, batch_size):
    batches = list(length_batches(sizes, batch_size))
    order = [number for batch in batches for number in batch]
    assert sorted(order) == list(range(len(sizes)))
    assert [sizes[number] for number in order] == sorted(sizes, reverse=True)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert run_by_length(sizes, batch_size, lambda numbers: [sizes[number] for number in numbers]) == sizes


@pytest.mark.parametrize(
    ("needed", "longest", "length"),
    [(0, None, 32), (5, None, 32), (33, None, 64), (5, 40, 32), (5, 24, 24), (5, 4, 5)],
)
def test_a_round_length_goes_no_further_than_the_model_has_positions(needed, longest, length):
    assert round_length(needed, longest) == length


def test_prompts_are_padded_with_the_id_that_is_asked_for_and_rows_stay_as_they_are():
    tokens, mask = pad_prompts([[5], []], length=2, fill=9)
    assert tokens.tolist() == [[5, 9], [9, 9]]
    assert mask.tolist() == [[1, 0], [0, 0]]


def test_prompts_are_padded_on_either_side_and_missing_rows_hold_one_token():
    for on_the_left in (False, True):
        tokens, mask = pad_prompts([[5, 6, 7], [8]], batch_size=3, length=4, on_the_left=on_the_left)
        assert tokens.shape == mask.shape == (3, 4)
        assert [row[real > 0].tolist() for row, real in zip(tokens, mask, strict=True)] == [
            [5, 6, 7],
            [8],
            [0],
        ]
        assert np.flatnonzero(mask[0]).tolist() == ([1, 2, 3] if on_the_left else [0, 1, 2])
