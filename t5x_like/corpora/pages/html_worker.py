"""Program that extracts text from HTML, so that a page's use of stack, memory and time stays in this process.

``html_text.py`` starts it; it imports nothing of this package.
"""

import resource
import signal
import struct
import sys

_MEMORY = 4 * 2**30  # bytes; a page of 16 MB needs a tenth of it
REQUEST = struct.Struct("<?dQ")  # main content only, seconds, number of bytes of HTML
RESPONSE = struct.Struct("<?Q")  # True for text, False for an error; its number of bytes


def serve() -> None:
    """Process pages from standard input until it ends; a page that takes too long ends the process."""
    from resiliparse.extract.html2text import extract_plain_text  # pyright: ignore[reportMissingImports]

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        main_content, seconds, size = REQUEST.unpack(head)
        page = requests.read(size).decode(errors="replace")
        # Processor time, so that a busy machine extracts the same pages.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            text = extract_plain_text(page, main_content=main_content, alt_texts=False, list_bullets=False)
            is_text = True
        except Exception as error:
            is_text, text = False, f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        content = str(text).encode(errors="replace")
        responses.write(RESPONSE.pack(is_text, len(content)) + content)
        responses.flush()


if __name__ == "__main__":
    serve()
