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
_CHUNK = re.compile(rb"(?:\r?\n)?[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\n]{0,1000})?\r?\n")
_AT_ONCE = 64 * 2**10
_FEW = 2**10  # a reader that fails loses what it has decoded of a part
_GZIP = b"\x1f\x8b"
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_LISTS = ("content-encoding", "transfer-encoding", "content-type")  # headers whose repetitions are one list


class Response(NamedTuple):
    """A decoded HTTP response.

    Attributes:
      status: Status code.
      headers: Values by lower-case name; the last value of a repeated header, all of one that is a list.
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
    status, end = _STATUS.match(message), _END.search(message)
    while status is not None and status[1].startswith(b"1") and end and _STATUS.match(message, end.end()):
        message = message[end.end() :]  # after an interim response, such as 100 Continue
        status, end = _STATUS.match(message), _END.search(message)
    if status is None:
        raise ValueError("the record holds no HTTP response")
    head, body = (message[: end.start()], message[end.end() :]) if end else (message, b"")
    headers: dict[str, str] = {}
    # Only these characters end a line; in UTF-8 the byte of another line end is part of a letter.
    for line in re.split(rb"\r?\n(?![ \t])", head)[1:]:
        name, colon, value = line.decode("latin-1").partition(":")
        name, value = name.strip().lower(), value.strip()
        if colon:
            both = name in _LISTS and name in headers
            headers[name] = f"{headers[name]}, {value}" if both else value
    transfer = headers.get("transfer-encoding", "").lower()
    if "chunked" in transfer:
        body = _joined(body)
    encodings = [*headers.get("content-encoding", "").lower().split(","), *transfer.split(",")]
    for encoding in reversed(encodings):
        body = _decoded(body, encoding.strip().removeprefix("x-"), max_bytes)
    return Response(int(status[1]), headers, body)


def _joined(body: bytes) -> bytes:
    """Join a chunked body. A body without chunks stays as it is: many crawlers join them and keep the header."""
    parts, at = [], 0
    while (size := _CHUNK.match(body, at)) is not None:
        end = size.end() + int(size[1], 16)
        if at == 0 and not _is_chunk(body, size[0], end):
            return body
        if end == size.end():
            return b"".join(parts)
        parts.append(body[size.end() : end])
        at = end
        if at > len(body):
            break
    return b"".join(parts) if parts else body


def _is_chunk(body: bytes, size: bytes, end: int) -> bool:
    """Return False for a text whose first line only looks like the size of a chunk, such as ``Add``."""
    if end > len(body):
        return size.endswith(b"\r\n")  # truncated
    return body[end : end + 2].startswith((b"\n", b"\r\n")) or end == len(body)


def _decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """Decode a body. A body that isn't encoded stays as it is: crawlers often decode bodies and keep the header.

    Text under a name that is no encoding, such as ``utf-8``, stays as it is too, as in browsers.
    """
    if encoding in ("", "identity", "none", "chunked"):
        return body
    try:
        if encoding in ("gzip", "deflate") and body.startswith(_GZIP):
            return _members(body, limit)
        if encoding == "gzip":
            return body
        if encoding == "deflate":
            return _inflated(body, limit)
        if encoding in ("br", "zstd"):
            return _by_reader(body, encoding, limit)
    except zlib.error as error:
        raise ValueError(f"the body's {encoding} is corrupt ({error})") from None
    if _is_text(body):
        return body
    raise ValueError(f"the content encoding {encoding[:40]!r} of the body is not known")


def _members(body: bytes, limit: int) -> bytes:
    """Decompress all members of a gzip body; zeros and other bytes after one end it."""
    parts: list[bytes] = []
    size = 0
    while not parts or body.startswith(_GZIP):
        decompressor = zlib.decompressobj(31)
        parts.append(_bounded(decompressor, body, limit - size, limit))
        size += len(parts[-1])
        body = decompressor.unused_data
    return b"".join(parts)


def _inflated(body: bytes, limit: int) -> bytes:
    wrapped = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    decompressor = zlib.decompressobj(15 if wrapped else -15)
    try:
        out = _bounded(decompressor, body, limit, limit)
    except zlib.error:
        if _is_text(body):
            return body
        raise
    return out if decompressor.eof or not _is_text(body) else body


def _is_text(body: bytes) -> bool:
    """Return True if the first bytes have no control characters, as compressed ones do."""
    return _CONTROL.search(body, 0, _AT_ONCE) is None


def _bounded(decompressor: Any, body: bytes, left: int, limit: int) -> bytes:
    """Decompress as much of the body as there is: crawlers truncate long bodies."""
    out = decompressor.decompress(body, left + 1)
    if not out and not decompressor.eof:
        raise ValueError("the body is compressed and truncated before its first byte")
    if len(out) > left:
        raise ValueError(f"the body decompresses to more than the {limit:,} bytes of max_page_bytes")
    return out


class _Content(io.BytesIO):
    """Compressed bytes that know whether more of them were asked for than there are.

    Attributes:
      is_used_up: Whether their reader has asked for bytes after the last one.
    """

    is_used_up = False

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(size)
        self.is_used_up |= not part
        return part


def _by_reader(body: bytes, encoding: str, limit: int) -> bytes:
    try:
        from fastwarc import stream_io
    except ImportError as error:
        raise missing_library(f"fastwarc (for bodies with content encoding {encoding})", error) from error
    content = _Content(body)
    reader = (stream_io.BrotliReader if encoding == "br" else stream_io.ZstdReader)(content)
    parts, size = [], 0
    try:
        while size <= limit and (part := reader.read(_FEW)):
            parts.append(part)
            size += len(part)
    except Exception as error:
        if _is_text(body):
            return body
        if not (parts and content.is_used_up):  # else crawlers truncated it
            raise ValueError(f"the body's {encoding} is corrupt ({error})") from None
    if size > limit:
        raise ValueError(f"the body decompresses to more than the {limit:,} bytes of max_page_bytes")
    return b"".join(parts)
