"""A corpus as one long text in as many streams as a batch has rows, for models with a memory of the batch before."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.example_sources import ExampleMaker, StoredSource
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.objectives.objective import Example, Text

_MOST_OPEN = 2  # epochs: two meet in a batch


class _Epoch(NamedTuple):
    """All documents in an order, each ended: where each ends, and where each stream does."""

    numbers: np.ndarray  # int64 [D]
    ends: np.ndarray  # int64 [D]
    bounds: np.ndarray  # int64 [B + 1]


class RecurrentSource(StoredSource):
    """Position ``t * B + b`` is row ``b`` of batch ``t``, which goes on where row ``b`` of batch ``t - 1`` ended.

    An epoch is every token once: the documents in an order of its own are cut into ``batch_size`` streams, whose
    lengths differ by a token at most; the last row of each is shorter. Finding a place takes no reading, but an
    epoch's order of documents is held, 16 bytes a document.

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
        """Raises ValueError if there are fewer tokens than rows."""
        super().__init__(name, documents, seed=seed, shuffle=shuffle)
        self._maker, self._num_rows = maker, batch_size
        self._length, self._eos = maker.lengths.targets, maker.ids.eos
        sizes = documents.lengths("tokens")
        num_tokens = int(np.sum(sizes)) + int(np.count_nonzero(sizes))
        if num_tokens < batch_size:
            raise ValueError(
                f"task {name!r} has {num_tokens} tokens, fewer than the {batch_size} streams of a batch; "
                "lower batch_size"
            )
        longest = -(-num_tokens // batch_size)
        self._num_batches = -(-longest // self._length)
        self._opened: OrderedDict[int, _Epoch] = OrderedDict()
        self._read: dict[int, np.ndarray] = {}

    def remaining(self, epoch: int, position: int) -> int:
        """Every epoch is as long, in whole batches."""
        del epoch
        return self._num_batches * self._num_rows - position

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Rows of an epoch's streams."""
        opened = self._open(epoch)
        batches, rows = np.divmod(np.asarray(positions, np.int64), self._num_rows)
        starts = np.minimum(opened.bounds[rows] + batches * self._length, opened.bounds[rows + 1])
        ends = np.minimum(starts + self._length, opened.bounds[rows + 1])
        first = np.searchsorted(opened.ends, np.maximum(starts - 1, 0), side="right")
        last = np.searchsorted(opened.ends, np.maximum(ends - 1, starts), side="right")
        last = np.minimum(last, len(opened.ends) - 1)
        self._hold(opened, first, last)
        places = zip(starts.tolist(), ends.tolist(), first.tolist(), last.tolist(), strict=True)
        tokens = [self._tokens(opened, *place) for place in places]
        texts = [Text(each, len(each)) for each in tokens]
        made = self._maker.make(texts, np.zeros((len(texts), 2), np.uint64))
        return [
            example._replace(continues=int(batch > 0)) for example, batch in zip(made, batches, strict=True)
        ]

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs; it orders and reads for itself."""
        return self.__dict__ | {"_opened": OrderedDict(), "_read": {}}

    def _open(self, epoch: int) -> _Epoch:
        if epoch not in self._opened:
            while len(self._opened) >= _MOST_OPEN:
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

    def _hold(self, opened: _Epoch, first: np.ndarray, last: np.ndarray) -> None:
        """Reads the documents from ``first`` to ``last``, but for those that were read for the rows before."""
        parts = [np.arange(start, end + 1) for start, end in zip(first, last, strict=True)]
        wanted = np.unique(opened.numbers[np.concatenate(parts)]) if parts else np.zeros(0, np.int64)
        held = {number: self._read[number] for number in wanted.tolist() if number in self._read}
        missing = [number for number in wanted.tolist() if number not in held]
        read = self._stored.read(np.array(missing, np.int64)) if missing else []
        self._read = held | {
            number: document["tokens"] for number, document in zip(missing, read, strict=True)
        }

    def _tokens(self, opened: _Epoch, start: int, end: int, first: int, last: int) -> np.ndarray:
        """Tokens from the one before ``start`` to ``end``; before all there is an end of sequence."""
        parts = [] if start else [np.array([self._eos], np.int32)]
        for document in range(first, last + 1):
            tokens = self._read[int(opened.numbers[document])]
            begin = int(opened.ends[document]) - len(tokens) - 1
            parts.append(tokens[max(start - 1 - begin, 0) : max(end - begin, 0)].astype(np.int32))
            if begin + len(tokens) < end and start - 1 <= begin + len(tokens):
                parts.append(np.array([self._eos], np.int32))
        return np.concatenate(parts)
