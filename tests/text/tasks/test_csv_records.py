"""CSV as spreadsheets and pandas write it; right values are those of pandas' reader."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.projects.table_file import read_table
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow


def read(tmp_path, content, format="csv", **settings):
    file = tmp_path / f"a.{format}"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = read_rows(str(file), format, **settings)
    return [row.reason if isinstance(row, BadRow) else tuple(row.cells.values()) for row in rows]


def cells_of(file, format):
    return [row.cells for row in read_rows(str(file), format) if not isinstance(row, BadRow)]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('a,b\n5" pipe,1\nx,2\n', [('5" pipe', "1"), ("x", "2")]),
        ('a,b\n5" pipe,1\nx,2\n6" pipe,3\n', [('5" pipe', "1"), ("x", "2"), ('6" pipe', "3")]),
        ('a,b\nsay "hi",1\n"x ""y""",2\n', [('say "hi"', "1"), ('x "y"', "2")]),
        ('a,b\n1,"x\n\ny, ""z"\n2,w\n', [("1", 'x\n\ny, "z'), ("2", "w")]),
        ('a,b\n"",""\n"""",1\n', [("", ""), ('"', "1")]),
        ('a,b\n"x"""\ny"",2\n', ["1 columns, where 2 are expected (a, b)", ('y""', "2")]),
        ("a,b\nx,1\n   \ny,2\n", [("x", "1"), ("y", "2")]),
    ],
)
def test_a_quote_opens_a_cell_only_where_the_cell_begins(tmp_path, content, rows):
    assert read(tmp_path, content) == rows


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "\ufeffsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_excels_line_of_the_separator_is_no_header(tmp_path, line, end):
    content = end.join([line, "a;b", "1,5;2", ""])
    assert read(tmp_path, content) == [("1,5", "2")]
    assert read(tmp_path, content, delimiter=";") == [("1,5", "2")]
    assert read(tmp_path, content, columns=("a", "b")) == [("a", "b"), ("1,5", "2")]
    table = read_table(str(tmp_path / "a.csv"))
    assert (table.column_names, [row.cells for row in table.rows]) == (["a", "b"], [{"a": "1,5", "b": "2"}])


def test_a_separator_that_the_line_contradicts_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv:1: sep=; says .* delimiter='\|' was given"):
        read(tmp_path, "sep=;\na;b\n1;2\n", delimiter="|")
    with pytest.raises(ValueError, match=r"a\.tsv:1: sep=; says .*format='csv'"):
        read(tmp_path, "sep=;\na;b\n1;2\n", "tsv")
    assert read(tmp_path, "sep=\t\na\tb\n1\t2\n", "tsv") == [("1", "2")]
    assert read(tmp_path, "sep=,x\n1,2\n") == [("1", "2")]  # names of columns


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_breaks_in_quotes_stay_as_the_file_has_them(tmp_path, end):
    assert read(tmp_path, f'a,b{end}"x\r\ny\nz",2{end}') == [("x\r\ny\nz", "2")]


def test_carriage_returns_alone_are_named(tmp_path):
    with pytest.raises(ValueError, match="a line break is a carriage return alone; convert them"):
        read(tmp_path, "a,b\r1,2\r")


def test_only_the_delimiter_begins_a_cell(tmp_path):
    assert read(tmp_path, 'a;b\nx,"y;1\nz;"2;\n3"\n', delimiter=";") == [('x,"y', "1"), ("z", "2;\n3")]


def test_a_line_that_is_no_utf8_spoils_its_own_record_alone(tmp_path):
    rows = read(tmp_path, 'a,b\n"caf\xe9\nbar",1\n"x\nna\xefve",2\ny,3\n'.encode("latin-1"))
    assert [row if isinstance(row, tuple) else row[:25] for row in rows] == [
        "invalid UTF-8 at byte 4 o",
        "invalid UTF-8 at byte 2 o",
        ("y", "3"),
    ]


def test_columns_without_a_name_are_named_as_in_pandas(tmp_path):
    (tmp_path / "spam.csv").write_text("v1,v2,,,\nham,Ok lar,,,\nspam,Win,,,\n")
    assert cells_of(tmp_path / "spam.csv", "csv")[0] == {
        "v1": "ham",
        "v2": "Ok lar",
        "Unnamed: 2": "",
        "Unnamed: 3": "",
        "Unnamed: 4": "",
    }
    assert [each.cells for each in read_table(str(tmp_path / "spam.csv")).rows] == [
        {"v1": "ham", "v2": "Ok lar"},
        {"v1": "spam", "v2": "Win"},
    ]


def test_nan_is_null_as_pandas_means_it(tmp_path):
    lines = f"{json.dumps({'a': float('nan'), 'b': 1})}\n \t\n{json.dumps({'a': 'NaN', 'b': 2.5})}\n"
    assert read(tmp_path, lines, "jsonl") == [(None, "1"), ("NaN", "2.5")]
    assert [row.cells for row in read_table(str(tmp_path / "a.jsonl")).rows] == [
        {"b": "1"},
        {"a": "NaN", "b": "2.5"},
    ]
    pyarrow.parquet.write_table(pyarrow.table({"a": [1.5, float("nan")]}), tmp_path / "a.parquet")
    assert cells_of(tmp_path / "a.parquet", "parquet") == [{"a": "1.5"}, {"a": None}]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_two_columns_of_one_name_are_refused(tmp_path, format):
    table = pyarrow.Table.from_arrays([pyarrow.array(["x"]), pyarrow.array(["y"])], names=["a", "a"])
    file = tmp_path / f"a.{format}"
    if format == "parquet":
        pyarrow.parquet.write_table(table, file)
    else:
        with pyarrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(ValueError, match=r"two columns have the same name: \['a', 'a'\]"):
        list(read_rows(str(file), format))


@pytest.mark.parametrize("width", [16, 32])
def test_narrow_floats_of_parquet_have_as_many_digits_as_pandas_writes(tmp_path, width):
    column = pyarrow.array(np.array([0.1, 3.3, np.nan, 5, -1e-3], f"float{width}"))
    pyarrow.parquet.write_table(pyarrow.table({"n": column}), tmp_path / "a.parquet")
    numbers = [row["n"] for row in cells_of(tmp_path / "a.parquet", "parquet")]
    assert numbers == ["0.1", "3.3", None, "5.0", "-0.001"]


def test_a_parquet_file_that_git_lfs_holds_is_named(tmp_path):
    (tmp_path / "a.parquet").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n"
    )
    with pytest.raises(ValueError, match=r"a\.parquet is a Git LFS pointer.*git lfs pull"):
        list(read_rows(str(tmp_path / "a.parquet"), "parquet"))


def test_a_json_array_on_one_line_has_the_command_that_divides_it(tmp_path):
    (tmp_path / "a.jsonl").write_text('[{"a": "x"}, {"a": "y"}]\n')
    (bad,) = read_rows(str(tmp_path / "a.jsonl"), "jsonl")
    assert "found list; JSONL has one object on each line: jq -c '.[]'" in str(bad)
