"""Files of word vectors: GloVe's text, and word2vec's text and binary forms.

GloVe's text has a line for each word: the word and its numbers, separated by spaces (Pennington et al. 2014,
https://nlp.stanford.edu/projects/glove). word2vec's forms begin with a line that has the number of words and the number
of dimensions. Its binary form then has, for each word, the word, a space and little-endian float32 numbers
(Mikolov et al. 2013, https://code.google.com/archive/p/word2vec).
"""

import codecs
import logging
import os
from array import array
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import numpy as np

from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.decompression import is_compressed
from t5x_like.io.files import PathLike, as_path, write_bytes
from t5x_like.io.paths import find_file

VectorFormat = Literal["glove", "word2vec", "word2vec_binary"]
VECTOR_FORMATS: tuple[VectorFormat, ...] = get_args(VectorFormat)

_log = logging.getLogger(__name__)
_START = 1 << 16  # bytes that decide about the format
_ZIP = b"PK\x03\x04"
_MAX_WORD_BYTES = 1 << 14
_FLOAT_BYTES = 4


class _Header(NamedTuple):
    num_words: int
    dim: int


def format_of_name(path: PathLike) -> VectorFormat:
    """Return the format to write to a path: word2vec's binary form for ``.bin``, else its text."""
    return "word2vec_binary" if os.fspath(path).endswith(".bin") else "word2vec"


def read_vectors(path: PathLike, vector_format: VectorFormat | None = None) -> WordVectors:
    """Read a file of word vectors.

    Of a word that occurs several times the first vector is kept, as gensim does, and a warning says so.

    Args:
      path: The file, not compressed.
      vector_format: Its format; None recognizes it.

    Raises:
      ValueError: The file is empty, compressed or damaged, a vector has another dimension or a value that is no finite
        number, or there are fewer or more vectors than the header says. The message names line or vector.
    """
    name = find_file(path)
    with as_path(name).open("rb") as stream:
        start = stream.read(_START)
    if is_compressed(start) or start.startswith(_ZIP):
        raise ValueError(f"{name} is compressed; unpack it, and give the file that was in it")
    if not start.strip():
        raise ValueError(f"{name} is empty; a file of word vectors has a line for each word")
    vector_format = _recognize(start) if vector_format is None else vector_format
    header = None if vector_format == "glove" else _header(name, start)
    if vector_format == "word2vec_binary":
        assert header is not None
        words, table = _read_binary(name, header)
    else:
        words, table = _read_text(name, header)
    _refuse_not_finite(
        name, words, table, first_line=None if vector_format == "word2vec_binary" else 1 + bool(header)
    )
    return _distinct(name, _decoded(name, words), table)


def write_vectors(path: PathLike, vectors: WordVectors, vector_format: VectorFormat | None = None) -> None:
    """Write a file of word vectors atomically; numbers read back to the same bits.

    Words that are empty, or have a space or a line end, fit into no format. They are left out with a warning.

    Args:
      path: The file.
      vectors: Words and vectors.
      vector_format: Its format; None for that of ``format_of_name``.
    """
    kept = [row for row, word in enumerate(vectors.words) if word and not {" ", "\n"} & set(word)]
    if len(kept) < len(vectors.words):
        _log.warning(
            "%s: %d words with a space or a line end are left out, because the format has no place for them",
            os.fspath(path), len(vectors.words) - len(kept),
        )  # fmt: skip
    words, table = [vectors.words[row].encode() for row in kept], vectors.table[kept].astype(np.float32)
    vector_format = format_of_name(path) if vector_format is None else vector_format
    header = b"" if vector_format == "glove" else b"%d %d\n" % table.shape
    if vector_format == "word2vec_binary":  # a line end after each vector, as word2vec's own program has it
        lines = [
            b"%b %b\n" % (word, row.tobytes()) for word, row in zip(words, table.astype("<f4"), strict=True)
        ]
    else:
        # str of a float32 is the shortest decimal that reads back to it
        lines = [
            b"%b %b\n" % (word, " ".join(map(str, row)).encode())
            for word, row in zip(words, table, strict=True)
        ]
    write_bytes(path, b"".join([header, *lines]))


def _recognize(start: bytes) -> VectorFormat:
    first, _, rest = start.partition(b"\n")
    if not _is_header(first):
        return "glove"
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(rest)
    except UnicodeDecodeError:
        return "word2vec_binary"
    return "word2vec_binary" if any(ord(each) < 32 and each not in "\t\r\n" for each in text) else "word2vec"


def _is_header(line: bytes) -> bool:
    fields = line.split()
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def _header(name: str, start: bytes) -> _Header:
    line = start.partition(b"\n")[0][:100]
    if not _is_header(line):
        raise ValueError(
            f"{name}: the first line is {_shown(line)}; word2vec's files begin with the number of words and the number "
            "of dimensions, such as '400000 300'. GloVe's files have no such line (format 'glove')"
        )
    header = _Header(*map(int, line.split()))
    if min(header) < 1:
        raise ValueError(
            f"{name}: the header says {header.num_words} words of {header.dim} dimensions; both must be at least 1"
        )
    return header


def _read_text(name: str, header: _Header | None) -> tuple[list[bytes], np.ndarray]:
    words: list[bytes] = []
    numbers = array("f")
    dim, source = (None, "the first line has") if header is None else (header.dim, "the header says")
    with as_path(name).open("rb") as stream:
        if header is not None:
            stream.readline()
        for number, line in enumerate(stream, start=1 + (header is not None)):  # only \n ends a line
            fields = line.rstrip(b" \r\n").split(b" ")
            dim = len(fields) - 1 if dim is None else dim
            if dim < 1:
                raise ValueError(
                    f"{name}:{number}: {_shown(line)} has no numbers; a word is followed by its vector"
                )
            if len(fields) <= dim or (len(fields) > dim + 1 and _is_number(fields[-dim - 1])):
                num = sum(map(_is_number, fields[1:]))
                raise ValueError(
                    f"{name}:{number}: the vector of {_shown(fields[0])} has {num} numbers, and {source} {dim}; all "
                    "vectors of a file have the same dimension"
                )
            values = fields[-dim:]
            try:
                if b"_" in b" ".join(values):  # which Python allows in numbers
                    raise ValueError
                numbers.extend(map(float, values))
            except ValueError:
                wrong = next(value for value in values if not _is_number(value))
                raise ValueError(
                    f"{name}:{number}: {_shown(wrong)} in the vector of {_shown(fields[0])} is no number"
                ) from None
            words.append(b" ".join(fields[:-dim]))  # GloVe's largest file has words with spaces
    if header is not None and len(words) != header.num_words:
        raise ValueError(_count_message(name, header, f"{len(words):,}"))
    return words, np.frombuffer(numbers, np.float32).reshape(len(words), -1)


def _read_binary(name: str, header: _Header) -> tuple[list[bytes], np.ndarray]:
    content = as_path(name).read_bytes()
    size = header.dim * _FLOAT_BYTES
    least = header.num_words * (size + 2)
    at = content.index(b"\n") + 1
    if len(content) - at < least:
        raise ValueError(
            _count_message(name, header, f"{len(content) - at:,} bytes, which is too few")
            + f": they need at least {least:,}"
        )
    words, table = [], np.empty((header.num_words, header.dim), np.float32)
    for row in range(header.num_words):
        while (
            content[at : at + 1] == b"\n"
        ):  # word2vec's own program ends each vector with one, gensim doesn't
            at += 1
        end = content.find(b" ", at, at + _MAX_WORD_BYTES)
        word = content[at:end]
        if end < 0 or any(byte < 32 for byte in word):
            raise ValueError(
                f"{name}: no word begins at byte {at:,}, where vector {row + 1:,} of {header.num_words:,} should; the "
                f"header's {header.dim} dimensions are wrong, or the file is damaged"
            )
        if len(content) < end + 1 + size:
            raise ValueError(
                _count_message(name, header, f"{row:,}") + f": it ends inside the vector of {_shown(word)}"
            )
        table[row] = np.frombuffer(content, "<f4", header.dim, offset=end + 1)
        words.append(word)
        at = end + 1 + size
    if rest := content[at:].strip(b"\n"):
        raise ValueError(_count_message(name, header, f"{len(rest):,} bytes more"))
    return words, table


def _count_message(name: str, header: _Header, actual: str) -> str:
    return (
        f"{name}: the header says {header.num_words:,} words of {header.dim} dimensions, the file has {actual}; the "
        "file is incomplete, or its header wrong"
    )


def _refuse_not_finite(name: str, words: list[bytes], table: np.ndarray, *, first_line: int | None) -> None:
    wrong = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(wrong):
        row = int(wrong[0])
        location = (
            f"{name}: vector {row + 1:,}" if first_line is None else f"{name}:{first_line + row}: the vector"
        )
        more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        raise ValueError(f"{location} of {_shown(words[row])} has NaN or an infinite number{more}")


def _decoded(name: str, words: Iterable[bytes]) -> list[str]:
    decoded, num_damaged = [], 0
    for word in words:
        try:
            decoded.append(word.decode())
        except UnicodeDecodeError:
            num_damaged += 1
            decoded.append(word.decode(errors="replace"))
    if num_damaged:  # word2vec's own program cuts long words between bytes
        _log.warning("%s: %d words are invalid UTF-8; their wrong bytes became U+FFFD", name, num_damaged)
    return decoded


def _distinct(name: str, words: list[str], table: np.ndarray) -> WordVectors:
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        first.setdefault(word, row)
    if len(first) == len(words):
        return WordVectors(tuple(words), table)
    twice = next(word for row, word in enumerate(words) if first[word] != row)
    _log.warning(
        "%s: %d vectors are of words that have one already, such as %r; the first of each is kept",
        name, len(words) - len(first), twice,
    )  # fmt: skip
    return WordVectors(tuple(first), table[list(first.values())])


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _shown(content: bytes) -> str:
    return repr(content[:40].decode(errors="replace"))
