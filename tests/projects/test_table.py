"""Tables as people have them are read, and their columns are guessed."""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.column_guess import ColumnGuess, guess_columns
from t5x_like.projects.table import UserTable
from t5x_like.projects.table_file import read_table

TEXTS = [f"a text about thing number {index} with several words" for index in range(24)]
LABELS = ["good", "bad", "fair"] * 8


def write(folder: Path, name: str, text: str) -> UserTable:
    (folder / name).write_text(text, encoding="utf-8")
    return read_table(str(folder / name))


def lines(*columns: list[str], delimiter: str = ",") -> str:
    return "".join(delimiter.join(cells) + "\n" for cells in zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.csv", "|")]
)
def test_the_delimiter_is_found(name: str, delimiter: str, tmp_path: Path) -> None:
    table = write(tmp_path, name, lines(["text", *TEXTS], ["label", *LABELS], delimiter=delimiter))
    assert list(table.column_names) == ["text", "label"]
    assert [row.cells["label"] for row in table.rows] == LABELS


@pytest.mark.parametrize(("name", "delimiter"), [("sms.tsv", "\t"), ("sms.csv", ","), ("sms.txt", "\t")])
def test_a_file_without_names_of_columns_keeps_its_first_row(
    name: str, delimiter: str, tmp_path: Path
) -> None:
    table = write(tmp_path, name, lines(LABELS, TEXTS, delimiter=delimiter))
    assert len(table.rows) == 24
    assert guess_columns(table) == ColumnGuess(kind="classify", texts=("column_2",), label="column_1")


def test_lists_are_read_from_json_lines_and_from_the_csv_of_pandas(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": text, "tags": ["a", "b c"]}) + "\n" for text in TEXTS)
    pandas = "text,tags\n" + "".join(f"\"{text}\",\"['a', 'b c']\"\n" for text in TEXTS)
    for table in (write(tmp_path, "a.jsonl", rows), write(tmp_path, "a.csv", pandas)):
        assert table.rows[0].cells == {"text": TEXTS[0], "tags": ["a", "b c"]}
        assert table.columns["tags"].is_list


def test_brackets_in_texts_stay_text(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", "text,label\n[1] a footnote [2],x\nplain,y\n")
    assert table.rows[0].cells["text"] == "[1] a footnote [2]"


def test_parquet_is_read_and_empty_cells_are_left_out(tmp_path: Path) -> None:
    columns = {"review": [*TEXTS[:3], None], "stars": [1, 2, None, 4]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read_table(str(tmp_path / "a.parquet"))
    assert table.rows[0].cells == {"review": TEXTS[0], "stars": "1"}
    assert [sorted(row.cells) for row in table.rows[2:]] == [["review"], ["stars"]]


@pytest.mark.parametrize(
    ("columns", "guess"),
    [
        ({"id": [str(n) for n in range(24)], "review": TEXTS, "sentiment": LABELS}, ("review",)),
        ({"premise": TEXTS, "hypothesis": TEXTS[::-1], "label": LABELS}, ("premise", "hypothesis")),
        ({"sentence1": TEXTS, "sentence2": TEXTS[::-1], "label": LABELS}, ("sentence1", "sentence2")),
        ({"Text A": TEXTS, "Text B": TEXTS[::-1], "Class": LABELS}, None),
        ({"notes": TEXTS, "verdict": LABELS}, ("notes",)),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_texts_and_classes_are_guessed(
    columns: dict[str, list[str]], guess: tuple[str, ...] | None, tmp_path: Path
) -> None:
    names = list(columns)
    table = write(tmp_path, "a.csv", lines(*([name, *columns[name]] for name in names)))
    result = guess_columns(table)
    assert result.kind == "classify"
    assert result.label == names[-1]
    if guess is not None:
        assert result.texts == guess


@pytest.mark.parametrize(
    ("cells", "kind", "separator"),
    [
        (["drama", "comedy|drama", "comedy"] * 8, "multilabel", "|"),
        (["drama", "comedy; drama", "action; comedy"] * 8, "multilabel", ";"),
        (["drama", "comedy, drama", "comedy, action", "action"] * 6, "multilabel", ","),
        (["Austin, TX", "Dallas, TX", "Boston, MA"] * 8, "classify", None),
        (["yes", "no", "yes/no, it depends"] * 8, "classify", None),
        ([f"it was late, and we had {index} things, or so" for index in range(24)], "text", None),
        (["1,5", "2,5", "1,2"] * 8, "classify", None),
        (["1,5", "2,5,1", "1,2"] * 8, "multilabel", ","),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_several_labels_of_a_cell_are_found_where_they_recur_in_other_combinations(
    cells: list[str], kind: str, separator: str | None, tmp_path: Path
) -> None:
    table = write(tmp_path, "a.tsv", lines(["text", *TEXTS], ["genre", *cells], delimiter="\t"))
    columns = guess_columns(table)
    assert (columns.kind, columns.label, columns.separator) == (kind, "genre", separator)


def test_lists_of_labels_are_label_sets_and_lists_of_sentences_are_not(tmp_path: Path) -> None:
    for labels, kind in ([["a"], [], ["a", "b"]] * 8, "multilabel"), ([[text] for text in TEXTS], "text"):
        rows = [{"text": text, "labels": each} for text, each in zip(TEXTS, labels, strict=True)]
        table = write(tmp_path, f"{kind}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        assert guess_columns(table).kind == kind


def test_groups_are_guessed_by_name_and_size(tmp_path: Path) -> None:
    users = [str(index // 3) for index in range(24)]
    table = write(tmp_path, "a.csv", lines(["user_id", *users], ["text", *TEXTS], ["label", *LABELS]))
    assert guess_columns(table).group == "user_id"
    alone = write(tmp_path, "b.csv", lines(["user_id", *TEXTS], ["text", *TEXTS], ["label", *LABELS]))
    assert guess_columns(alone).group is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "text,label\n", "names of columns and no row"),
        ("a.xlsx", "x", "save the sheet as CSV"),
        ("a.jsonl", "[1, 2]\n", "an object {…} is expected"),
    ],
)
def test_files_without_rows_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        write(tmp_path, name, text)
    assert message in str(refused.value)


def test_a_wrong_column_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", lines(["text", *TEXTS], ["label", *LABELS]))
    with pytest.raises(UserError, match="did you mean 'label'"):
        guess_columns(table, label="lable")
    with pytest.raises(UserError, match="give two columns"):
        guess_columns(table, texts=["text"], label="text")


def test_equal_names_in_a_line_of_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"two columns have the same name: \['text', 'label', 'text'\]"):
        write(tmp_path, "a.csv", lines(["text", *TEXTS], ["label", *LABELS], ["text", *TEXTS]))
    table = write(tmp_path, "pairs.csv", "cat,cat,same\ncat,dog,other\n")  # a row like the others
    assert [row.cells["column_3"] for row in table.rows] == ["same", "other"]
