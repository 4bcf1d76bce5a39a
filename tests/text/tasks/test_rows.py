"""Samples of rows keep the shares of sorted files, and are the same each time."""

from collections import Counter

from t5x_like.text.tasks.rows import sample_of

ROWS = [("first", number) for number in range(300)] + [("second", number) for number in range(700)]


def test_a_sample_of_sorted_rows_has_their_shares_and_their_order() -> None:
    rows = [row for _, row in sample_of(ROWS, 200)]
    assert 48 <= Counter(label for label, _ in rows)["first"] <= 72  # two standard deviations around 60
    assert rows == sorted(set(rows))
    assert len(rows) == 200


def test_rows_of_a_sample_have_their_positions() -> None:
    assert all(ROWS[position] == row for position, row in sample_of(ROWS, 20))


def test_a_sample_is_the_same_each_time_and_a_smaller_one_is_a_part_of_it() -> None:
    assert sample_of(iter(ROWS), 50) == sample_of(ROWS, 50)
    assert set(sample_of(ROWS, 20)) < set(sample_of(ROWS, 50))


def test_a_limit_over_the_number_of_rows_keeps_all() -> None:
    everything = list(enumerate(ROWS))
    assert sample_of(ROWS, 5000) == sample_of(ROWS, None) == everything
    assert sample_of(ROWS, 5000, group_of=lambda row: row[1]) == everything


def test_groups_stay_whole_also_where_their_rows_are_apart() -> None:
    def group(row: tuple[str, int]) -> int:
        return row[1] % 100

    sizes = Counter(map(group, ROWS))
    assert {*sizes.values()} == {10}
    for limit, size in ((25, 20), (3, 10), (200, 200)):
        sample = sample_of(ROWS, limit, group_of=group)
        assert len(sample) == size
        assert sample == sorted(sample)
        assert {*Counter(group(row) for _, row in sample).values()} == {10}
    numbers = {row[1] % 100 for _, row in sample_of(ROWS, 200, group_of=group)}
    assert numbers != {*range(20)}
