import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.audio.duration_batches import padding_share, plan_batches


@given(
    st.lists(st.floats(0.1, 10), max_size=40),
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.integers(1, 5)),
)
def test_each_row_is_in_one_batch_within_the_budget(seconds, seed, max_rows):
    batches = plan_batches(seconds, 20, max_rows=max_rows, seed=seed)
    assert sorted(index for rows in batches for index in rows) == list(range(len(seconds)))
    for rows in batches:
        assert max(seconds[index] for index in rows) * len(rows) <= 20
        assert max_rows is None or len(rows) <= max_rows


def test_the_longest_rows_come_first_without_a_seed():
    assert plan_batches([1, 5, 2, 4, 3], 10) == [[1, 3], [4, 2, 0]]


def test_batches_are_full_and_have_little_padding():
    seconds = np.random.default_rng(0).uniform(0.5, 10, 500).tolist()
    in_order = [list(range(start, start + 10)) for start in range(0, 500, 10)]
    assert padding_share(seconds, in_order) > 0.4
    for seed in (None, 0):
        batches = plan_batches(seconds, 100, seed=seed)
        assert padding_share(seconds, batches) < 0.07
        assert len(batches) <= 1.15 * sum(seconds) / 100


def test_an_epoch_has_other_neighbors_and_another_order_but_a_seed_repeats_it():
    seconds = np.random.default_rng(0).uniform(0.5, 10, 200).tolist()
    first, again, other = (plan_batches(seconds, 60, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert {frozenset(rows) for rows in first} != {frozenset(rows) for rows in other}
    lengths = [max(seconds[index] for index in rows) for rows in first]
    assert lengths != sorted(lengths, reverse=True)


def test_a_row_over_the_budget_is_named():
    with pytest.raises(ValueError, match=r"row 1 has 12\.00 seconds, more than budget_seconds=10"):
        plan_batches([1, 12], 10)


@pytest.mark.parametrize(("budget", "max_rows"), [(0, None), (float("nan"), None), (5, 0)])
def test_a_budget_is_positive(budget, max_rows):
    with pytest.raises(ValueError, match="must be positive"):
        plan_batches([1.0], budget, max_rows=max_rows)


def test_nothing_has_no_batches():
    assert plan_batches([], 5) == []
    assert padding_share([], []) == 0
