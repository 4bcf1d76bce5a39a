"""Corpora as continuous streams, one per batch row, for models with a memory of the previous batch."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from t5x_like.text.batches.example_sources import ExampleMaker, StoredSource
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.order import key_of
from t5x_like.text.objectives.objective import ContiguousObjective, Example, Text
from t5x_like.text.objectives.random_bits import random_below, seeds_of_rows

_ELSEWHERE = 100  # random sequence of a row, after those of objectives
_MAX_OPEN = 2  # epochs: a batch may contain the end of one and the start of the next


class _Epoch(NamedTuple):
    """Documents of an epoch in order, each followed by an end of sequence.

    Attributes:
      numbers: Index of each document, int64 [D].
      ends: End of each document, int64 [D].
      bounds: Edges of the streams, int64 [B + 1].
    """

    numbers: np.ndarray
    ends: np.ndarray
    bounds: np.ndarray


class RecurrentSource(StoredSource[ExampleStore]):
    """Rows that continue from batch to batch: position ``t * B + b`` is row ``b`` of batch ``t``.

    It continues row ``b`` of batch ``t - 1``. An epoch contains every token once. Its documents, in random order, are
    divided into ``batch_size`` streams whose lengths differ by at most one token; the last row of each is shorter. Any
    position can be reached without reading, but the order of an epoch takes 16 bytes of memory per document.

    Objectives may read on after these tokens, and in other places of the epoch (``StreamRow``).

    Dai et al. 2019, §3.2, https://arxiv.org/abs/1901.02860.
    """

    def __init__(
        self,
        name: str,
        documents: ExampleStore,
        maker: ExampleMaker,
        *,
        batch_size: int,
        seed: int,
        shuffle: bool,
    ) -> None:
        """Check that there are at least as many tokens as rows."""
        super().__init__(name, documents, seed=seed, shuffle=shuffle)
        self._maker, self._num_rows = maker, batch_size
        self._row = cast(ContiguousObjective, maker.objective).stream(maker.lengths)
        self._eos = maker.ids.eos
        sizes = documents.lengths("tokens")
        num_tokens = int(np.sum(sizes)) + int(np.count_nonzero(sizes))
        if num_tokens < batch_size:
            raise ValueError(
                f"task {name!r} has {num_tokens} tokens, fewer than the {batch_size} streams of a batch; "
                "lower batch_size"
            )
        longest = -(-num_tokens // batch_size)
        self._num_batches = -(-longest // self._row.step)
        self._opened: OrderedDict[int, _Epoch] = OrderedDict()
        self._read: dict[int, np.ndarray] = {}

    def remaining(self, epoch: int, position: int) -> int:
        """Return the rows left in the epoch; all epochs have the same number of whole batches."""
        del epoch
        return self._num_batches * self._num_rows - position

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return rows of an epoch's streams."""
        opened = self._open(epoch)
        numbers = np.asarray(positions, np.int64)
        batches, rows = np.divmod(numbers, self._num_rows)
        starts = np.minimum(opened.bounds[rows] + batches * self._row.step, opened.bounds[rows + 1])
        ends = np.minimum(starts + self._row.step, opened.bounds[rows + 1])
        seeds = seeds_of_rows(key_of(self._seed, self.name, epoch, "corruption"), numbers)
        total = int(opened.ends[-1])
        others = random_below(max(total - self._row.elsewhere, 0) + 1, seeds, 1, use=_ELSEWHERE)[:, 0]
        read = self._read_ranges(
            opened,
            np.concatenate([starts, others]),
            np.minimum(np.concatenate([ends + self._row.ahead, others + self._row.elsewhere]), total),
        )
        texts = [
            Text(np.concatenate([own, other[1:]]), len(own), label=size)
            for own, other, size in zip(
                read[: len(rows)], read[len(rows) :], (ends - starts).tolist(), strict=True
            )
        ]
        made = self._maker.make(texts, seeds)
        return [
            example._replace(continues=int(batch > 0)) for example, batch in zip(made, batches, strict=True)
        ]

    def _read_ranges(self, opened: _Epoch, starts: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
        """Return the tokens of ranges of an epoch, int64 [N], each after the token before it."""
        first = np.searchsorted(opened.ends, np.maximum(starts - 1, 0), side="right")
        last = np.searchsorted(opened.ends, np.maximum(ends - 1, starts), side="right")
        last = np.minimum(last, len(opened.ends) - 1)
        self._read_documents(opened, first, last)
        places = zip(starts.tolist(), ends.tolist(), first.tolist(), last.tolist(), strict=True)
        return [self._tokens(opened, *place) for place in places]

    def __getstate__(self) -> dict[str, object]:
        """Return the state without cached epochs and documents, for worker processes."""
        return {**self.__dict__, "_opened": OrderedDict(), "_read": {}}

    def _open(self, epoch: int) -> _Epoch:
        if epoch not in self._opened:
            while len(self._opened) >= _MAX_OPEN:
                self._opened.popitem(last=False)
            self._opened[epoch] = self._order(epoch)
        self._opened.move_to_end(epoch)
        return self._opened[epoch]

    def _order(self, epoch: int) -> _Epoch:
        sizes = self._stored.lengths("tokens")
        numbers = self._ordered(np.arange(len(sizes)), epoch, "documents")
        numbers = numbers[sizes[numbers] > 0]
        ends = np.cumsum(sizes[numbers] + 1)
        return _Epoch(numbers, ends, np.arange(self._num_rows + 1) * ends[-1] // self._num_rows)

    def _read_documents(self, opened: _Epoch, first: np.ndarray, last: np.ndarray) -> None:
        """Read documents ``first`` to ``last``, except those already in memory for the previous rows."""
        parts = [np.arange(start, end + 1) for start, end in zip(first, last, strict=True)]
        wanted = np.unique(opened.numbers[np.concatenate(parts)]) if parts else np.zeros(0, np.int64)
        cached = {
            document_index: self._read[document_index]
            for document_index in wanted.tolist()
            if document_index in self._read
        }
        missing = [document_index for document_index in wanted.tolist() if document_index not in cached]
        read = self._stored.read(np.array(missing, np.int64)) if missing else []
        self._read = cached | {
            document_index: document["tokens"][:: -1 if self._row.backward else 1]
            for document_index, document in zip(missing, read, strict=True)
        }

    def _tokens(self, opened: _Epoch, start: int, end: int, first: int, last: int) -> np.ndarray:
        """Return tokens from the one before ``start`` to ``end``; an end of sequence precedes the first token."""
        parts = [] if start else [np.array([self._eos], np.int32)]
        for document in range(first, last + 1):
            tokens = self._read[int(opened.numbers[document])]
            begin = int(opened.ends[document]) - len(tokens) - 1
            parts.append(tokens[max(start - 1 - begin, 0) : max(end - begin, 0)].astype(np.int32))
            if begin + len(tokens) < end and start - 1 <= begin + len(tokens):
                parts.append(np.array([self._eos], np.int32))
        return np.concatenate(parts)
