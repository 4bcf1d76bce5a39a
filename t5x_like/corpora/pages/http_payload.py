"""HTTP responses in WARC records: status, headers and decoded body.

RFC 9112 (https://www.rfc-editor.org/rfc/rfc9112) defines messages and chunks, RFC 9110 content encodings.
"""

import io
import re
import zlib
from typing import Any, NamedTuple

from t5x_like.io.decompression import missing_library

_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})\b")
_END = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"(?:\r?\n)?[ \t]*([0-9A-Fa-f]{1,16})[^\n]{0,1000}\n")
_AT_ONCE = 64 * 2**10


class Response(NamedTuple):
    """A decoded HTTP response.

    Attributes:
      status: Status code.
      headers: Values by lower-case name; the last value of a repeated header.
      body: Content, decoded.
    """

    status: int
    headers: dict[str, str]
    body: bytes


def parse_response(message: bytes, *, max_bytes: int) -> Response:
    """Parse a response.

    Args:
      message: Headers and body.
      max_bytes: Largest size of the decoded body.

    Raises:
      ValueError: Not HTTP, a body that is too long, or one that can't be decoded.
    """
    status = _STATUS.match(message)
    if status is None:
        raise ValueError("the record holds no HTTP response")
    end = _END.search(message)
    head, body = (message[: end.start()], message[end.end() :]) if end else (message, b"")
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines()[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    for encoding in reversed(headers.get("content-encoding", "").lower().split(",")):
        body = _decoded(body, encoding.strip(), max_bytes)
    return Response(int(status[1]), headers, body)


def _joined(body: bytes) -> bytes:
    """Join a chunked body. A body without chunks stays as it is: many crawlers join them and keep the header."""
    parts, at = [], 0
    while (size := _CHUNK.match(body, at)) is not None and int(size[1], 16):
        parts.append(body[size.end() : size.end() + int(size[1], 16)])
        at = size.end() + int(size[1], 16)
        if at > len(body):
            break
    return b"".join(parts) if parts or at else body


def _decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """Decode a body. A body that isn't encoded stays as it is: crawlers often decode bodies and keep the header."""
    if encoding in ("", "identity", "none"):
        return body
    try:
        if encoding in ("gzip", "x-gzip"):
            return _bounded(zlib.decompressobj(31), body, limit) if body[:2] == b"\x1f\x8b" else body
        if encoding == "deflate":
            wrapped = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
            return _bounded(zlib.decompressobj(15 if wrapped else -15), body, limit)
    except zlib.error as error:
        raise ValueError(f"the body's {encoding} is corrupt ({error})") from None
    if encoding in ("br", "zstd"):
        return _by_reader(body, encoding, limit)
    raise ValueError(f"the content encoding {encoding[:40]!r} of the body is not known")


def _bounded(decompressor: Any, body: bytes, limit: int) -> bytes:
    """Decompress as much of the body as there is: crawlers truncate long bodies."""
    out = decompressor.decompress(body, limit + 1)
    if not out and not decompressor.eof:
        raise ValueError("the body is compressed and truncated before its first byte")
    if len(out) > limit:
        raise ValueError(f"the body decompresses to more than the {limit:,} bytes of max_page_bytes")
    return out


def _by_reader(body: bytes, encoding: str, limit: int) -> bytes:
    try:
        from fastwarc import stream_io
    except ImportError as error:
        raise missing_library(f"fastwarc (for bodies with content encoding {encoding})", error) from error
    reader: Any = (stream_io.BrotliReader if encoding == "br" else stream_io.ZstdReader)(io.BytesIO(body))
    parts, size = [], 0
    try:
        while size <= limit and (part := reader.read(_AT_ONCE)):
            parts.append(part)
            size += len(part)
    except Exception as error:
        raise ValueError(f"the body's {encoding} is corrupt ({error})") from None
    if size > limit:
        raise ValueError(f"the body decompresses to more than the {limit:,} bytes of max_page_bytes")
    return b"".join(parts)
