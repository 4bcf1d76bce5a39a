import contextlib
import gzip
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.corpora.pages.html_text import Extractor, Html
from t5x_like.corpora.pages.http_payload import parse_response
from t5x_like.corpora.pages.page_encoding import decode_body
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.pages.reading_log import ReadLog

SKIP = PageReaderConfig(on_corruption="skip")
HTML = b"<html><head><title>T</title></head><body><nav>Menu</nav><h1>Head</h1><p>One &amp; two.<p>Three.</body></html>"
TEXT = "Menu\n\nHead\n\nOne & two.\n\nThree."


def response(url: str, body: bytes, *, type="text/html", headers="", status=200, length=None) -> bytes:
    http = f"HTTP/1.1 {status} OK\r\nContent-Type: {type}\r\n{headers}\r\n".encode() + body
    return record("response", url, http, length)


def record(type: str, url: str, content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    head = f"WARC/1.0\r\nWARC-Type: {type}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + content + b"\r\n\r\n"


def read(path: Path, content: bytes, reading: PageReaderConfig = SKIP):
    path.write_bytes(content)
    log = ReadLog()
    return [page for _, page in read_pages(path, reading, log)], log


def counts(log: ReadLog) -> dict[str, int]:
    return {key.removeprefix("split-warc-file:"): count for key, count in log.counts.items()}


@pytest.mark.parametrize(
    "other",
    [
        record("response", "dns:a.org", b"20200101000000\na.org. 300 IN A 192.0.2.1\n"),
        record("response", "ftp://a.org/file", b"any bytes"),
        record("response", "http://a.org/x", b"a.org. 300 IN A 192.0.2.1").replace(
            b"Content-Length", b"Content-Type: text/dns\r\nContent-Length"
        ),
    ],
)
def test_responses_of_other_protocols_are_no_damage(tmp_path: Path, other: bytes) -> None:
    """Heritrix, the crawler of the Internet Archive, writes a record of each name that it looks up."""
    result, log = read(tmp_path / "a.warc", other + response("http://a.org/", HTML), PageReaderConfig())
    assert [page.text for page in result] == [TEXT]
    assert counts(log)["filtered:no_http"] == 1


def test_a_page_without_http_is_damage(tmp_path: Path) -> None:
    result, log = read(tmp_path / "a.warc", record("response", "http://a.org/x", HTML))
    assert not result
    assert counts(log)["damaged:http"] == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text/html, text/html; charset=windows-1251", "Привет"),
        ("text/html; charset=windows-1251, text/html", "Привет"),
        ("text/html\r\nContent-Type: text/html; charset=windows-1251", "Привет"),
        ("text/html; charset=windows-1251\r\nContent-Type: text/html", "Привет"),
        ("application/json, text/html; charset=windows-1251", "Привет"),
        ("TEXT/HTML ;Charset='WINDOWS-1251', */*", "Привет"),
        ("text/html; charset=windows-1251, application/json", None),
    ],
)
def test_the_last_of_several_content_types_counts(tmp_path: Path, kind: str, text: str | None) -> None:
    page = response("http://a.org/", "<p>Привет".encode("cp1251"), type=kind)
    result, _ = read(tmp_path / "a.warc", page)
    assert [each.text for each in result] == ([] if text is None else [text])


def test_responses_of_html_and_plain_text_are_pages(tmp_path: Path) -> None:
    content = (
        record("warcinfo", "", b"software: x\r\n")
        + record("request", "http://a.org/", b"GET / HTTP/1.1\r\n\r\n")
        + response("<http://a.org/>", HTML)
        + response("http://a.org/b", b"Plain text.", type="text/plain; charset=us-ascii")
        + response("http://a.org/c", b"%PDF", type="application/pdf")
        + response("http://a.org/d", HTML, status=404)
    )
    result, log = read(
        tmp_path / "a.warc.gz",
        b"".join(gzip.compress(content[at : at + 99]) for at in range(0, len(content), 99)),
    )
    assert [(page.url, page.text, page.timestamp, page.language) for page in result] == [
        ("http://a.org/", TEXT, "2020-01-01T00:00:00Z", None),
        ("http://a.org/b", "Plain text.", "2020-01-01T00:00:00Z", None),
    ]
    expected = {"passed": 2, "filtered:no_response": 2, "filtered:content_type": 1, "filtered:http_status": 1}
    assert counts(log) == expected | {"warc-file": 1}


def test_the_main_content_can_be_selected(tmp_path: Path) -> None:
    result, _ = read(tmp_path / "a.warc", response("u", HTML), PageReaderConfig(html=Html(main_content=True)))
    assert "Menu" not in result[0].text
    assert "Three." in result[0].text


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("ß é".encode(), "utf-8", "ß é"),
        ("ß é".encode("latin-1"), "iso-8859-1", "ß é"),
        ("ß é".encode("latin-1"), "utf-8", "ß é"),  # declared otherwise than it is
        ("日本語です".encode("shift_jis"), "Shift_JIS", "日本語です"),
        ("﻿ß".encode("utf-16"), None, "\ufeffß"),
        ("ß é".encode(), "no-such-charset", "ß é"),
        (b'<meta charset="windows-1251">' + "Привет, мир".encode("cp1251"), None, None),
        (b"a \x81\x8d\xff b", "ascii", None),
    ],
)
def test_the_encoding_is_the_declared_one_or_one_that_fits(
    body: bytes, charset: str | None, text: str | None
) -> None:
    result = decode_body(body, charset)[0]
    assert result == text if text is not None else result
    if b"meta" in body:
        assert "Привет, мир" in result


def test_bodies_are_joined_and_decoded(tmp_path: Path) -> None:
    chunked = b"4\r\n<p>O\r\n6;x=y\r\nne two\r\n0\r\n\r\n"
    bodies = {
        "Transfer-Encoding: chunked\r\n": chunked,
        "Content-Encoding: gzip\r\n": gzip.compress(b"<p>One two"),
        "Content-Encoding: deflate\r\n": zlib.compress(b"<p>One two"),
        "content-encoding: Deflate\r\nX: y\r\n": zlib.compress(b"<p>One two")[2:-4],
        "Content-Encoding: zstd\r\n": zstandard.compress(b"<p>One two"),
        "Content-Encoding: gzip\r\nA: b\r\n": b"<p>One two",  # decoded by the crawler
        "Transfer-Encoding: chunked\r\nA: b\r\n": b"<p>One two",
    }
    content = b"".join(response("u", body, headers=head) for head, body in bodies.items())
    result, log = read(tmp_path / "a.warc", content)
    assert [page.text for page in result] == ["One two"] * len(bodies), str(log)


@pytest.mark.parametrize("packing", ["gzip", "deflate", "zstd"])
def test_a_body_that_decompresses_to_too_much_is_left_out(tmp_path: Path, packing: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[packing]
    bomb = response("u0", pack(bytes(30_000_000)), headers=f"Content-Encoding: {packing}\r\n")
    result, log = read(tmp_path / "a.warc", bomb + response("u1", HTML))
    assert [page.url for page in result] == ["u1"]
    assert "the body decompresses to more than the 16,777,216 bytes of max_page_bytes" in str(log)


def test_a_body_with_an_unknown_encoding_or_none_is_reported(tmp_path: Path) -> None:
    content = response("u", b"\1", headers="Content-Encoding: rot13\r\n") + record(
        "response", "u", b"no http"
    )
    result, log = read(
        tmp_path / "a.warc", content + response("u", b"\x1f\x8bx", headers="Content-Encoding: gzip\r\n")
    )
    assert result == []
    assert counts(log)["damaged:http"] == 3


@pytest.mark.parametrize("length", [5, 300, 5000])
def test_a_wrong_content_length_loses_only_its_own_page(tmp_path: Path, length: int) -> None:
    wrong = response("u1", HTML, length=length)
    content = response("u0", HTML) + wrong + response("u2", HTML) + response("u3", HTML)
    result, log = read(tmp_path / "a.warc", content)
    assert [page.url for page in result] == ["u0", "u2", "u3"]
    assert counts(log)["damaged:content_length"] == 1
    place = content.index(b"WARC/1.0", 9)
    with pytest.raises(
        ValueError, match=rf"a\.warc, record at byte {place}: Content-Length says {length}, but"
    ):
        read(tmp_path / "a.warc", content, PageReaderConfig())


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        (b"\n\n", 0),
        (b"\r\n", 0),
        (b"", 0),
        (b"\r\n" * 4, 0),
        (b"\r\n\r\n\0", 0),  # one byte too many, from some crawlers
        (b"\r\n\r\n", 1),  # versions of wget count one byte too many
        (b"\r\n\r\n", 2),
        (b"\r\n\r\n", 4),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_records_end_as_writers_end_them(tmp_path: Path, end: bytes, wrong: int, packed: bool) -> None:
    body = gzip.compress(b"<p>One two") if packed else b"<p>One two"
    headers = "Content-Encoding: gzip\r\n" if packed else ""
    one = response("u0", body, headers=headers)
    size = len(one.removesuffix(b"\r\n\r\n").partition(b"\r\n\r\n")[2])
    one = response("u0", body, headers=headers, length=size + wrong).removesuffix(b"\r\n\r\n") + end
    result, log = read(tmp_path / "a.warc", one + response("u1", HTML) + one)
    assert [(page.url, page.text) for page in result] == [("u0", "One two"), ("u1", TEXT), ("u0", "One two")]
    assert counts(log) == {"warc-file": 1, "passed": 3}


def test_lines_of_a_header_end_and_continue_as_the_format_allows(tmp_path: Path) -> None:
    head, _, block = response("u0", HTML).partition(b"\r\n\r\n")
    unix = head.replace(b"\r\n", b"\n") + b"\n\n" + block.removesuffix(b"\r\n\r\n") + b"\n\n"
    folded = response("u1", HTML).replace(b"WARC-Target-URI: u1", b"WARC-Target-URI:\r\n  u1")
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    content = unix + folded + record("response", "u2", interim + final + HTML)
    result, log = read(tmp_path / "a.warc", content)
    assert [(page.url, page.text) for page in result] == [("u0", TEXT), ("u1", TEXT), ("u2", TEXT)]
    assert counts(log)["passed"] == 3


def test_a_truncated_file_keeps_the_records_before(tmp_path: Path) -> None:
    content = response("u0", HTML) + response("u1", HTML)
    result, log = read(tmp_path / "a.warc", content[:-99])
    assert [page.url for page in result] == ["u0"]
    assert counts(log)["damaged:truncated"] == 1
    members = gzip.compress(content[:-20]) + gzip.compress(content)[:-30]
    result, log = read(tmp_path / "a.warc.gz", members)
    assert [page.url for page in result] == ["u0"]
    assert counts(log)["damaged:content_length"] + counts(log)["damaged:truncated"] >= 1


def test_a_record_longer_than_the_limit_is_skipped(tmp_path: Path) -> None:
    content = (
        response("u0", HTML + b" " * 5000) + record("resource", "u1", b"x" * 5000) + response("u2", HTML)
    )
    result, log = read(
        tmp_path / "a.warc", content, PageReaderConfig(on_corruption="skip", max_page_bytes=1000)
    )
    assert [page.url for page in result] == ["u2"]
    assert counts(log)["damaged:too_long"] == 1
    assert counts(log)["filtered:no_response"] == 1


def test_html_nested_deeply_is_text_and_does_not_end_the_reader(tmp_path: Path) -> None:
    content = response("u0", b"<div>" * 100_000 + b"deep") + response("u1", HTML)
    result, _ = read(tmp_path / "a.warc", content, PageReaderConfig())
    assert [page.text for page in result] == ["deep", TEXT]


def test_html_that_takes_too_long_is_reported_and_the_next_page_is_read(tmp_path: Path) -> None:
    slow = b"<div " + b" ".join(b"a%d=1" % index for index in range(60_000)) + b">x"
    reading = PageReaderConfig(on_corruption="skip", html=Html(max_seconds=0.3))
    result, log = read(tmp_path / "a.warc", response("u0", slow) + response("u1", HTML), reading)
    assert [page.url for page in result] == ["u1"]
    assert "the HTML takes more than 0.3 s, or ends the parser" in str(log)


def test_the_extractors_process_ends_with_it() -> None:
    with Extractor(Html()) as extract:
        assert extract("<p>One<p>Two") == "One\n\nTwo"
        process = extract._process
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None
    with pytest.raises(ValueError, match="max_seconds must be positive"):
        Html(max_seconds=0)


@given(st.binary(max_size=200), st.sampled_from(["chunked", "gzip", "deflate", "zstd", "br", "x, y"]))
@settings(max_examples=200, deadline=None)
def test_no_response_raises_anything_but_a_value_error(body: bytes, packing: str) -> None:
    name = "transfer-encoding" if packing == "chunked" else "content-encoding"
    message = f"HTTP/1.1 200 OK\r\n{name}: {packing}\r\n\r\n".encode() + body
    with contextlib.suppress(ValueError):
        assert len(parse_response(message, max_bytes=10_000).body) <= 10_000


@given(
    st.binary(max_size=300),
    st.sampled_from([None, "utf-8", "latin-1", "utf-7", "utf-16", "hex", "rot13", "idna"]),
)
@settings(max_examples=200, deadline=None)
def test_any_bytes_decode_to_valid_text(body: bytes, charset: str | None) -> None:
    decode_body(body, charset)[0].encode()
