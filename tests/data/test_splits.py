"""Splits are deterministic, and tables hold what they were given."""

import pytest

from data.prepare.splits import hold_out, shuffle_by_key, write_tsv


def test_the_split_does_not_depend_on_the_order_of_the_rows():
    words = [f"word{index}" for index in range(50)]
    assert shuffle_by_key(words, str, seed=1) == shuffle_by_key(reversed(words), str, seed=1)
    assert shuffle_by_key(words, str, seed=1) != shuffle_by_key(words, str, seed=2)


def test_holding_out_everything_is_refused():
    with pytest.raises(ValueError, match="nothing remains for 'train'"):
        hold_out(["a", "b"], {"test": 2}, rest="train")


def test_a_tab_inside_a_cell_is_refused(tmp_path):
    with pytest.raises(ValueError, match="does not fit the columns"):
        write_tsv(tmp_path / "x.tsv", ["a", "b"], [["one", "t\two"]])
