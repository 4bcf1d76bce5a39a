import gzip
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t5x_like.corpora.pages.file_kinds import KINDS
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.pages.reading_log import ReadLog

SKIP = PageReaderConfig(on_corruption="skip")
ROWS = [
    {
        "url": "http://a.org/1",
        "text": "One.\nTwo — ß.",
        "timestamp": "2019-04-18T10:00:00Z",
        "language": "en",
    },
    {"url": "http://a.org/2", "text": "Three.", "timestamp": None, "language": None},
]
EXPECTED = [
    ("http://a.org/1", "One.\nTwo — ß.", "2019-04-18T10:00:00Z", "en"),
    ("http://a.org/2", "Three.", "", None),
]


def jsonl(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def read(path: Path, content: bytes, reading: PageReaderConfig = SKIP):
    path.write_bytes(content)
    log = ReadLog()
    return list(read_pages(path, reading, log)), log


def reasons(log: ReadLog) -> dict[str, int]:
    return {
        k.partition("-file:")[2]: n
        for k, n in log.counts.items()
        if not k.endswith("-file") and "passed" not in k
    }


PACKINGS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("packing", PACKINGS)
def test_jsonl_rows_are_pages(tmp_path: Path, packing: str) -> None:
    result, log = read(tmp_path / f"a.jsonl{packing}", PACKINGS[packing](jsonl(ROWS)), PageReaderConfig())
    assert [(page.url, page.text, page.timestamp, page.language) for _, page in result] == EXPECTED
    assert [place for place, _ in result] == [1, 2]
    assert log.counts["split-jsonl-file:passed"] == 2


def test_parquet_rows_are_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [row | {"other": 5} for row in ROWS]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    pages = list(read_pages(path))
    assert [(page.url, page.text, page.timestamp, page.language) for _, page in pages] == EXPECTED


def test_fields_may_have_other_names_and_a_missing_url_gets_a_placeholder(tmp_path: Path) -> None:
    reading = PageReaderConfig(
        text_field="body", url_field="href", timestamp_field="when", language_field="lang"
    )
    row = {"body": "One.", "when": "2020", "lang": "de", "url": "not this"}
    result, _ = read(tmp_path / "a.jsonl", jsonl([row]), reading)
    assert result[0].page._replace(url="") == ("", "One.", "2020", "", "", "de")
    assert result[0].page.url == f"{tmp_path}/a.jsonl#1"


def test_plain_text_has_one_document_in_each_file_or_line(tmp_path: Path) -> None:
    content = "\ufeffOne.\nTwo.\n\nThree.".encode()
    result, _ = read(tmp_path / "a.txt", content, PageReaderConfig())
    assert [(place, page.text) for place, page in result] == [(1, "One.\nTwo.\n\nThree.")]
    result, log = read(tmp_path / "a.txt.gz", gzip.compress(content), PageReaderConfig(kind="lines"))
    assert [(place, page.text) for place, page in result] == [(1, "One."), (2, "Two."), (4, "Three.")] or log
    assert len({page.url for _, page in result}) == 3


def test_html_files_are_pages_in_their_declared_encoding(tmp_path: Path) -> None:
    for token_id, encoding in enumerate(["utf-8", "utf-16", "cp1251"]):
        page = f'<html><head><meta charset="{encoding}"></head><body><p>Привет, мир.<p>Two.</body></html>'
        result, log = read(tmp_path / f"{token_id}.html", page.encode(encoding), PageReaderConfig())
        assert [page.text for _, page in result] == ["Привет, мир.\n\nTwo."]
        assert result[0].page.url == f"{tmp_path}/{token_id}.html#1"
    _, log = read(tmp_path / "b.html", "<p>\ufffd is its own".encode(), PageReaderConfig())
    assert reasons(log) == {}
    _, log = read(tmp_path / "b.html", b"\xef\xbb\xbf<p>\xff is not", PageReaderConfig())
    assert reasons(log) == {"replaced_characters": 1, "noticed:invalid_characters": 1}
    result, log = read(tmp_path / "a.htm", b"<script>only()</script>", PageReaderConfig())
    assert (result, reasons(log)) == ([], {"filtered:no_content": 1})


WET = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: u\r\nWARC-Date: 5\r\n\r\ntext\r\n\r\n"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("x.warc.gz", gzip.compress(WET), "wet"),
        ("x", WET, "wet"),
        ("x.data", jsonl(ROWS), "jsonl"),
        ("x.jsonl.gz", jsonl(ROWS), "jsonl"),  # decompressed on the way, as by browsers
        ("x.json", gzip.compress(jsonl(ROWS)), "jsonl"),
        ("x.WET.GZ", gzip.compress(WET), "wet"),
    ],
)
def test_the_kind_is_detected_from_name_and_first_bytes(
    tmp_path: Path, name: str, content: bytes, kind: str
) -> None:
    result, log = read(tmp_path / name, content, PageReaderConfig())
    assert result
    assert log.counts[f"split-{kind}-file:passed"] == len(result)


WRONG = {
    "a.jsonl": (b"PAR1" + bytes(20), "a parquet file, not jsonl"),
    "b.jsonl": (WET, "a WET or WARC file, not jsonl"),
    "c.parquet": (jsonl(ROWS), "not a parquet file: those begin with PAR1"),
    "d.wet.gz": (jsonl(ROWS), "not a WET file: those begin with WARC/1.0"),
    "e.warc": (b"\x89PNG\r\n", "not a WARC file"),
    "f.bin": (b"\x89PNG\r\n", "neither its name nor its content says what it is; give kind"),
    "g.txt.gz": (b"text", "neither gzip nor zstd, as its name says"),
    "h.jsonl": (
        "{}".encode("utf-16"),
        "UTF-16 text, as its byte-order mark says; UTF-8 is needed: iconv -f UTF-16",
    ),
    "i.txt": ("x".encode("utf-32"), "UTF-32 text"),
    "j.wet": (b"", "the file is empty (0 bytes)"),
    "k.parquet": (b"", "the file is empty (0 bytes)"),
    "l.jsonl.gz": (gzip.compress(jsonl(ROWS))[:12], "the gzip member at compressed byte 0 is cut short"),
    "m.wet": (b"WARC/1.1x\nhello\n", "no line 'WARC/1.1' begins a record"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_not_what_it_should_be_is_named(tmp_path: Path, name: str) -> None:
    content, reason = WRONG[name]
    result, log = read(tmp_path / name, content)
    assert result == []
    assert log.num_damaged == 1, log
    assert reason in str(log)
    with pytest.raises(ValueError, match="Correct the file, or set on_corruption='skip'") as error:
        read(tmp_path / name, content, PageReaderConfig())
    assert str(error.value).startswith(str(tmp_path / name))
    assert not re.search(r"[.?!]\. Correct", str(error.value))
    assert reason in str(error.value)


def test_a_shard_of_no_pages_is_no_damage(tmp_path: Path) -> None:
    result, log = read(tmp_path / "a.jsonl.zst", zstandard.compress(b""), PageReaderConfig())
    assert result == []
    assert reasons(log) == {"noticed:no_content": 1}


BAD_LINES = {
    b"not json": ("not_json", "invalid JSON: Expecting value at column 1"),
    b"[1]": ("not_json", "an object {…} is expected, found list"),
    b"[" * 100_000: ("not_json", "JSON that can't be read"),
    b'{"a": ' + b"9" * 5000 + b"}": ("not_json", "JSON that can't be read"),
    b'{"body": "x"}': ("no_text", "no field 'text'; there are body; name it by text_field"),
    b'{"text": null}': ("no_text", "no field 'text'"),
    b'{"text": 5}': ("not_text", "'text' should be text, not int"),
    b'{"text": "x", "url": []}': ("not_text", "'url' should be text, not list"),
    b'{"text": "\\ud800"}': ("lone_surrogate", "half a character"),
    b'{"text": "\xff"}': ("invalid_utf8", "invalid UTF-8 at byte 10 of the line"),
    b'{"text": "a\0b"}': ("not_json", "Invalid control character"),
    b'{"text": "cut': ("not_json", "invalid JSON: Unterminated string"),
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_reported_or_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    kind, reason = BAD_LINES[line]
    content = jsonl(ROWS[:1]) + line + b"\r\n\n" + jsonl(ROWS[1:])
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: ") as error:
        read(tmp_path / "a.jsonl", content, PageReaderConfig())
    assert reason in str(error.value)
    result, log = read(tmp_path / "a.jsonl", content)
    assert [place for place, _ in result if place != 2] == [1, 4]
    assert log.counts[f"split-jsonl-file:damaged:{kind}"] == 1
    if kind == "invalid_utf8":
        assert result[1].page.text == "\ufffd"
        assert log.counts["split-jsonl-file:replaced_characters"] == 1


def test_parquet_without_the_column_and_damaged_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"body": ["x"], "n": [1]}), path)
    with pytest.raises(
        ValueError, match=r"a\.parquet: no column 'text'; the columns are body, n; name it by text_f"
    ):
        list(read_pages(path))
    with pytest.raises(ValueError, match=r"row 1: 'n' should be text, not int"):
        list(read_pages(path, PageReaderConfig(text_field="n")))
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="not a parquet file that can be read"):
        read(path, whole[:-9], PageReaderConfig())
    result, log = read(path, b"PAR1" + bytes(50) + b"PAR1")
    assert (result, log.num_damaged) == ([], 1)


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_decompression_bombs_stop_early(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"a.jsonl{packing}"
    head = PACKINGS[packing](jsonl(ROWS))
    result, log = read(
        path,
        head + PACKINGS[packing](b" " * 80_000_000),
        PageReaderConfig(on_corruption="skip", max_ratio=100),
    )
    assert len(result) == 2
    assert "decompresses to more than 100 times its size (max_ratio): a decompression bomb?" in str(
        log.examples
    )
    result, log = read(
        path,
        head + PACKINGS[packing](b"\n" * 10_000_000),
        PageReaderConfig(on_corruption="skip", max_file_bytes=10**6),
    )
    assert len(result) == 2
    assert "decompresses to more than 1,000,000 bytes (max_file_bytes)" in str(log)


LONG = """
import sys
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.pages.reading_log import ReadLog
log = ReadLog()
found = list(read_pages(sys.argv[1], PageReaderConfig(on_corruption="skip"), log))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(len(found), *log.counts, peak)
"""
STARTS = {
    "a.wet": WET + WET,
    "a.jsonl": jsonl(ROWS),
    "a.jsonl.zst": jsonl(ROWS),
    "a.txt": b"x",
    "a.warc": WET.replace(b"conversion", b"response") + b"WARC/1.0\n",
}


def check_that_a_long_line_takes_little_memory(path: Path, size: int) -> None:
    if path.suffix == ".zst":
        with path.open("wb") as stream, zstandard.ZstdCompressor().stream_writer(stream) as packer:
            packer.write(STARTS[path.name])
            for _ in range(size // 2**22):
                packer.write(b"y" * 2**22)
    else:
        path.write_bytes(STARTS[path.name])
        with path.open("r+b") as stream:  # a sparse file of NUL bytes
            stream.truncate(size)
    run = subprocess.run([sys.executable, "-c", LONG, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "damaged:" in run.stdout
    assert int(run.stdout.split()[0]) == (
        0 if path.name in ("a.txt", "a.warc") else 1 if path.name == "a.wet" else 2
    )
    assert int(run.stdout.split()[-1]) < 200 * 2**10, run.stdout


NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="/proc shows the memory in use"
)


@NEEDS_PROC
@pytest.mark.parametrize("name", STARTS)
def test_a_line_without_end_takes_little_memory(tmp_path: Path, name: str) -> None:
    check_that_a_long_line_takes_little_memory(tmp_path / name, 2**28)


@NEEDS_PROC
@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_a_line_of_a_gigabyte_takes_little_memory(tmp_path: Path, name: str) -> None:
    check_that_a_long_line_takes_little_memory(tmp_path / name, 2**30)


def test_a_page_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    result, log = read(
        tmp_path / "a.wet.gz",
        gzip.compress(WET.replace(b"text\r", b"x" * 10_000_000 + b"\r"), 1),
        PageReaderConfig(),
    )
    assert len(result[0].page.text) == 10_000_000
    assert not log.num_damaged


@pytest.mark.parametrize(
    "ending", [".wet", ".wet.gz", ".warc", ".jsonl", ".jsonl.zst", ".jsonl.gz", ".txt", ".parquet", ""]
)
@given(
    content=st.one_of(st.binary(max_size=300), st.binary(max_size=200).map(lambda b: b"PAR1" + b + b"PAR1"))
)
@example(content=b"WARC/1.0\r\nContent-Length: 9\r\n\r\n")
@example(content=b"\x1f\x8b\x08")
@example(content=b"\x28\xb5\x2f\xfd")
@settings(max_examples=60, deadline=None)
def test_random_bytes_raise_nothing_but_value_errors(tmp_path_factory, ending: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"random{ending}"
    for packed in (content, gzip.compress(content), gzip.compress(WET + content)[:-5] + content):
        path.write_bytes(packed)
        list(read_pages(path, SKIP))
        try:
            list(read_pages(path, PageReaderConfig()))
        except ValueError as error:
            message = str(error)
            assert message.startswith(str(path)), message


@given(
    st.binary(max_size=400),
    st.sampled_from([kind for kind in KINDS if kind != "parquet"]),
    st.integers(1, 60),
)
@settings(max_examples=60, deadline=None)
def test_damage_to_a_file_raises_nothing_but_value_errors(
    tmp_path_factory, noise: bytes, kind, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    whole = bytearray(WET * 3 + jsonl(ROWS))
    whole[at : at + len(noise) // 9] = noise
    path.write_bytes(bytes(whole))
    list(read_pages(path, PageReaderConfig(kind=kind, on_corruption="skip")))


def test_logs_add_up_and_can_be_sent_to_another_process(tmp_path: Path) -> None:
    logs = [read(tmp_path / f"{n}.jsonl", b"bad\n" * 4 + jsonl(ROWS))[1] for n in range(3)]
    total = pickle.loads(pickle.dumps(logs[0]))
    for log in logs[1:]:
        total.merge(log)
    assert total.counts["split-jsonl-file:damaged:not_json"] == 12
    assert len(total.examples["split-jsonl-file:damaged:not_json"]) == 5
    assert str(total).startswith(
        f"6 pages read, damage met 12 times (first: {tmp_path}/0.jsonl, line 1: invalid JSON"
    )


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no file; name one, or a pattern"):
        list(read_pages(tmp_path))
    for wrong in ({"kind": "zip"}, {"on_corruption": "warn"}, {"max_page_bytes": 0}, {"max_ratio": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            PageReaderConfig(**wrong)  # pyright: ignore[reportArgumentType]
