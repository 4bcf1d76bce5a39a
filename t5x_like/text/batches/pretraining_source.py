"""Documents joined, cut and corrupted anew in every epoch, a window of them at a time."""

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.example_sources import ExampleMaker, StoredSource
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.order import key_of, shuffled
from t5x_like.text.batches.planner import WINDOW_EXAMPLES
from t5x_like.text.objectives.cutting import DOCUMENTS_TOGETHER, MAX_CHUNK, lay_window, texts_of
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, Text
from t5x_like.text.objectives.random_bits import seeds_of_rows

WINDOW_TOKENS = 2**22  # held at once, of about as many bytes each as the vocabulary's ids take
_INDEX_BITS = 32  # a position is a window's number and a text's number in it
_MOST_OPEN = 2  # windows of a task: two meet in a batch; as many small ones as make up a large one
# Objectives work on arrays of all texts they are given. Those of a thousand texts take several MiB each, which malloc
# maps anew every time or lays between what stays: more memory, and a fifth more time to mask words.
_TEXTS_AT_ONCE = 512


class _Opened(NamedTuple):
    """A window with where its texts lie, and in which order they come."""

    window: DocumentWindow
    cuts: Cuts
    order: np.ndarray


class PretrainingSource(StoredSource):
    """Every epoch goes through all documents in an order of its own, window by window; texts are shuffled within one.

    A window has as many documents as make about ``WINDOW_TOKENS``, so that memory stays flat however many there are.
    """

    def __init__(
        self, name: str, documents: ExampleStore, maker: ExampleMaker, *, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, documents, seed=seed, shuffle=shuffle)
        self._maker, self._traits = maker, maker.objective.spec
        mean = max(float(np.mean(np.minimum(documents.lengths("tokens"), MAX_CHUNK))), 1.0)
        groups = max(round(WINDOW_TOKENS / mean / DOCUMENTS_TOGETHER), 1)
        self._per_window = min(groups * DOCUMENTS_TOGETHER, len(documents))
        self._num_windows = -(-len(documents) // self._per_window)
        # What is planned together is made afterwards: of a small corpus many epochs, read once.
        self._most_open = max(_MOST_OPEN, min(int(WINDOW_TOKENS / mean / self._per_window), WINDOW_EXAMPLES))
        self._opened: OrderedDict[tuple[int, int], _Opened] = OrderedDict()

    @property
    def size(self) -> int:
        """Examples in the first epoch. Others differ by a few: short rests depend on what is joined."""
        return sum(len(self._open(0, window).order) for window in range(self._num_windows))

    def remaining(self, epoch: int, position: int) -> int:
        """Texts of the window from a position on."""
        window = _window_of(position)
        return len(self._open(epoch, window).order) - (position - (window << _INDEX_BITS))

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """The next window, or the next epoch."""
        window = _window_of(position) + 1
        return (epoch, window << _INDEX_BITS) if window < self._num_windows else (epoch + 1, 0)

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """The texts at these places, each made by its own seed: that of its number, wherever the order puts it."""
        texts: list[Text] = []
        drawn: list[np.ndarray] = []
        for window, places in itertools.groupby(positions, key=_window_of):
            opened = self._open(epoch, window)
            numbers = opened.order[np.fromiter(places, np.int64) - (window << _INDEX_BITS)]
            texts += texts_of(opened.window, opened.cuts, numbers)
            drawn.append(numbers + (window << _INDEX_BITS))
        if not texts:
            return []
        key = key_of(self._seed, self.name, self._copy_of(epoch), "corruption")
        seeds = seeds_of_rows(key, np.concatenate(drawn))
        parts = [slice(start, start + _TEXTS_AT_ONCE) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        return [example for part in parts for example in self._maker.make(texts[part], seeds[part])]

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs; it opens windows of its own."""
        return self.__dict__ | {"_opened": OrderedDict()}

    def _open(self, epoch: int, number: int) -> _Opened:
        key = (epoch, number)
        if key not in self._opened:
            while len(self._opened) >= self._most_open:
                self._opened.popitem(last=False)
            self._opened[key] = self._lay(epoch, number)
        self._opened.move_to_end(key)
        return self._opened[key]

    def _lay(self, epoch: int, number: int) -> _Opened:
        places = np.arange(number * self._per_window, min((number + 1) * self._per_window, len(self._stored)))
        maker, copy = self._maker, self._copy_of(epoch)
        keys = [key_of(self._seed, self.name, copy, use) for use in ("chunks", "cuts")]
        numbers = self._ordered(places, copy, "documents")
        window = lay_window(
            self._stored.read(numbers),
            chunks=np.random.Philox(key=keys[0], counter=[0, 0, number, 0]).random_raw(len(numbers)),
            eos=maker.ids.eos if self._traits.ends_documents else None,
            with_sentences=self._traits.needs_sentences,
        )
        cuts = maker.objective.cut(window, maker.lengths, keys[1] + np.uint64(number))
        shuffle_key = key_of(self._seed, self.name, epoch, "order") + np.uint64(number)
        num_texts = len(cuts.starts)
        order = shuffled(num_texts, shuffle_key) if self._shuffle else np.arange(num_texts)
        return _Opened(window, cuts, order)

    def _copy_of(self, epoch: int) -> int:
        """The epoch that first had this one's texts and seeds: objectives with static masks have only so many."""
        num_copies = self._traits.num_copies
        return epoch % num_copies if num_copies else epoch


def _window_of(position: int) -> int:
    return position >> _INDEX_BITS
