"""Text extraction from HTML by resiliparse (https://resiliparse.chatnoir.eu), and detection of character encodings.

The time of extraction grows with the square of the nesting depth or of the number of a tag's attributes: minutes for
half a megabyte of adversarial HTML. Extraction therefore runs in a separate process with a time limit for each page.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t5x_like.corpora.pages import html_worker
from t5x_like.corpora.pages.html_worker import REQUEST, RESPONSE
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import missing_library


@dataclass(frozen=True, kw_only=True)
class Html:
    """Options of text extraction from HTML.

    Attributes:
      main_content: Leave out menus, headers, footers and comments, by resiliparse's heuristics.
      max_seconds: Limit of processor time for a page.
    """

    main_content: bool = False
    max_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.max_seconds > 0:
            raise ValueError(f"max_seconds must be positive, not {self.max_seconds}")


class Extractor:
    """Extracts text from HTML, as a context manager; its process starts with the first page.

    >>> with Extractor(Html()) as extract:
    ...     extract("<p>One<p>Two")
    'One\\n\\nTwo'
    """

    def __init__(self, html: Html) -> None:
        self._html = html
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Extractor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next page starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __call__(self, page: str) -> str:
        """Return the text of a page, with blocks on separate lines.

        Raises:
          ValueError: Extraction takes too much time or memory, or the HTML can't be parsed.
        """
        content = page.encode(errors="replace")
        process = self._running_process()
        assert process.stdin is not None
        assert process.stdout is not None
        request = REQUEST.pack(self._html.main_content, self._html.max_seconds, len(content)) + content
        try:
            process.stdin.write(request)
            process.stdin.flush()
            head = process.stdout.read(RESPONSE.size)
        except BrokenPipeError:
            head = b""
        if len(head) < RESPONSE.size:
            process.kill()
            process.communicate()
            self._process = None
            raise ValueError(
                f"the HTML takes more than {self._html.max_seconds:g} s, or ends the parser (signal "
                f"{-process.returncode}): nested too deeply, perhaps"
            )
        is_text, size = RESPONSE.unpack(head)
        text = process.stdout.read(size).decode()
        if not is_text:
            raise ValueError(f"the HTML can't be parsed: {text}")
        return text

    def _running_process(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            need_resiliparse()
            self._process = subprocess.Popen(
                # -P: files next to the program must not hide Python's modules.
                [sys.executable, "-P", str(Path(html_worker.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def decode_body(body: bytes, declared: str | None) -> tuple[str, str, bool]:
    """Decode the bytes of a page.

    The first encoding that fits all bytes is used, in this order: byte-order mark, HTTP header, the page's ``<meta>``,
    UTF-8, detection. If none fits, UTF-8 with U+FFFD for invalid bytes.
    (https://encoding.spec.whatwg.org, https://html.spec.whatwg.org/#determining-the-character-encoding)

    Args:
      body: The bytes.
      declared: Encoding that the HTTP header declares, if any.

    Returns:
      The text, its encoding, and False if that differs from the declared one.
    """
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if body.startswith(mark):
            return body[len(mark) :].decode(name, errors="replace"), name, True
    known = _known(declared) if declared else None
    for name in _candidates(body, known):
        try:
            return body.decode(name), name, not declared or name == known
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode("utf-8", errors="replace"), "utf-8", not declared or known == "utf-8"


def log_replaced(log: FileLog, place: int, text: str, body: bytes, encoding: str) -> None:
    """Count and report the characters that replace invalid bytes in the text of ``decode_body``.

    Args:
      log: Log of the file.
      place: Position of the page in the file.
      text: The decoded text.
      body: The bytes.
      encoding: Their encoding.
    """
    own = body.count("\ufffd".encode()) if encoding == "utf-8" else 0
    if replaced := text.count("\ufffd") - own:
        log.count("replaced_characters", replaced)
        log.notice("invalid_characters", place, f"{replaced} characters are not valid {encoding}")


def _known(declared: str) -> str | None:
    return need_resiliparse().map_encoding_to_html5(declared, False)


def _candidates(body: bytes, declared: str | None) -> Iterator[str]:
    detect = need_resiliparse().detect_encoding
    if declared:
        yield declared
    yield from filter(None, (detect(body, from_html_meta=True), "utf-8", detect(body)))


def need_resiliparse() -> Any:
    """Import resiliparse's module for encodings.

    Raises:
      ValueError: It isn't installed.
    """
    try:
        from resiliparse.parse import encoding
    except ImportError as error:
        raise missing_library("resiliparse (for HTML)", error) from error
    return encoding
