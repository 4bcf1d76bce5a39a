"""Program that extracts text, so that a page's use of stack, memory and time stays in this process.

``html_text.py`` starts it, with CSS selectors of elements to skip; it imports nothing of this package.
"""

import functools
import re
import resource
import signal
import struct
import sys
from collections.abc import Callable

_MEMORY = 4 * 2**30  # bytes; a page of 16 MB needs a tenth of it
REQUEST = struct.Struct("<??dQ")  # Markdown, main content only, seconds, number of bytes of the page
RESPONSE = struct.Struct("<?Q")  # True for text, False for an error; its number of bytes


def serve() -> None:
    """Process pages from standard input until it ends; a page that takes too long ends the process."""
    from resiliparse.extract.html2text import extract_plain_text  # pyright: ignore[reportMissingImports]

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        is_markdown, main_content, seconds, size = REQUEST.unpack(head)
        page = requests.read(size).decode(errors="replace")
        # Processor time, so that a busy machine extracts the same pages.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            text = extract_plain_text(
                markdown_to_html(page) if is_markdown else page,
                main_content=main_content,
                alt_texts=False,
                list_bullets=False,
                skip_elements=sys.argv[1:] or None,
            )
            is_text = True
        except Exception as error:
            is_text, text = False, f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        content = str(text).encode(errors="replace")
        responses.write(RESPONSE.pack(is_text, len(content)) + content)
        responses.flush()


# Metadata between two lines of dashes, as static site generators write it.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


def markdown_to_html(source: str) -> str:
    """Render Markdown (CommonMark with tables) as HTML, without code blocks and front matter.

    HTML inside stays, so that one extraction removes the markup of both.
    """
    return _renderer()(_FRONT_MATTER.sub("", source, count=1))


@functools.cache
def _renderer() -> Callable[[str], str]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for block in ("fence", "code_block"):
        parser.add_render_rule(block, _render_nothing)
    return parser.render


def _render_nothing(*_: object) -> str:
    return ""


if __name__ == "__main__":
    serve()
