"""Tokenized examples in memory, in the smallest integer type that holds their ids."""

import itertools
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from t5x_like.text.cache.content import content_checksum
from t5x_like.text.fields import SENTENCE_ENDS, SPANS, TOKENS, Feature
from t5x_like.text.tasks.file_task import FileTask

_log = logging.getLogger(__name__)
_AT_ONCE = 4096  # texts given to the tokenizer together
_FEW_AT_ONCE = 128  # where only the first are wanted


class ExampleStore(Protocol):
    """Tokenized examples by index, in memory or in a cache; features are those of ``FileTask.features``."""

    @property
    def checksum(self) -> int:
        """Hash of all examples."""
        ...

    def __len__(self) -> int: ...

    def lengths(self, feature: str) -> np.ndarray:
        """Return the length of a feature in each example, int64 [N], without reading tokens."""
        ...

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return the features of these examples."""
        ...


class TooManyTokens(Exception):  # noqa: N818 - control flow: the task is streamed instead
    """The task has more tokens than may be held in memory."""


class RaggedArray:
    """Sequences of token ids of different lengths in one flat array.

    Attributes:
      flat: Ids of all sequences, concatenated; [T], or [T, W] for a feature with a width.
      ends: End of each sequence, int64 [N].
    """

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat = flat
        self.ends = ends
        self._read_type = np.int32 if flat.dtype.kind in "iu" else flat.dtype

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.ends[row - 1] if row else 0
        return self.flat[start : self.ends[row]].astype(self._read_type)

    def part(self, numbers: np.ndarray) -> "RaggedArray":
        """Return some of the sequences, in the given order."""
        rows = [
            self.flat[end - size : end]
            for end, size in zip(self.ends[numbers], self.lengths[numbers], strict=True)
        ]
        ends = np.cumsum([len(each) for each in rows], dtype=np.int64)
        return RaggedArray(np.concatenate([self.flat[:0], *rows]), ends)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sequence, int64 [N]."""
        return np.diff(self.ends, prepend=0)

    def views(self) -> Iterator[memoryview]:
        """Yield the bytes of each sequence."""
        flat: Any = self.flat.view(np.uint8).reshape(-1)  # a buffer, though its type does not say so
        content, start = memoryview(flat), 0
        size = self.flat.itemsize * math.prod(self.flat.shape[1:])
        for end in (self.ends * size).tolist():
            yield content[start:end]
            start = end


class RaggedArrayBuilder:
    """Collects sequences for a ``RaggedArray``.

    Args:
      dtype: NumPy dtype.
      width: Second dimension; None for sequences of numbers.
    """

    def __init__(self, dtype: str, width: int | None = None) -> None:
        self._dtype = np.dtype(dtype)
        self._shape = (-1,) if width is None else (-1, width)
        self._parts: list[np.ndarray] = []
        self._lengths: list[int] = []
        self.num_tokens = 0

    def extend(self, sequences: Iterable[Sequence[int] | np.ndarray]) -> None:
        """Append sequences."""
        for sequence in sequences:
            array = np.asarray(sequence, self._dtype).reshape(self._shape)
            self._parts.append(array)
            self._lengths.append(len(array))
            self.num_tokens += array.size
        if len(self._parts) > 50_000:  # a small array has a hundred bytes of overhead
            self._parts = [np.concatenate(self._parts)]

    def build(self) -> RaggedArray:
        """Return the sequences collected so far."""
        empty = np.zeros((0, *self._shape[1:]), self._dtype)
        flat = np.concatenate([empty, *self._parts])
        return RaggedArray(flat, np.cumsum(self._lengths, dtype=np.int64))


class InMemoryExamples:
    """Features of all examples in memory.

    Attributes:
      checksum: Hash of the contents, equal to that of a cache of the same examples, so that runs can switch.
    """

    def __init__(self, features: Mapping[str, RaggedArray]) -> None:
        self._features = features
        columns = [features[name].views() for name in sorted(features)]
        # Equal to the checksum of a cache of these examples, so that a run can continue with either.
        self.checksum = content_checksum(itertools.chain.from_iterable(zip(*columns, strict=True))).value

    def __len__(self) -> int:
        return len(next(iter(self._features.values())))

    def lengths(self, feature: str) -> np.ndarray:
        """Return the length of a feature in each example, int64 [N]."""
        return self._features[feature].lengths

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return the features of examples."""
        wanted = numbers.tolist()
        columns = [[feature[row] for row in wanted] for feature in self._features.values()]
        return [dict(zip(self._features, arrays, strict=True)) for arrays in zip(*columns, strict=True)]


class FirstTokens:
    """The first tokens of a store's documents; the last document is cut.

    Args:
      stored: Documents with the feature ``tokens``.
      num_documents: Number of documents.
      last_length: Tokens of the last one.

    Attributes:
      checksum: Hash of the store's contents and of the numbers of documents and tokens.
    """

    def __init__(self, stored: ExampleStore, num_documents: int, last_length: int) -> None:
        self._stored, self._last, self._last_length = stored, num_documents - 1, last_length
        self.checksum = (stored.checksum + num_documents + (last_length << 32)) % 2**63

    def __len__(self) -> int:
        return self._last + 1

    def lengths(self, feature: str) -> np.ndarray:
        """Return the length of a feature in each document, int64 [N]."""
        lengths = self._stored.lengths(feature)[: len(self)].copy()
        lengths[-1] = len(self.read(np.array([self._last]))[0][feature])
        return lengths

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return the features of documents."""
        documents = self._stored.read(numbers)
        return [
            cut_document(document, self._last_length) if index == self._last else document
            for index, document in zip(numbers.tolist(), documents, strict=True)
        ]


def cut_document(document: dict[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Return the first tokens of a document, with the sentences and spans that are in them.

    Args:
      document: Features of a document.
      length: Number of tokens to keep.
    """
    cut = document | {TOKENS.name: document[TOKENS.name][:length]}
    if SENTENCE_ENDS.name in document:
        ends = document[SENTENCE_ENDS.name]
        cut[SENTENCE_ENDS.name] = np.append(ends[ends < length], length).astype(ends.dtype)
    if SPANS.name in document:
        spans = document[SPANS.name]
        cut[SPANS.name] = spans[spans[:, 1] <= length]
    return cut


def first_tokens(stored: ExampleStore, max_tokens: int) -> ExampleStore:
    """Return the first documents of a store, cut to ``max_tokens`` together.

    Args:
      stored: Documents with the feature ``tokens``.
      max_tokens: Limit of the number of tokens.
    """
    ends = np.cumsum(stored.lengths(TOKENS.name))
    if not len(ends) or max_tokens >= ends[-1]:
        return stored
    last = int(np.searchsorted(ends, max_tokens))
    return FirstTokens(stored, last + 1, max_tokens - (int(ends[last - 1]) if last else 0))


def first_examples(
    stored: ExampleStore, max_examples: int, features: Sequence[Feature], vocab_size: int
) -> ExampleStore:
    """Return the first examples of a store, which are as if only they had been tokenized.

    Args:
      stored: Examples in memory or in a cache.
      max_examples: Number of examples to keep.
      features: Features of the examples.
      vocab_size: Size of the vocabulary.
    """
    if max_examples >= len(stored):
        return stored
    builders = _builders(features, vocab_size)
    for example in stored.read(np.arange(max_examples)):
        _extend(builders, example)
    return _built(builders)


def load_in_memory(
    definition: FileTask[object], split: str, *, max_tokens_in_memory: int
) -> InMemoryExamples:
    """Tokenize a split.

    Args:
      definition: Task.
      split: Split to read.
      max_tokens_in_memory: Limit of the number of tokens.

    Raises:
      TooManyTokens: The split has more tokens.
      ValueError: Bad rows, or no token at all.
    """
    policy = definition.row_policy()
    rows = definition.read(split, policy)
    builders = _tokenized(definition, split, rows, at_once=_AT_ONCE, num_tokens=max_tokens_in_memory)
    if _num_tokens(builders) > max_tokens_in_memory:
        raise TooManyTokens
    if policy.num_skipped:
        _log.warning("task %s, split %s: %s", definition.name, split, policy)
    return _built(builders)


def load_first_rows(
    definition: FileTask[object], split: str, *, num_rows: int | None = None, num_tokens: int = sys.maxsize
) -> InMemoryExamples:
    """Tokenize the first rows of a split.

    Args:
      definition: Task.
      split: Split to read.
      num_rows: Number of rows to read; all if None.
      num_tokens: Number of tokens after which no more rows are read.

    Raises:
      ValueError: Bad rows, or no token at all.
    """
    rows = islice(definition.read(split), num_rows)
    return _built(_tokenized(definition, split, rows, at_once=_FEW_AT_ONCE, num_tokens=num_tokens))


def _tokenized(
    definition: FileTask[object], split: str, rows: Iterator[object], *, at_once: int, num_tokens: int
) -> dict[str, RaggedArrayBuilder]:
    """Return the features of rows, which are read until they have more than ``num_tokens``."""
    builders = _builders(definition.features(), definition.tokenizer.vocab_size)
    while _num_tokens(builders) <= num_tokens and (chunk := list(islice(rows, at_once))):
        for example in definition.tokenize(chunk):
            _extend(builders, example)
    if not _num_tokens(builders):
        raise ValueError(f"task {definition.name!r}, split {split!r}: its texts hold no token")
    return builders


def _builders(features: Sequence[Feature], vocab_size: int) -> dict[str, RaggedArrayBuilder]:
    stored = [each.stored(vocab_size) for each in features]
    return {each.name: RaggedArrayBuilder(each.dtype, each.width) for each in stored}


def _extend(
    builders: Mapping[str, RaggedArrayBuilder], example: Mapping[str, Sequence[int] | np.ndarray]
) -> None:
    for name, builder in builders.items():
        builder.extend([example[name]])


def _num_tokens(builders: Mapping[str, RaggedArrayBuilder]) -> int:
    return sum(builder.num_tokens for builder in builders.values())


def _built(builders: Mapping[str, RaggedArrayBuilder]) -> InMemoryExamples:
    return InMemoryExamples({name: builder.build() for name, builder in builders.items()})
