"""Files that hold one thing a line, packed or not."""

import gzip
import zlib
from collections.abc import Iterator

from t5x_like.io.files import as_path


def read_lines(file: str) -> Iterator[str]:
    """The lines of a UTF-8 file (``.gz``: unpacked) without white space at their ends, blank ones left out.

    Raises:
      ValueError: the file is cut, damaged, unreadable or not UTF-8.
    """
    try:
        with as_path(file).open("rb") as raw, gzip.open(raw) if file.endswith(".gz") else raw as lines:
            for line in lines:
                text = line.decode("utf-8-sig").strip()
                if text:
                    yield text
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{file} can't be read to its end: {error}") from error
