"""Damaged benchmark files are reported with the remedy, in every format."""

import bz2
import gzip
import io
import json
import lzma
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import json_value
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks import catalogue

COLA = [{"sentence": f"Sätze {index}.", "label": index % 2, "idx": index} for index in range(40)]


def rows(data: Path, task: str, *, skip: bool = False) -> int:
    read = catalogue.benchmark_task(
        name=task, vocabulary="bytes", data_dir=str(data), on_bad_row="skip" if skip else "fail"
    ).read("validation")
    return sum(1 for _ in read)


def put(data: Path, name: str, content: bytes) -> Path:
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    (data / name).write_bytes(content)
    return data / name


FILES = {
    "glue_rte_v002": ("glue/RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tÄ\tB\tentailment\n"),
    "super_glue_cb_v102": (
        "super_glue/CB/val.jsonl",
        '{"premise": "Ä", "hypothesis": "B", "label": "neutral", "idx": 0}\n',
    ),
    "squad_v010_allanswers": ("squad/dev-v1.1.json", '{"data": [],\n "title": "Ä"}'),
    "conll2003_ner": ("conll2003/eng.testa", "-DOCSTART- -X- -X- O\n\nÄ NNP B-NP B-PER\n"),
    "ud_en_ewt_pos": ("ud/en_ewt-ud-dev.conllu", "1\tÄ\t_\tPROPN\t_\t_\t_\t_\t_\t_\n"),
    "wikitext2": ("wikitext-2/wiki.valid.tokens", " = Ä = \n\n It burned . \n"),
    "wmt14_ende_v003": ("wmt14/newstest2013.en", "Ä\n"),
}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("task", FILES)
@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda text: text.encode("utf-16"), r"is UTF-16 text, as its byte-order mark says; .* iconv -f UTF-16 "),
        (lambda text: text.encode("utf-16-le"), r"is UTF-16LE text, to judge by its first bytes; .* iconv -f UTF-16LE"),
        (lambda text: text.encode("utf-16-be"), r"is UTF-16BE text, to judge by its first bytes"),
        (lambda text: gzip.compress(text.encode()), r"is a gzip file under another name; unpack it"),
        (lambda text: bz2.compress(text.encode()), r"is a bzip2 file under another name; unpack it"),
        (lambda text: lzma.compress(text.encode()), r"is a xz file under another name; unpack it"),
        (lambda text: b"PAR1" + text.encode(), r"is a table of parquet under another name; give it the ending"),
        (lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", r"is a Git LFS pointer, not the"),
    ],
)  # fmt: skip
def test_a_file_of_another_encoding_is_reported(tmp_path, task, encode, message, skip):
    name, text = FILES[task]
    put(tmp_path, name.replace(".en", ".de"), b"A\n")
    put(tmp_path, name, encode(text))
    with pytest.raises(ValueError, match=f"{name} {message}"):
        rows(tmp_path, task, skip=skip)


def test_latin_1_is_reported_with_its_line(tmp_path):
    for mark in (b"", b"\xef\xbb\xbf"):
        file = put(tmp_path, "squad/dev-v1.1.json", mark + b'{"data":\n ["\xe4"]}')
        with pytest.raises(ValueError, match=r"dev-v1.1.json:2: invalid UTF-8 at byte 3 of the line"):
            text_of(str(file))


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 70 + "]" * 70, "9" * 10_000])
def test_json_beyond_pythons_limits_is_invalid(tmp_path, text):
    with pytest.raises(json.JSONDecodeError, match=r"nested deeper than 64 levels|4300 digits"):
        json_value(text)
    put(tmp_path, "super_glue/CB/val.jsonl", text.encode())
    with pytest.raises(ValueError, match=r"val.jsonl:1: invalid JSON: (nested deeper|Exceeds the limit)"):
        rows(tmp_path, "super_glue_cb_v102")


def test_a_lone_surrogate_in_json_is_a_bad_row(tmp_path):
    line = '{"premise": "P\\ud800", "hypothesis": "H", "label": "neutral", "idx": 0}\n'
    put(
        tmp_path,
        "super_glue/CB/val.jsonl",
        (line + line.replace("\\ud800", "é").replace("0}", "1}")).encode(),
    )
    with pytest.raises(ValueError, match=r"val.jsonl:1: column 'premise' holds half of a character"):
        rows(tmp_path, "super_glue_cb_v102")
    assert rows(tmp_path, "super_glue_cb_v102", skip=True) == 1


def test_truncated_or_damaged_arrow_and_parquet_files_are_reported(tmp_path):
    table, whole = pyarrow.Table.from_pylist(COLA), io.BytesIO()
    with pyarrow.ipc.new_stream(whole, table.schema) as stream:
        stream.write_table(table)
    arrow = whole.getvalue()
    pyarrow.parquet.write_table(table, tmp_path / "whole.parquet")
    parquet = (tmp_path / "whole.parquet").read_bytes()
    for name, content in {
        "glue/cola/validation/data-00000-of-00001.arrow": arrow,
        "glue/cola/validation-00000-of-00001.parquet": parquet,
    }.items():
        file = put(tmp_path, name, content)
        assert rows(tmp_path, "glue_cola_v002") == 40
        for damaged in (content[: len(content) * 2 // 3], content[:40] + b"\xe9" * 40 + content[80:], b""):
            file.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"{name} is not a parquet or Arrow file, or is damaged: "):
                rows(tmp_path, "glue_cola_v002")


def test_wikitext_with_carriage_returns_has_the_same_articles_and_without_titles_is_refused(tmp_path):
    text = " = Mill = \n\n It burned . \n = Lake = \n\n It froze . \n"
    put(tmp_path, "wikitext-2/wiki.valid.tokens", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert rows(tmp_path, "wikitext2") == 2
    put(tmp_path, "wikitext-2/wiki.valid.tokens", b"<html>\n")
    with pytest.raises(
        ValueError, match=r"no usable row in .*wiki.valid.tokens; skipped 1 of 1 rows \(first: "
    ):
        rows(tmp_path, "wikitext2", skip=True)


def test_a_file_without_rows_is_named(tmp_path):
    put(tmp_path, "super_glue/CB/val.jsonl", b"\n")
    with pytest.raises(ValueError, match=r"val.jsonl: the file is empty"):
        rows(tmp_path, "super_glue_cb_v102")


def test_archives_and_missing_files_are_reported(tmp_path, capsys):
    put(tmp_path, "glue/RTE.zip", b"PK")
    put(tmp_path, "glue/RTE/train.tsv.gz", b"\x1f\x8b")
    (tmp_path / "glue/RTE/dev.tsv").mkdir()
    assert main(["data", "status", "glue_rte_v002", "--data_dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"{tmp_path}/glue/RTE/train.tsv.gz is there; unpack it" in shown
    assert f"{tmp_path}/glue/RTE.zip is there; unpack it" in shown
    assert f"reading ends with: {tmp_path}/glue/RTE/dev.tsv: is a directory" in shown
    (tmp_path / "glue/RTE/dev.tsv").rmdir()
    with pytest.raises(
        ValueError, match=r"unpack .*/glue/RTE.zip, which is there, so that glue/RTE/dev.tsv is in"
    ):
        rows(tmp_path, "glue_rte_v002")


def test_a_data_folder_may_have_brackets_in_its_name(tmp_path):
    put(tmp_path / "data [1]", "glue/RTE/dev.tsv", FILES["glue_rte_v002"][1].encode())
    assert rows(tmp_path / "data [1]", "glue_rte_v002") == 1


ANSWER = {"text": "c", "answer_start": 0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["x"], "'data' must be a list of articles"),
        ({"a": 1}, "no list 'data', which SQuAD's JSON has at its top"),
        ([{"paragraphs": None}], "'data' must be a list of articles"),
        ([{"paragraphs": [{"context": "c", "qas": ["q"]}]}], r"qas\[0\]: the values are not of the kinds"),
        (
            [{"paragraphs": [{"context": None, "qas": [{"id": "1", "question": "q", "answers": [ANSWER]}]}]}],
            r"qas\[0\]: the values are not of the kinds that SQuAD's have: .*answer_start",
        ),
        (
            [{"paragraphs": [{"context": "c", "qas": [{"id": [1], "question": "q", "answers": []}]}]}],
            r"column 'id' must hold text, not \[1\]",
        ),
    ],
)  # fmt: skip
def test_squad_with_another_structure_is_reported(tmp_path, data, message):
    put(tmp_path, "squad/dev-v1.1.json", json.dumps({"data": data}).encode())
    with pytest.raises(ValueError, match=message):
        rows(tmp_path, "squad_v010_allanswers")


@pytest.mark.parametrize("label", [float("nan"), float("inf")])
def test_a_score_that_is_not_a_number_is_a_bad_row(tmp_path, label):
    row = {"sentence1": "A", "sentence2": "B", "label": label, "idx": 0}
    (tmp_path / "glue/stsb").mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "glue/stsb/validation.parquet")
    with pytest.raises(ValueError, match=f"row 1: column 'label' must hold a number, not {label}"):
        rows(tmp_path, "glue_stsb_v002")


def test_a_label_of_multirc_outside_the_set_is_a_bad_row(tmp_path):
    questions = [{"question": "Q", "idx": 0, "answers": [{"text": "a", "idx": 0, "label": 5}]}]
    line = json.dumps({"idx": 0, "passage": {"text": "P", "questions": questions}})
    put(tmp_path, "super_glue/MultiRC/val.jsonl", line.encode())
    with pytest.raises(ValueError, match=r"val.jsonl:1: the label 5 is outside the set: 0, 1"):
        rows(tmp_path, "super_glue_multirc_v102")


def test_files_are_found_in_the_folder_that_the_hub_calls_plain_text(tmp_path):
    row = {
        "id": "1",
        "title": "T",
        "context": "Bob",
        "question": "Q",
        "answers": {"text": ["Bob"], "answer_start": [0]},
    }
    (tmp_path / "squad/plain_text").mkdir(parents=True)
    file = tmp_path / "squad/plain_text/validation-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), file)
    assert rows(tmp_path, "squad_v010_allanswers") == 1
