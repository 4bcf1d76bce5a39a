"""Text extraction by resiliparse (https://resiliparse.chatnoir.eu) from HTML, and from Markdown by way of HTML.

The time of extraction grows with the square of the nesting depth or of the number of a tag's attributes: minutes for
half a megabyte of adversarial HTML. Extraction therefore runs in a separate process with a time limit for each page.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from t5x_like.corpora.pages import html_worker
from t5x_like.corpora.pages.html_worker import REQUEST, RESPONSE
from t5x_like.corpora.pages.page_encoding import need_resiliparse
from t5x_like.io.decompression import missing_library


@dataclass(frozen=True, kw_only=True)
class Html:
    """Options of text extraction from HTML.

    Attributes:
      main_content: Leave out menus, headers, footers and comments, by resiliparse's heuristics.
      skip_elements: CSS selectors of elements to leave out, such as ``("pre", "nav")``.
      max_seconds: Limit of processor time for a page.
    """

    main_content: bool = False
    skip_elements: tuple[str, ...] = ()
    max_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.max_seconds > 0:
            raise ValueError(f"max_seconds must be positive, not {self.max_seconds}")
        if isinstance(self.skip_elements, str) or not all(map(str.strip, self.skip_elements)):
            raise ValueError(
                f"skip_elements must be a tuple of CSS selectors such as ('pre',), not {self.skip_elements!r}"
            )
        object.__setattr__(self, "skip_elements", tuple(self.skip_elements))  # gin gives lists


class Extractor:
    """Extracts text from HTML, as a context manager; its process starts with the first page.

    >>> with Extractor(Html()) as extract:
    ...     extract("<p>One<p>Two")
    'One\\n\\nTwo'
    """

    def __init__(self, html: Html) -> None:
        if html.skip_elements:
            _check_selectors(html.skip_elements)
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

    def __call__(self, page: str, *, is_markdown: bool = False) -> str:
        """Return the text of a page, with blocks on separate lines.

        Args:
          page: HTML or Markdown.
          is_markdown: True if it is Markdown.

        Raises:
          ValueError: Extraction takes too much time or memory, or the page can't be parsed.
        """
        kind = "Markdown" if is_markdown else "HTML"
        content = page.encode(errors="replace")
        process = self._running_process()
        assert process.stdin is not None
        assert process.stdout is not None
        request = (
            REQUEST.pack(is_markdown, self._html.main_content, self._html.max_seconds, len(content)) + content
        )
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
                f"the {kind} takes more than {self._html.max_seconds:g} s, or ends the parser (signal "
                f"{-process.returncode}): nested too deeply, perhaps"
            )
        is_text, size = RESPONSE.unpack(head)
        text = process.stdout.read(size).decode()
        if not is_text:
            raise ValueError(f"the {kind} can't be parsed: {text}")
        return text

    def _running_process(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            need_resiliparse()
            self._process = subprocess.Popen(
                # -P: files next to the program must not hide Python's modules.
                [sys.executable, "-P", str(Path(html_worker.__file__)), *self._html.skip_elements],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def _check_selectors(selectors: tuple[str, ...]) -> None:
    need_resiliparse()
    from resiliparse.parse.html import HTMLTree

    page = HTMLTree.parse("<p></p>").document
    assert page is not None
    for selector in selectors:
        try:
            page.query_selector(selector)
        except Exception as error:
            raise ValueError(f"skip_elements: {selector!r} is no CSS selector ({error})") from error


def need_markdown() -> None:
    """Check that the library for Markdown is installed.

    Raises:
      ValueError: It isn't.
    """
    if importlib.util.find_spec("markdown_it") is None:
        raise missing_library("markdown-it-py (for Markdown)", ImportError("No module named 'markdown_it'"))
