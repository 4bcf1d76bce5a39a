import gzip
import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.pages.reading_log import ReadLog
from tests.references import GOLDEN

GOLDEN = GOLDEN / "c4"
SKIP = PageReaderConfig(on_corruption="skip")


def record(url: str, text: bytes, length: int | None = None) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2019-04-18T10:00:00Z\r\n"
    )
    size = len(text) if length is None else length
    return f"{head}Content-Type: text/plain\r\nContent-Length: {size}\r\n\r\n".encode() + text + b"\r\n\r\n"


def read(path: Path, content: bytes, reading: PageReaderConfig = SKIP):
    path.write_bytes(content)
    log = ReadLog()
    return list(read_pages(path, reading, log)), log


def counts(log: ReadLog) -> dict[str, int]:
    return {key.removeprefix("split-wet-file:"): count for key, count in log.counts.items()}


def test_pages_and_counts_are_the_references() -> None:
    log = ReadLog()
    results = [
        page._asdict() for _, page in read_pages(GOLDEN / "sample.warc.wet.gz", PageReaderConfig(), log)
    ]
    expected = json.loads((GOLDEN / "wet_split.json").read_text())
    for page in expected:
        del page["normalized_url"]
    assert results == expected
    counters = json.loads((GOLDEN / "end_to_end.json").read_text())["configs"]["en"]["counters"]
    assert dict(log.counts) == {
        key: count for key, count in counters.items() if key.startswith("split-wet-file")
    }


HEAD = "WARC/1.0\r\nWARC-Target-URI: u1\r\nWARC-Date: 5\r\n\r\n"
# What the reference (TFDS 4.9.10, split_wet_file) made of them when run: texts by URL, and its counts.
ODD = {
    "lone carriage returns end lines": (HEAD + "a b\rc d", {"u1": "a b\nc d"}, {"passed": 1}),
    "lower-case headers are text": ("WARC/1.0\nwarc-target-uri: u\n\nx", {}, {"filtered:no_url": 1}),
    "headers need no space": ("WARC/1.0\nWARC-Target-URI:u1\nWARC-Date:5\nx", {"u1": "x"}, {"passed": 1}),
    "the last header counts": (HEAD + "a\nWARC-Target-URI: u2\nb", {"u2": "a\nb"}, {"passed": 1}),
    "header-like lines are no text": (
        HEAD + "WARCraft\nContent-ed\nCONTENT-\nContents\n WARC x\nok",
        {"u1": "Contents\nok"},
        {"passed": 1},
    ),
    "another header is text": (HEAD[:-2] + "X-Foo: y\r\n\r\nx", {"u1": "X-Foo: y\nx"}, {"passed": 1}),
    "the mark inside a text begins a page": (
        HEAD + "a\n \xa0WARC/1.0\u2028\nb\n" + HEAD.replace("u1", "u2") + "c",
        {"u1": "a", "u2": "c"},
        {"passed": 2, "filtered:no_url": 1},
    ),
    "more on the mark's line begins none": (HEAD + "a\nWARC/1.0x\nb", {"u1": "a\nb"}, {"passed": 1}),
    "a mark at the very end is a page": (
        HEAD + "a\nWARC/1.0",
        {"u1": "a"},
        {"passed": 1, "filtered:no_url": 1},
    ),
    "lines before the first mark are a page": (
        "\n\n" + HEAD + "a",
        {"u1": "a"},
        {"passed": 1, "filtered:no_url": 1},
    ),
    "NUL bytes are kept": (HEAD + "a\0b\n\0", {"u1": "a\0b\n\0"}, {"passed": 1}),
    "all missing counts once": ("WARC/1.0\nWARC-Type: x\n", {}, {"filtered:no_url": 1}),
    "no date": ("WARC/1.0\nWARC-Target-URI: u\nWARC-Date:\n\nx", {}, {"filtered:no_timestamp": 1}),
    "no text": ("WARC/1.0\nWARC-Target-URI: u\n\n \xa0\n", {}, {"filtered:no_content": 1}),
    "brackets stay": (HEAD.replace("u1", "<u>") + "x", {"<u>": "x"}, {"passed": 1}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_records_are_split_as_the_reference_splits_them(tmp_path: Path, name: str) -> None:
    content, texts, expected = ODD[name]
    result, log = read(tmp_path / "a.wet", content.encode())
    assert {page.url: page.text for _, page in result} == texts
    assert {k: v for k, v in counts(log).items() if not k.startswith("noticed")} == expected | {"wet-file": 1}


TWO = record("u1", b"First text.") + record("u2", "Second text, \xfc.".encode())


@given(st.lists(st.integers(0, len(TWO)), max_size=6), st.booleans())
@settings(max_examples=50, deadline=None)
def test_any_split_into_gzip_members_reads_the_same(tmp_path_factory, cuts, padded) -> None:
    path = tmp_path_factory.mktemp("wet") / "a.wet.gz"
    edges = [0, *sorted(cuts), len(TWO)]
    members = [gzip.compress(TWO[a:b]) for a, b in itertools.pairwise(edges)]
    result, log = read(path, b"".join(members) + bytes(9 * padded), PageReaderConfig())
    assert [(place, page.url, page.text) for place, page in result] == [
        (0, "u1", "First text."),
        (TWO.index(b"WARC/1.0", 1), "u2", "Second text, ü."),
    ]
    assert not log.num_damaged


def bodies(result) -> list[str]:
    return [page.url for _, page in result]


@pytest.mark.parametrize("length", [3, 500, 10**30])
def test_a_wrong_content_length_is_reported_and_the_page_is_read_as_by_the_reference(
    tmp_path: Path, length: int
) -> None:
    content = record("u0", b"zero") + record("u1", b"one two", length) + record("u2", b"three")
    result, log = read(tmp_path / "a.wet", content)
    assert [page.text for _, page in result] == ["zero", "one two", "three"]
    assert counts(log)["damaged:content_length"] == 1
    place = content.index(b"WARC/1.0", 9)
    with pytest.raises(ValueError, match=rf"a\.wet, record at byte {place}: Content-Length says {length}"):
        read(tmp_path / "a.wet", content, PageReaderConfig())


def test_records_before_the_end_of_a_truncated_member_are_kept(tmp_path: Path) -> None:
    noise = "".join(random.Random(0).choices("abcdefgh ", k=60_000)).encode()
    whole = gzip.compress(record("u1", noise) + record("u2", noise))
    cut = whole[: int(len(whole) * 0.8)]
    result, log = read(tmp_path / "a.wet.gz", cut)
    assert bodies(result) == ["u1"]
    assert counts(log)["damaged:truncated"] == 1
    pages = read_pages(tmp_path / "a.wet.gz", PageReaderConfig())
    assert next(pages).page.url == "u1"
    message = r"a\.wet\.gz, record at byte \d+: the gzip member at compressed byte 0 is cut short\. Correct the file"
    with pytest.raises(ValueError, match=message):
        next(pages)


def test_reading_continues_after_a_damaged_member(tmp_path: Path) -> None:
    members = [gzip.compress(record(f"u{index}", b"text " * 50)) for index in range(4)]
    broken = bytearray(members[1])
    broken[-6] ^= 255  # its checksum
    result, log = read(tmp_path / "a.wet.gz", members[0] + bytes(broken) + b"garbage" + b"".join(members[2:]))
    assert bodies(result) == ["u0", "u2", "u3"]
    assert counts(log)["damaged:corrupt"] == 1
    result, log = read(tmp_path / "a.wet.gz", members[0] + b"<html>" + members[1])
    assert bodies(result) == ["u0", "u1"]
    assert "what follows the gzip member that ends at compressed byte" in str(log)
    assert counts(log)["damaged:garbage"] == 1


def test_invalid_utf8_is_reported_or_replaced_and_counted(tmp_path: Path) -> None:
    content = record("u1", b"\xe9t\xe9 x") + record("u2", b"fine")
    with pytest.raises(ValueError, match=r"record at byte 0: invalid UTF-8 at byte \d+ of the record"):
        read(tmp_path / "a.wet", content, PageReaderConfig())
    result, log = read(tmp_path / "a.wet", content)
    assert [page.text for _, page in result] == ["\ufffdt\ufffd x", "fine"]
    assert (counts(log)["damaged:invalid_utf8"], counts(log)["replaced_characters"]) == (1, 2)


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    result, _ = read(tmp_path / "a.wet", b"\xef\xbb\xbf" + TWO, PageReaderConfig())
    assert bodies(result) == ["u1", "u2"]


def test_records_longer_than_the_limit_are_skipped(tmp_path: Path) -> None:
    long = record("u1", b"x" * 3_000_000) + record("u2", b"y\n" * 1_000_000)
    content = record("u0", b"before") + long + record("u3", b"after")
    result, log = read(
        tmp_path / "a.wet.gz",
        gzip.compress(content),
        PageReaderConfig(on_corruption="skip", max_page_bytes=10**6),
    )
    assert bodies(result) == ["u0", "u3"]
    assert counts(log)["damaged:too_long"] == 2
    with pytest.raises(ValueError, match="longer than the 1,000,000 bytes of max_page_bytes"):
        read(tmp_path / "a.wet", content, PageReaderConfig(max_page_bytes=10**6))


def test_a_version_of_the_format_that_a_file_begins_with_begins_its_records(tmp_path: Path) -> None:
    result, _ = read(tmp_path / "a.wet", TWO.replace(b"WARC/1.0", b"WARC/1.1"), PageReaderConfig())
    assert bodies(result) == ["u1", "u2"]


@pytest.mark.slow
@pytest.mark.seqio
def test_random_lines_are_split_as_the_reference_splits_them(tmp_path: Path) -> None:
    import collections

    from tensorflow_datasets.text import c4_utils

    chooser = random.Random(0)
    parts = [
        *"\n\r \t\0",
        "WARC/1.0",
        "WARC/1.0\r\n",
        "\nWARC/1.0\n",
        "\r\n\r\n",
        "\xa0",
        "\u2028",
        "\x85",
        "text",
    ]
    parts += [
        "WARC-Target-URI: u\r\n",
        "WARC-Date: 2019\n",
        "Content-Type: x\n",
        "CONTENT-",
        "Content-",
        "é",
        "WARC",
    ]
    path = tmp_path / "a.wet.gz"
    for _ in range(2000):
        content = "WARC/1.0\n" + "".join(chooser.choices(parts, k=chooser.randint(0, 60)))
        path.write_bytes(gzip.compress(content.encode()))
        counters = collections.Counter()
        expected = [
            (page.url, page.text, page.timestamp, page.content_type)
            for page in c4_utils.split_wet_file(str(path), lambda key: counters.update([key]))  # noqa: B023
        ]
        log = ReadLog()
        results = [
            page for _, page in read_pages(path, PageReaderConfig(kind="wet", on_corruption="skip"), log)
        ]
        assert [(page.url, page.text, page.timestamp, page.content_type) for page in results] == expected
        actual = {k: v for k, v in counts(log).items() if not k.startswith(("damaged", "noticed"))}
        assert actual == dict(counters)
