"""Lines of text files for vocabulary training: streamed, sampled if there are too many, with errors located by line."""

import codecs
from collections.abc import Iterator, Sequence

import numpy as np

from t5x_like.io.files import as_path
from t5x_like.io.paths import find_files
from t5x_like.io.progress import Progress
from t5x_like.text.vocabularies.tokenizer import describe_invalid_utf8

_BLOCK = 1 << 20  # bytes of one line read at once
_DRAWS = 1 << 16


class Corpus:
    """Non-empty lines of text files, divided at spaces into parts of at most ``max_bytes`` bytes.

    If there are more than ``max_lines`` lines, about that many are sampled, the same ones for the same seed.

    Attributes:
      files: Paths of the files.
      error: Error of the last iteration, because training libraries may swallow exceptions of an iterator.
    """

    def __init__(
        self,
        inputs: str | Sequence[str],
        *,
        max_bytes: int,
        max_lines: int | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        self.files = find_files(inputs)
        self.error: ValueError | None = None
        self._max_bytes, self._max_lines, self._seed, self._progress = max_bytes, max_lines, seed, progress
        self._sizes = [as_path(file).stat().length for file in self.files]

    def __iter__(self) -> Iterator[str]:
        try:
            kept = self._draw()
            with Progress("reading", sum(self._sizes), "bytes", shown=self._progress) as progress:
                for file in self.files:
                    yield from _parts(file, self._max_bytes, kept, progress)
        except ValueError as error:
            self.error = error
            raise

    def _draw(self) -> Iterator[bool]:
        """Yield for each line whether it is kept."""
        limit = self._max_lines
        if limit is None or sum(self._sizes) <= limit:  # there are at most as many lines as bytes
            return _always()
        num_lines = sum(map(_count_lines, self.files))
        return _always() if num_lines <= limit else _drawn(limit / num_lines, self._seed)


def _always() -> Iterator[bool]:
    while True:
        yield True


def _drawn(share: float, seed: int) -> Iterator[bool]:
    bits = np.random.Philox(key=seed)
    while True:
        yield from (bits.random_raw(_DRAWS) < np.uint64(share * 2.0**64)).tolist()


def _count_lines(file: str) -> int:
    with as_path(file).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(_BLOCK), b"")) + 1


def _parts(file: str, max_bytes: int, kept: Iterator[bool], progress: Progress) -> Iterator[str]:
    has_text = False
    line_number, is_new, is_kept, offset = 0, True, True, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with as_path(file).open("rb") as stream:
        while block := stream.readline(_BLOCK):
            if is_new:
                line_number, is_kept, offset = line_number + 1, next(kept), 0
            is_new = block.endswith(b"\n")
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=is_new or len(block) < _BLOCK)
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}:{line_number}: {_where(error, offset - pending)}") from None
            offset += len(block)
            progress.add(len(block))
            text = text.removeprefix("\ufeff") if line_number == 1 else text
            has_text = has_text or not (text.isspace() or not text)
            if is_kept:
                yield from cut(text.strip(), max_bytes)
    if not has_text:
        raise ValueError(f"{file} holds no text")


def _where(error: UnicodeDecodeError, offset: int) -> str:
    message = describe_invalid_utf8(error)
    if not message.startswith("invalid"):
        return message
    return f"invalid UTF-8 at byte {error.start + offset} of the line"


def cut(text: str, max_bytes: int) -> Iterator[str]:
    """Divide a text into non-empty parts, at spaces where possible.

    Args:
      text: Text to divide.
      max_bytes: Highest number of bytes of a part.
    """
    max_characters = max_bytes // 4  # a character has at most 4 bytes
    while len(text) > max_characters and len(text.encode("utf-8")) > max_bytes:
        end = text.rfind(" ", 1, max_characters)
        end = end if end > 0 else max_characters
        yield text[:end]
        text = text[end:].lstrip()
    if text:
        yield text
