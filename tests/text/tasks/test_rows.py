"""Samples keep the shares of sorted files; what is made of good rows leaves bad ones in their places."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from t5x_like.text.tasks.row_files import cells_of
from t5x_like.text.tasks.rows import BadRow, RawRow, convert, expand, partition, sample_of
from t5x_like.text.tasks.text_lines import blocks_of, filled_lines, text_lines

ROWS = [("first", index) for index in range(300)] + [("second", index) for index in range(700)]


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


def halves(row: RawRow) -> Iterator[RawRow]:
    if row.values["n"] == 3:
        raise ValueError("3 has no half")
    yield from [row] * (row.values["n"] // 2)


def test_a_row_becomes_any_number_of_rows_and_an_error_a_bad_row_in_its_place() -> None:
    bad = BadRow("not a number", "f:2")
    rows = [RawRow({"n": 4}, "f:1"), bad, RawRow({"n": 3}, "f:3"), RawRow({"n": 0}, "f:4")]
    assert list(expand(rows, halves)) == [rows[0], rows[0], bad, BadRow("3 has no half", "f:3")]
    numbers = convert(rows, lambda row: row.values["n"])
    assert partition(numbers) == ([4, 3, 0], [bad])


def test_an_error_of_a_check_is_one_of_the_file() -> None:
    def refuse(row: RawRow) -> None:
        raise ValueError(f"{row.location}: another file")

    with pytest.raises(ValueError, match="f:1: another file"):
        list(expand([BadRow("bad", "f:0"), RawRow({}, "f:1")], halves, check=refuse))


def test_lines_have_their_places_and_damaged_ones_their_faults(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\n\xfftwo\n \n\n\xff\n\nthree\n")
    first, second = text_lines(str(file)), BadRow("invalid UTF-8 at byte 0 of the line", f"{file}:2")
    assert [(line.text, line.is_blank) for line in first][:3] == [
        ("one", False),
        ("\ufffdtwo", False),
        (" ", True),
    ]
    good, bad = partition(filled_lines(text_lines(str(file))))
    assert [(line.text, line.location) for line in good] == [("one", f"{file}:1"), ("three", f"{file}:7")]
    assert bad == [second, second._replace(location=f"{file}:5")]
    blocks = list(blocks_of(text_lines(str(file))))
    assert [([line.text for line in block.lines], len(block.faults)) for block in blocks] == [
        (["one"], 1),
        ([], 1),
        (["three"], 0),
    ]
    assert [block.location for block in blocks] == [f"{file}:{number}" for number in (1, 5, 7)]


def test_numbers_are_read_as_text_and_nan_as_null() -> None:
    huge = 10**400
    row = cells_of({"huge": huge, "nan": float("nan"), "share": 0.5, "is_new": True, "bytes": b"a"}, "f:1")
    assert row.cells == {"huge": str(huge), "nan": None, "share": "0.5", "is_new": "true", "bytes": "a"}
