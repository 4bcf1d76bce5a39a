"""Samples of rows keep the shares of sorted files, and are the same each time."""

from collections import Counter

from t5x_like.text.tasks.rows import sample_of

ROWS = [("first", number) for number in range(300)] + [("second", number) for number in range(700)]


def test_a_sample_of_sorted_rows_has_their_shares_and_their_order() -> None:
    rows = sample_of(ROWS, 200)
    assert 48 <= Counter(label for label, _ in rows)["first"] <= 72  # two standard deviations around 60
    assert rows == sorted(set(rows))
    assert len(rows) == 200


def test_a_sample_is_the_same_each_time_and_a_smaller_one_is_a_part_of_it() -> None:
    assert sample_of(iter(ROWS), 50) == sample_of(ROWS, 50)
    assert set(sample_of(ROWS, 20)) < set(sample_of(ROWS, 50))


def test_a_limit_over_the_number_of_rows_keeps_all() -> None:
    assert sample_of(ROWS, 5000) == sample_of(ROWS, None) == ROWS
