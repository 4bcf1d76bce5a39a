"""Rows are divided by labels, texts and groups."""

from collections import Counter

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.project_rows import ProjectRow, find_repetitions
from t5x_like.projects.row_split import split_rows, without_rows_of


def row(number: int, text: str, label: str, group: str = "") -> ProjectRow:
    return ProjectRow({"text": text}, (text,), label, (label,), group, f"rows.csv:{number}")


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.integers(0, 400)), min_size=30, max_size=50
    ),
    st.booleans(),
)
def test_no_text_and_no_group_is_on_both_sides(rows: list[tuple[int, str, int]], has_groups: bool) -> None:
    made = [
        row(index, f"Text  {text}" if index % 2 else f"text {text} ", label, f"g{group}" * has_groups)
        for index, (text, label, group) in enumerate(rows)
    ]
    try:
        train, validation = split_rows(made)
    except UserError:  # nearly all rows belong together
        reject()
    assert sorted(map(str, [*train, *validation])) == sorted(map(str, made))
    assert not {each.key for each in train} & {each.key for each in validation}
    assert not has_groups or not {each.group for each in train} & {each.group for each in validation}
    assert {each.answer for each in train} == {each.answer for each in made}


def test_both_sides_have_the_shares_of_labels() -> None:
    labels = ["common"] * 950 + ["rare"] * 45 + ["rarest"] * 4 + ["single"]
    made = [row(index, f"text {index}", label) for index, label in enumerate(labels)]
    train, validation = split_rows(made)
    assert Counter(each.answer for each in validation) == {"common": 95, "rare": 4, "rarest": 1}
    assert split_rows(made) == (train, validation)


def test_texts_of_a_validation_file_leave_training() -> None:
    made = [row(1, "a b", "x"), row(2, "c", "x")]
    assert without_rows_of(made, [row(3, "A  b", "y")]) == ([made[1]], [made[0]])


def test_three_rows_are_too_few() -> None:
    with pytest.raises(UserError, match=r"3 usable rows; a split .* needs at least 10"):
        split_rows([row(index, str(index), "x") for index in range(3)])


def test_one_group_cannot_be_divided() -> None:
    with pytest.raises(UserError, match="belong together by their text or group"):
        split_rows([row(index, str(index), "x", "g") for index in range(20)])


def test_duplicates_and_contradictions_are_counted_with_their_places() -> None:
    rows = [row(2, "Hello", "x"), row(3, "hello ", "x"), row(4, "hello", "y"), row(5, "other", "x")]
    repetitions = find_repetitions(rows)
    assert (repetitions.num_duplicates, repetitions.num_contradictions) == (1, 1)
    report = "\n".join(repetitions.lines())
    assert "'Hello' (rows.csv:2, rows.csv:3)" in report
    assert "'Hello': 'x' in rows.csv:2, 'y' in rows.csv:4" in report
