"""Character encodings of web pages, as browsers read them (https://encoding.spec.whatwg.org)."""

import codecs
import functools
import re
from collections.abc import Iterator
from types import ModuleType

from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import missing_library

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Python's codec for each encoding that browsers read as a larger one of the same family.
_LARGER = {
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
}
# Labels that resiliparse doesn't know.
_LABELS = {"x-mac-cyrillic": "mac-cyrillic", "x-mac-ukrainian": "mac-cyrillic"}
_MOST_DAMAGE = 0.1  # of the bytes that aren't ASCII, in a page that is still what it says
_ASCII = bytes(range(0x80))
_BEGINNING = 4096  # bytes that may have the <meta>
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_META = re.compile(rb"""<meta(?=[\s/])((?:"[^"]{0,1000}"|'[^']{0,1000}'|[^>]){0,1000})""", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""([^\s=/"'>]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|["']?([^\s"'>]+))""")
_LABEL = re.compile(rb"""\s*["']?\s*([\w.:+-]{1,40})""")
_PARAMETER = re.compile(rb"charset\s*=" + _LABEL.pattern, re.IGNORECASE)
_MEDIA_TYPE = re.compile(rb"\s*[\w.+-]+/[\w.+-]+\s*[;,]")
_BROWSERS_READ = "t5x_like.as_browsers_read"


def decode_body(body: bytes, declared: str | None) -> tuple[str, str, bool]:
    """Decode the bytes of a page.

    The first encoding that fits all bytes is used, in this order: byte-order mark, HTTP header, the page's ``<meta>``,
    UTF-8. If none does, header and ``<meta>`` still count where few bytes are invalid, which become U+FFFD. Otherwise
    the encoding is detected, and last the one with the fewest invalid bytes is used.
    (https://html.spec.whatwg.org/#determining-the-character-encoding)

    Args:
      body: The bytes.
      declared: Encoding that the HTTP header declares, if any.

    Returns:
      The text, its encoding, and False if that differs from the declared one.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, errors="replace"), name, True
    known = _known(declared) if declared else None
    names = tuple(dict.fromkeys(_candidates(body, known)))
    for name in names:
        text = _decoded(body, name, "strict")
        if text is not None:
            return text, name, not declared or name == known
    text, name = _least_damaged(body, names)
    return text, name, not declared or name == known


def _least_damaged(body: bytes, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the text in the first encoding of few invalid bytes, else as detected, else with the fewest of them."""
    most = _MOST_DAMAGE * len(body.translate(None, _ASCII))
    texts: list[tuple[int, str, str]] = []
    for name in names:
        text = _decoded(body, name, _BROWSERS_READ)
        if text is None:
            continue
        damage = num_replaced(text, body, name)
        if damage <= most:
            return text, name
        texts.append((damage, text, name))
    detected = _known(need_resiliparse().detect_encoding(body) or "")
    text = _decoded(body, detected, _BROWSERS_READ) if detected else None
    if detected and text is not None and num_replaced(text, body, detected) <= most:
        return text, detected
    _, text, name = min(texts, key=lambda each: (each[0], each[2] != "utf-8"))
    return text, name


def _decoded(body: bytes, name: str, errors: str) -> str | None:
    """Return the text, or ``None`` where the encoding doesn't fit, or Python doesn't know it."""
    if errors == _BROWSERS_READ:
        _register()
    try:
        return body.decode(_LARGER.get(name, name), errors)
    except (UnicodeDecodeError, LookupError):
        return None


@functools.cache
def _register() -> None:
    codecs.register_error(_BROWSERS_READ, _as_browsers_read)


def _as_browsers_read(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement for bytes that Python's codec lacks, and the place to go on from."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    start = error.start
    byte, following = error.object[start], error.object[start : start + 2]
    if error.encoding == "charmap" and 0x80 <= byte < 0xA0:
        return chr(byte), start + 1  # a control character, as in ISO 8859
    if error.encoding == "gb18030" and byte == 0x80:
        return "€", start + 1
    if error.encoding == "euc_jp" and byte == 0xAD and len(following) == 2:  # NEC's row of numbers in circles
        text = following.decode("euc_jis_2004", "ignore")
        if len(text) == 1:
            return text, start + 2
    return "\ufffd", max(error.end, start + 1)


def num_replaced(text: str, body: bytes, encoding: str) -> int:
    """Return the number of characters in the text of ``decode_body`` that replace invalid bytes.

    Args:
      text: The decoded text.
      body: The bytes.
      encoding: Their encoding.
    """
    own = body.count("\ufffd".encode()) if encoding == "utf-8" else 0
    return text.count("\ufffd") - own


def log_replaced(log: FileLog, position: int, text: str, body: bytes, encoding: str) -> None:
    """Count and report the characters that replace invalid bytes in the text of ``decode_body``.

    Args:
      log: Log of the file.
      position: Position of the page in the file.
      text: The decoded text.
      body: The bytes.
      encoding: Their encoding.
    """
    if replaced := num_replaced(text, body, encoding):
        log.count("replaced_characters", replaced)
        log.notice("invalid_characters", position, f"{replaced} characters are not valid {encoding}")


def _known(label: str) -> str | None:
    label = label.strip().lower()
    return _LABELS.get(label) or need_resiliparse().map_encoding_to_html5(label, False)


def _candidates(body: bytes, declared: str | None) -> Iterator[str]:
    if declared:
        yield declared
    labels = _labels_of_page(_COMMENT.sub(b"", body[:_BEGINNING]))
    of_page = next(filter(None, map(_known, labels)), None)
    if of_page:
        # A page whose <meta> could be read isn't UTF-16.
        yield "utf-8" if of_page.startswith("utf-16") else of_page
    yield "utf-8"


def _labels_of_page(beginning: bytes) -> Iterator[str]:
    """Yield the encodings that ``<meta>`` elements name; in descriptions and addresses ``charset=`` is a text."""
    for meta in _META.finditer(beginning):
        values: dict[bytes, bytes] = {}
        for name, *quoted in _ATTRIBUTE.findall(meta[1]):
            values.setdefault(name.lower(), b"".join(quoted))
        content = values.get(b"content", b"")
        label = _LABEL.match(values.get(b"charset", b""))
        is_type = values.get(b"http-equiv", b"").strip().lower() == b"content-type"
        if label is None and (is_type or _MEDIA_TYPE.match(content)):
            label = _PARAMETER.search(content)
        if label is not None:
            yield label[1].decode()


def need_resiliparse() -> ModuleType:
    """Import resiliparse's module for encodings.

    Raises:
      ValueError: It isn't installed.
    """
    try:
        from resiliparse.parse import encoding
    except ImportError as error:
        raise missing_library("resiliparse (for HTML)", error) from error
    return encoding
