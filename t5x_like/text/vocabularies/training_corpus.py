"""Lines of text files to learn from: streamed, sampled where there are too many, with what is wrong named by line."""

import codecs
from collections.abc import Iterator, Sequence

import numpy as np

from t5x_like.io.files import as_path
from t5x_like.io.paths import find_files
from t5x_like.io.progress import Progress
from t5x_like.text.vocabularies.tokenizer import describe_invalid_utf8

_BLOCK = 1 << 20  # bytes of one line that are read together
_DRAWS = 1 << 16


class Corpus:
    """Parts of lines, of at most ``longest`` bytes, cut at a space where there is one; empty lines are left out.

    Of more than ``most_lines`` lines about so many are drawn, the same ones for the same seed. Learning libraries
    may swallow what an iterator raises: it is kept in ``error``.
    """

    def __init__(
        self,
        inputs: str | Sequence[str],
        *,
        longest: int,
        most_lines: int | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        self.files = find_files(inputs)
        self.error: ValueError | None = None
        self._longest, self._most_lines, self._seed, self._progress = longest, most_lines, seed, progress
        self._sizes = [as_path(file).stat().length for file in self.files]

    def __iter__(self) -> Iterator[str]:
        try:
            kept = self._draw()
            with Progress("reading", sum(self._sizes), "bytes", shown=self._progress) as progress:
                for file in self.files:
                    yield from _parts(file, self._longest, kept, progress)
        except ValueError as error:
            self.error = error
            raise

    def _draw(self) -> Iterator[bool]:
        """Whether each line, in order, is kept."""
        limit = self._most_lines
        if limit is None or sum(self._sizes) <= limit:  # no more lines than bytes
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


def _parts(file: str, longest: int, kept: Iterator[bool], progress: Progress) -> Iterator[str]:
    found = False
    number, is_new, is_kept, offset = 0, True, True, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with as_path(file).open("rb") as stream:
        while block := stream.readline(_BLOCK):
            if is_new:
                number, is_kept, offset = number + 1, next(kept), 0
            is_new = block.endswith(b"\n")
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=is_new or len(block) < _BLOCK)
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}:{number}: {_where(error, offset - pending)}") from None
            offset += len(block)
            progress.add(len(block))
            text = text.removeprefix("\ufeff") if number == 1 else text
            found = found or not (text.isspace() or not text)
            if is_kept:
                yield from cut(text.strip(), longest)
    if not found:
        raise ValueError(f"{file} holds no text")


def _where(error: UnicodeDecodeError, offset: int) -> str:
    message = describe_invalid_utf8(error)
    if not message.startswith("invalid"):
        return message
    return f"invalid UTF-8 at byte {error.start + offset} of the line"


def cut(text: str, longest: int) -> Iterator[str]:
    """Parts of at most ``longest`` bytes, none of them empty; a character takes at most 4 bytes."""
    most = longest // 4
    while len(text) > most and len(text.encode("utf-8")) > longest:
        end = text.rfind(" ", 1, most)
        end = end if end > 0 else most
        yield text[:end]
        text = text[end:].lstrip()
    if text:
        yield text
