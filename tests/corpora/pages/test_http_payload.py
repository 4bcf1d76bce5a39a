"""Bodies of HTTP responses as servers send them and crawlers keep them; right values are those of browsers or curl."""

import gzip
import zlib

import brotli
import pyarrow
import pytest

from t5x_like.corpora.pages.http_payload import parse_response

TEXT = b"<p>Hello there, this is a page.</p>"
RAW = zlib.compress(TEXT, wbits=-15)


def body(headers: str, content: bytes) -> bytes:
    message = f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + content
    return parse_response(message, max_bytes=10**6).body


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "name", ["UTF-8", "none", "binary", "8bit", "deflate", "br", "zstd", "gzip", "x-gzip"]
)
def test_a_body_that_is_not_encoded_stays_as_it_is_whatever_the_header_says(name: str) -> None:
    assert body(f"Content-Encoding: {name}", TEXT) == TEXT


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "GZIP", "deflate"])
def test_all_members_of_a_gzip_body_are_read(name: str) -> None:
    members = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(TEXT)
    assert body(f"Content-Encoding: {name}", members) == TEXT + TEXT
    assert body(f"Content-Encoding: {name}", members + bytes(8)) == TEXT + TEXT
    with pytest.raises(ValueError, match="more than the 40 bytes of max_page_bytes"):
        parse_response(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + members, max_bytes=40)


PACKERS = {"br": brotli.compress, "zstd": lambda text: pyarrow.compress(text, codec="zstd", asbytes=True)}


@pytest.mark.parametrize("name", [*PACKERS])
def test_a_truncated_body_is_decoded_as_far_as_it_goes(name: str) -> None:
    text = " ".join(map(str, range(90_000))).encode()
    content = PACKERS[name](text)
    half = body(f"Content-Encoding: {name}", content[:-3])
    assert text.startswith(half)
    assert len(half) > len(text) // 2
    damaged = bytes(each ^ 0x5A for each in content[:8]) + content[8:]
    with pytest.raises(ValueError, match=rf"the body's {name} is corrupt"):
        body(f"Content-Encoding: {name}", damaged)
    with pytest.raises(ValueError, match=rf"the body's {name} is corrupt"):
        body(f"Content-Encoding: {name}", content[:20])


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", gzip.compress(gzip.compress(TEXT))),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", gzip.compress(TEXT)),
        ("Content-Encoding:\r\n gzip", gzip.compress(TEXT)),
        ("Content-Encoding: x-deflate", zlib.compress(TEXT)),
        ("Content-Encoding: deflate", RAW),
        ("Transfer-Encoding: gzip, chunked", chunked(gzip.compress(TEXT))),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", chunked(gzip.compress(TEXT))),
        ("X-Title: \u00c5content-encoding: rot13", TEXT),
    ],
)
def test_encodings_are_found_however_headers_list_them(headers: str, content: bytes) -> None:
    assert body(headers, content) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        b"Add\nmore text follows.\n",
        b"Feature list\nOne, two.\n",
        b"2019 report\nText.\n",
        b"Dear A,\nhello.\n",
    ],
)
def test_the_first_line_of_a_joined_body_is_no_size_of_a_chunk(text: bytes) -> None:
    assert body("Transfer-Encoding: chunked", text) == text
    assert body("Transfer-Encoding: chunked", chunked(text)) == text


def test_chunks_may_have_extensions_or_none_or_be_cut() -> None:
    assert body("Transfer-Encoding: chunked", b"3;x=1\r\nabc\r\n2 \r\nde\r\n0\r\nA: b\r\n\r\n") == b"abcde"
    assert body("Transfer-Encoding: chunked", b"0\r\n\r\n") == b""
    assert body("Transfer-Encoding: chunked", b"ff\r\nabc") == b"abc"
