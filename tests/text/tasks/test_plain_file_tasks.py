import json
import re

import pytest
import seqio
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text import registry
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow, Row, RowPolicy
from t5x_like.text.tasks.text_task import TextPair, TextTask
from t5x_like.text.templates import Template


def task(path, **changes):
    settings = {
        "name": "weather",
        "vocabulary": "bytes",
        "files": {"train": str(path)},
        "input_template": "weather: {text}",
        "target_template": "{label}",
        "label_words": {"0": "bad", "1": "good"},
        "metrics": ("accuracy", "f1"),
    }
    return TextTask(**(settings | changes))


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


EQUAL_FILES = {
    "rows.tsv": 'text\tlabel\nrain, "all" day\t0\nsun\t1\n',
    "rows.csv": 'text,label\n"rain, ""all"" day",0\nsun,1\n',
    "rows.jsonl": '{"text": "rain, \\"all\\" day", "label": 0}\n{"text": "sun", "label": "1"}\n',
}


@pytest.mark.parametrize("name", [*EQUAL_FILES, "rows.parquet"])
def test_every_format_reads_the_same_rows(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        import pyarrow
        import pyarrow.parquet

        rows = pyarrow.table({"text": ['rain, "all" day', "sun"], "label": [0, 1]})
        pyarrow.parquet.write_table(rows, path)
    else:
        write(path, EQUAL_FILES[name])
    results = [(row.inputs, row.targets) for row in task(path).read("train")]
    assert results == [('weather: rain, "all" day', "bad"), ("weather: sun", "good")]


def test_files_without_header_take_their_columns_from_the_task(tmp_path):
    path = write(tmp_path / "rows.tsv", "1\tsun\r\n0\train\r\n")
    rows = list(task(path, columns=("label", "text")).read("train"))
    assert [(row.inputs, row.targets) for row in rows] == [("weather: sun", "good"), ("weather: rain", "bad")]
    assert rows[1] == TextPair("weather: rain", "bad", {"label": "0", "text": "rain"}, f"{path}:2")


def test_rows_with_other_cells_are_left_out(tmp_path):
    path = write(tmp_path / "rows.tsv", "text\tlabel\tplace\nsun\t1\tsea\nrain\t0\thill\nfog\t0\tsea\n")
    at_sea = task(path, row_filter={"place": "sea"})
    assert [row.inputs for row in at_sea.read("train")] == ["weather: sun", "weather: fog"]
    assert at_sea.fingerprint() != task(path).fingerprint()
    with pytest.raises(ValueError, match=r"no usable row .* row_filter=\{'place': 'moon'\}"):
        list(task(path, row_filter={"place": "moon"}).read("train"))
    with pytest.raises(ValueError, match=r"no column 'plaice'.*Did you mean \{place\}"):
        list(task(path, row_filter={"plaice": "sea"}).read("train"))


def test_several_files_and_patterns_make_one_split(tmp_path):
    for number in (2, 1):
        write(tmp_path / f"part{number}.tsv", f"text\tlabel\nday {number}\t1\n")
    results = [row.inputs for row in task(tmp_path / "part*.tsv").read("train")]
    assert results == ["weather: day 1", "weather: day 2"]


BAD_ROWS = {
    "short.tsv": (b"text\tlabel\nsun\t1\nrain\n", 3, "1 columns, where 2 are expected (text, label)"),
    "long.tsv": (b"text\tlabel\nsun\t1\nrain\t0\t0\n", 3, "3 columns"),
    "utf8.tsv": (
        b"text\tlabel\nsun\t1\nr\xe9in\t0\n",
        3,
        "invalid UTF-8 at byte 1 of the line; if it is Windows-1252, as Excel writes: iconv -f WINDOWS-1252 -t UTF-8",
    ),
    "label.tsv": (b"text\tlabel\nsun\t1\nrain\t7\n", 3, "label_words has no word for label='7'"),
    "short.csv": (b'text,label\n"sun\nsun",1\nrain\n', 4, "1 columns"),
    "open.csv": (b'text,label\nsun,1\n"rain,0\n', 3, "never closed"),
    "json.jsonl": (
        b'{"text": "sun", "label": 1}\n{"text": rain}\n',
        2,
        "invalid JSON: Expecting value at column 10, before 'rain}'",
    ),
    "list.jsonl": (b'{"text": "sun", "label": 1}\n[1, 2]\n', 2, "an object {…} is expected, found list"),
    "null.jsonl": (b'{"text": "sun", "label": 1}\n{"text": null, "label": 0}\n', 2, "column 'text' is null"),
    "half.jsonl": (b'{"text": "sun", "label": 1}\n{"text": "\\ud800", "label": 0}\n', 2, "lone surrogate"),
    "cut.jsonl": (b'{"text": "sun", "label": 1}\n{"text": ', 2, "Expecting value at column 10, at the end"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, name):
    content, line, reason = BAD_ROWS[name]
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match="on_bad_row='skip'") as error:
        list(task(path).read("train"))
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert reason in str(error.value)


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_can_be_skipped_and_counted(tmp_path, name):
    content, line, _ = BAD_ROWS[name]
    path = write(tmp_path / name, content)
    policy = RowPolicy("skip")
    assert len(list(task(path, on_bad_row="skip").read("train", policy))) == 1
    assert (policy.num_rows, policy.num_skipped) == (1, 1)
    assert str(policy).startswith(f"skipped 1 of 2 rows (first: {path}:{line}: ")


@pytest.mark.parametrize("name", ["empty.tsv", "empty.csv", "empty.jsonl", "blank.tsv", "header.tsv"])
@pytest.mark.parametrize("on_bad_row", ["fail", "skip"])
def test_a_file_without_rows_is_named(tmp_path, name, on_bad_row):
    content = {"blank.tsv": "\n\n", "header.tsv": "text\tlabel\n"}.get(name, "")
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=r"empty|no usable row"):
        list(task(path, on_bad_row=on_bad_row).read("train"))


WRONG_SEPARATORS = {
    "semicolons.csv": ("text;label\nsun;1\n", "delimiter=';'"),
    "commas_in_cells.csv": ("text;label\nsun, rain;1\n", "delimiter=';'"),
    "tabs.csv": ("text\tlabel\nsun\t1\n", "format='tsv'"),
    "commas.tsv": ("text,label\nsun,1\n", "format='csv'"),
    "semicolons.tsv": ("text;label\nsun;1\n", "format='csv' and ';' as delimiter"),
}


@pytest.mark.parametrize("name", WRONG_SEPARATORS)
def test_another_separator_is_recognized_in_the_header(tmp_path, name):
    content, advice = WRONG_SEPARATORS[name]
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=rf"Are the columns separated by '.+'\? Then set {advice}\."):
        list(task(path).read("train"))


def test_a_delimiter_separates_the_cells_of_csv(tmp_path):
    path = write(tmp_path / "rows.csv", 'label;text\n1;"sun; rain"\n')
    semicolons = task(path, delimiter=";")
    assert [row.inputs for row in semicolons.read("train")] == ["weather: sun; rain"]
    assert "delimiter" not in task(path).fingerprint()  # caches made without this setting stay valid
    assert semicolons.fingerprint()["delimiter"] == ";"
    with pytest.raises(ValueError, match="delimiter must be one character, not ';;'"):
        task(path, delimiter=";;")


@pytest.mark.parametrize(
    ("content", "command"), [('[\n{"text": "sun"}\n]\n', "'.[]'"), ('{\n"text": "sun"}\n', "'.'")]
)
def test_json_over_several_lines_is_refused_with_a_command_that_makes_jsonl(tmp_path, content, command):
    path = write(tmp_path / "rows.jsonl", content)
    with pytest.raises(ValueError, match=re.escape(f"one object on each line: jq -c {command} {path}")):
        list(task(path).read("train"))


def test_a_template_that_names_no_column_is_refused_under_every_policy(tmp_path):
    path = write(tmp_path / "rows.tsv", "texts\tlabel\nsun\t1\n")
    with pytest.raises(
        ValueError, match=r"no column 'text'; the columns are texts, label\. Did you mean \{texts\}"
    ):
        list(task(path, on_bad_row="skip").read("train"))


@pytest.mark.parametrize("name", ["rows.tsv", "rows.csv"])
def test_an_unreadable_header_line_is_refused_under_every_policy(tmp_path, name):
    path = write(tmp_path / name, b"te\xe9xt,label\nsun,1\n")
    with pytest.raises(ValueError, match=r"rows\..sv:1: invalid UTF-8.*should name the columns"):
        list(task(path, on_bad_row="skip").read("train"))


def test_cells_of_csv_may_be_as_long_as_documents(tmp_path):
    path = write(tmp_path / "rows.csv", f"text,label\n{'x' * 200_000},1\n")
    assert len(next(task(path).read("train")).inputs) > 200_000


def test_missing_files_and_splits_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.tsv' does not exist"):
        list(task(tmp_path / "none.tsv").read("train"))
    with pytest.raises(ValueError, match="no file matches"):
        list(task(tmp_path / "*.tsv").read("train"))
    with pytest.raises(ValueError, match="has no split 'test'; there are train"):
        list(task(tmp_path / "none.tsv").read("test"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_template": "text: {text"}, "write {{ and }} for braces"),
        ({"input_template": "{text!r}"}, "only plain {column} fields"),
        ({"metrics": ("accurate",)}, "did you mean 'accuracy'"),
        ({"on_bad_row": "ignore"}, "on_bad_row needs 'fail' or 'skip', got 'ignore'"),
        ({"format": "xlsx"}, "format needs 'tsv', "),
        ({"files": {}}, "has no files"),
    ],
)
def test_impossible_tasks_are_refused_before_reading(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("}", r"\}")):
        task(tmp_path / "rows.tsv", **changes)


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), max_size=20)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_tsv_keeps_every_cell(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.tsv"
    write(path, "".join(f"x{left}\t{right}\n" for left, right in rows))
    result = list(read_rows(str(path), "tsv", columns=("left", "right")))
    assert [tuple(row.cells.values()) for row in result] == [(f"x{left}", right) for left, right in rows]


@given(st.dictionaries(st.sampled_from("abc"), cells, min_size=1))
@settings(max_examples=40, deadline=None)
def test_jsonl_keeps_every_cell(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    write(path, json.dumps(row) + "\n\n")
    assert list(read_rows(str(path), "jsonl")) == [Row(row, f"{path}:1")]


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(), min_size=2))
def test_cells_are_put_into_templates_as_they_are(row):
    assert Template("{{x}} {a}|{b}").fill(row) == "{x} " + row["a"] + "|" + row["b"]


def test_byte_order_marks_are_dropped(tmp_path):
    path = write(tmp_path / "rows.csv", b"\xef\xbb\xbftext,label\nsun,1\n")
    assert next(task(path).read("train")).inputs == "weather: sun"


def test_not_parquet_is_named(tmp_path):
    path = write(tmp_path / "rows.parquet", "text\tlabel\n")
    (bad,) = read_rows(str(path), "parquet")
    assert isinstance(bad, BadRow)
    assert "not a parquet file" in str(bad)


def test_a_registered_task_is_a_seqio_task_with_trimmed_and_ended_ids(tmp_path, pieces_path):
    path = write(tmp_path / "rows.tsv", "text\tlabel\nthat is good\t1\nthis is a test of a long line\t0\n")
    registry.register([task(path, name="seqio_weather", vocabulary=str(pieces_path))])
    mixture_or_task = seqio.get_mixture_or_task("seqio_weather")
    assert mixture_or_task.num_input_examples("train") == 2
    rows = list(
        mixture_or_task.get_dataset({"inputs": 6, "targets": 4}, "train", shuffle=False).as_numpy_iterator()
    )
    vocabulary = mixture_or_task.output_features["inputs"].vocabulary
    whole = vocabulary.encode("weather: this is a test of a long line")
    assert rows[1]["inputs"].tolist() == [*whole[:5], 1]
    assert rows[0]["targets_pretokenized"] == b"good"
    assert [metric.__name__ for metric in mixture_or_task.predict_metric_fns] == ["accuracy", "f1"]


@pytest.mark.parametrize(
    ("encoding", "name"), [("utf-16", "UTF-16"), ("utf-16-be", "UTF-16"), ("utf-32", "UTF-32")]
)
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_file_of_wide_characters_is_named_as_such(tmp_path, encoding, name, policy):
    """Check that wide characters are refused although most lines are valid UTF-8 with NULs."""
    mark = "\ufeff" if encoding.endswith("be") else ""
    path = write(tmp_path / "rows.tsv", f"{mark}text\tlabel\nrain\t0\nsun\t1\n".encode(encoding))
    with pytest.raises(ValueError, match=rf"rows\.tsv is {name} text.*iconv -f {name} -t UTF-8"):
        list(task(path, on_bad_row=policy).read("train"))
