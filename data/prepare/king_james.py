"""The King James Bible as a pretraining corpus: one chapter on each line, without verse numbers.

python -m data.prepare.king_james --package bible-kjv-text_4.38_all.deb --output data/king_james
"""

import itertools
import os
import re
import struct
from collections import Counter
from pathlib import Path

from data.prepare import unix_compress
from data.prepare.packages import read_member
from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import hold_out, shuffle_by_key
from t5x_like.io.files import write_text

SEED = 0
NUM_VALIDATION_CHAPTERS = 60
MIN_SHARED_WORDS = 10

_MEMBER = "usr/lib/bible.data"
_VERSE = re.compile(r"(?P<chapter>[1-3]?[A-Za-z]+\d+):\d+ (?P<text>.*)")


def prepare(package: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write ``train.txt`` and ``validation.txt``.

    Args:
      package: Debian's bible-kjv-text package.
      output: Folder of the splits.
    """
    chapters = read_chapters(unpack(read_member(package, _MEMBER)).decode("ascii"))
    splits = split_chapters(chapters, num_validation=NUM_VALIDATION_CHAPTERS)
    for name, documents in splits.items():
        write_text(Path(output) / f"{name}.txt", "".join(document + "\n" for document in documents))


def unpack(content: bytes) -> bytes:
    """Decompress the container of Debian's ``bible-kjv``: a header, offsets, and separately compressed windows.

    Its numbers are big-endian, 32 bits wide. At 0x54: the size of a window, the number of windows, the start of each,
    and the end of the last one.
    """
    if content[:4] != b"EC02":
        raise ValueError(f"not a bible.data file: it starts with {content[:4]!r}, not b'EC02'")
    _, num_windows = struct.unpack_from(">2I", content, 0x54)
    offsets = struct.unpack_from(f">{num_windows + 1}I", content, 0x5C)
    header = content[offsets[0] - 3 : offsets[0]]  # only the first window still has its .Z header before it
    return b"".join(
        unix_compress.decompress(header + content[start:end]) for start, end in itertools.pairwise(offsets)
    )


def read_chapters(text: str) -> dict[str, list[str]]:
    """Return verses by chapter (``Ge1``, ``1Cor13``) in the book's order; all lines except the title are verses."""
    chapters: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        verse = _VERSE.fullmatch(line)
        if verse:
            chapters.setdefault(verse["chapter"], []).append(" ".join(verse["text"].split()))
        elif number > 1 and line.strip():
            raise ValueError(f"line {number} is not a verse such as 'Ge1:1 In the beginning': {line[:60]!r}")
    return chapters


def split_chapters(chapters: dict[str, list[str]], *, num_validation: int) -> dict[str, list[str]]:
    """Return training and validation documents, in the book's order.

    A chapter that repeats a long verse of another one word for word (Kings and Chronicles, the first three gospels,
    Psalms 14 and 53) stays in training: held out, it would be partly known from training.

    Args:
      chapters: Verses by chapter.
      num_validation: Number of validation documents.
    """
    places = Counter(
        words for verses in chapters.values() for words in {_words(v) for v in verses} if _is_long(words)
    )
    unique = [
        name for name, verses in chapters.items() if all(places[_words(verse)] <= 1 for verse in verses)
    ]
    held_out = set(
        hold_out(shuffle_by_key(unique, str, seed=SEED), {"validation": num_validation}, rest="train")[
            "validation"
        ]
    )
    return {
        "train": [" ".join(verses) for name, verses in chapters.items() if name not in held_out],
        "validation": [" ".join(verses) for name, verses in chapters.items() if name in held_out],
    }


def _words(verse: str) -> str:
    return " ".join(re.findall(r"[a-z']+", verse.lower()))


def _is_long(words: str) -> bool:
    return words.count(" ") + 1 >= MIN_SHARED_WORDS


if __name__ == "__main__":
    prepare_from_command_line(
        prepare, about=__doc__, package="Debian's bible-kjv-text_*.deb (apt-get download bible-kjv-text)"
    )
