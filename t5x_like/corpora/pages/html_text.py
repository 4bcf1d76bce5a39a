"""Text extraction from HTML by resiliparse (https://resiliparse.chatnoir.eu).

The time of extraction grows with the square of the nesting depth or of the number of a tag's attributes: minutes for
half a megabyte of adversarial HTML. Extraction therefore runs in a separate process with a time limit for each page.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from t5x_like.corpora.pages import html_worker
from t5x_like.corpora.pages.html_worker import REQUEST, RESPONSE
from t5x_like.corpora.pages.page_encoding import need_resiliparse


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
