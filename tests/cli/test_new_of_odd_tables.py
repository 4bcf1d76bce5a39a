"""``t5x-like new`` says what is odd about a table: columns, names, encodings and words that no vocabulary has."""

import csv
import json
from pathlib import Path

import pytest

from t5x_like.cli.main import main
from tests.cli.test_new_from_table import text

LABELS = ("gut", "schlecht")
ROWS = [[f"Ein Stück über {text(row)}", LABELS[row % 2]] for row in range(40)]
NAMES = ["text", "label"]


@pytest.fixture(autouse=True)
def _in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(rows: list[list[str]], *, delimiter: str = ",", encoding: str = "utf-8") -> str:
    with open("rows.csv", "w", encoding=encoding, newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    return "rows.csv"


def report(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["new", "fresh", "--data", "rows.csv", *flags]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["new", "fresh", "--data", "rows.csv", *flags]) == 2
    assert not Path("fresh").exists()
    return capsys.readouterr().err


def test_columns_that_say_little_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        [[*NAMES, "same", "note"], *([*row, "x", f"n {at}" * (at % 3 == 0)] for at, row in enumerate(ROWS))]
    )
    printed = report(capsys, "--text", "text", "same", "note", "--label", "label")
    assert "column 'same' has no text but 'x', so the model learns nothing from it" in printed
    assert "column 'note' is empty in 65.0% of the rows, which are left out" in printed
    assert "column 'same' has no text" in Path("fresh/README.md").read_text()


def test_a_table_with_one_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write([NAMES, *(["x", label] for _, label in ROWS)])
    assert "column 'text' has no text but 'x', so nothing can be learned" in refusal(
        capsys, "--label", "label"
    )


def test_labels_with_one_row_and_labels_that_training_lacks_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [[words, "gut|neu" if at == 3 else label] for at, (words, label) in enumerate(ROWS)]
    write([NAMES, *rows])
    Path("rows.csv").rename("train.csv")
    write([NAMES, *([words + "!", "alt"] for words, _ in rows[:10])])
    flags = ["--task", "multilabel", "--data", "train.csv", "--validation", "rows.csv"]
    printed = report(capsys, *flags)
    assert "with one row each, which is in training: 'gut|neu'" in printed
    assert "in validation alone, so that they can't be learned: 'alt'" in printed


@pytest.mark.parametrize("rows", [ROWS, [[f"zwei\nZeilen {words}", label] for words, label in ROWS]])
def test_a_table_without_names_says_how_to_name_its_columns(
    rows: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    write(rows, delimiter=";")
    printed = report(capsys)
    assert (
        "40 rows of CSV separated by ';' without names of columns, columns 'column_1', 'column_2'" in printed
    )
    assert "name the columns: t5x-like new … --columns NAME NAME …" in printed


def test_names_of_columns_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    write(ROWS)
    printed = report(capsys, "--columns", "review", "opinion")
    assert "columns 'review', 'opinion'" in printed
    assert "name the columns" not in printed
    assert '{"review":' in Path("fresh/data/train.jsonl").read_text()


def test_a_wrong_number_of_names_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write(ROWS)
    assert "rows.csv, whose first row has 2 cells" in refusal(capsys, "--columns", "review")
    Path("rows.csv").rename("rows.jsonl")
    assert "rows.jsonl is jsonl" in refusal(capsys, "--data", "rows.jsonl", "--columns", "review")


def test_equal_names_of_columns_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write(ROWS)
    refused = refusal(capsys, "--columns", "text", "text")
    assert "columns of rows.csv: two columns have the same name: ['text', 'text']" in refused


def test_a_line_with_the_columns_that_the_user_names_names_the_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write([["text", "gut"], *ROWS])  # "gut" is a label, too
    assert "40 rows of CSV, columns 'text', 'gut'" in report(capsys, "--text", "text", "--label", "gut")


def test_validation_rows_are_read_with_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    write([["text", "gut"], *ROWS])  # "gut" is a label, too
    Path("rows.csv").rename("train.csv")
    write([["text", "gut"], *([words + "!", label] for words, label in ROWS)])
    printed = report(capsys, "--data", "train.csv", "--validation", "rows.csv", "--label", "gut")
    assert "train.csv: 40 rows of CSV, columns 'text', 'gut'" in printed
    assert "rows.csv: 40 rows of CSV, columns 'text', 'gut'" in printed


def test_validation_rows_need_no_names_where_the_file_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    write(ROWS)
    lines = [json.dumps({"text": f"{words}!", "label": label}) for words, label in ROWS]
    Path("held_out.jsonl").write_text("\n".join(lines), encoding="utf-8")
    printed = report(capsys, "--columns", "text", "label", "--validation", "held_out.jsonl")
    assert "40 rows of CSV without names of columns, columns 'text', 'label'" in printed
    assert "held_out.jsonl: 40 rows of JSONL, columns 'text', 'label'" in printed


def test_a_byte_order_mark_and_semicolons_of_excel_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    write([NAMES, *ROWS], delimiter=";", encoding="utf-8-sig")
    assert "40 rows of CSV separated by ';', columns 'text', 'label'" in report(capsys)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("cp1252", "rows.csv:2: invalid UTF-8 at byte 6 of the line; if it is Windows-1252"),
        ("utf-16", "rows.csv is UTF-16 text"),
    ],
)
def test_another_encoding_is_refused_with_the_command_that_converts_it(
    encoding: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write([NAMES, *ROWS], encoding=encoding)
    refused = refusal(capsys)
    assert message in refused
    assert (
        f"iconv -f {'UTF-16' if encoding == 'utf-16' else 'WINDOWS-1252'} -t UTF-8 'rows.csv' > OTHER_FILE"
        in refused
    )


@pytest.mark.parametrize("name", ["rows.csv", "rows.txt"])
def test_a_damaged_row_is_left_out_where_the_others_are_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write([NAMES, *ROWS])
    with open("rows.csv", "ab") as stream:
        stream.write(b"caf\xe9 number,gut\n")
    Path("rows.csv").rename(name)
    printed = report(capsys, "--data", name)
    assert f"left out: 1 row\n  {name}:42: invalid UTF-8 at byte 3 of the line\n" in printed
    assert "iconv" not in printed  # which would break the other rows


def test_damaged_rows_of_validation_are_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    write([NAMES, *([f"{words}!", label] for words, label in ROWS)])
    Path("rows.csv").rename("train.csv")
    write([NAMES, *ROWS])
    with open("rows.csv", "ab") as stream:
        stream.write(b"caf\xe9 number,gut\n")
    printed = report(capsys, "--data", "train.csv", "--validation", "rows.csv")
    assert "left out: 1 row\n  rows.csv:42: invalid UTF-8 at byte 3" in printed


@pytest.mark.parametrize(
    ("texts", "vocabulary", "line"),
    [
        (
            ["the house of the king", "people of the river"],
            "data/vocabulary/spiece.model",
            "0.0% unknown tokens",
        ),
        (
            ["дом у реки", "люди у дома"],
            "bytes",
            "vocabulary: bytes, as ByT5; data/vocabulary/spiece.model has",
        ),
    ],
)
def test_the_vocabulary_reads_what_is_written_too(
    texts: list[str], vocabulary: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        [
            ["source", "target"],
            *([f"the {row} house", f"{texts[row % 2]} {row} {row + 1}"] for row in range(40)),
        ]
    )
    assert line in report(capsys, "--task", "text")
    assert f"VOCABULARY = '{vocabulary}'" in Path("fresh/recipe.gin").read_text()


def test_help_lists_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["new", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for kind in (
        "multilabel: chooses all labels",
        "regress: predicts a number",
        "tags: tags the words",
        "answers: ",
    ):
        assert kind in printed
