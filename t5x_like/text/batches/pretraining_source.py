"""Pretraining examples: documents are joined, cut and corrupted anew in every epoch, one window at a time."""

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.batches.example_order import WINDOW_EXAMPLES
from t5x_like.text.batches.example_sources import ExampleMaker, StoredSource
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.order import key_of, shuffled
from t5x_like.text.objectives.cutting import DOCUMENTS_TOGETHER, MAX_CHUNK, lay_window, texts_of
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, Text
from t5x_like.text.objectives.random_bits import seeds_of_rows

WINDOW_TOKENS = 2**22  # tokens in memory at once, of about as many bytes each as the vocabulary's ids take
_INDEX_BITS = 32  # a position is a window's number and, in these bits, a text's number in it
_MAX_OPEN = 2  # windows of a task: a batch may contain two. Of small windows, as many as make up a large one
# Objectives work on arrays of all their texts. For a thousand texts these take several MiB each, which malloc maps
# anew every time or fragments memory with: masking words then takes more memory and a fifth more time.
_TEXTS_AT_ONCE = 512


class _Opened(NamedTuple):
    """Window with the offsets and the order of its texts."""

    window: DocumentWindow
    cuts: Cuts
    order: np.ndarray


class PretrainingSource(StoredSource[ExampleStore]):
    """Documents in a new order for every epoch, window by window; texts are shuffled within a window.

    A window has as many documents as make about ``WINDOW_TOKENS`` tokens, so memory is independent of the corpus size.
    """

    def __init__(
        self, name: str, documents: ExampleStore, maker: ExampleMaker, *, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, documents, seed=seed, shuffle=shuffle)
        self._maker, self._spec = maker, maker.objective.spec
        mean = max(float(np.mean(np.minimum(documents.lengths("tokens"), MAX_CHUNK))), 1.0)
        groups = max(round(WINDOW_TOKENS / mean / DOCUMENTS_TOGETHER), 1)
        self._per_window = min(groups * DOCUMENTS_TOGETHER, len(documents))
        self._num_windows = -(-len(documents) // self._per_window)
        # Planned examples are made later: a plan may contain many epochs of a small corpus, each read once.
        self._max_open = max(_MAX_OPEN, min(int(WINDOW_TOKENS / mean / self._per_window), WINDOW_EXAMPLES))
        self._opened: OrderedDict[tuple[int, int], _Opened] = OrderedDict()

    @property
    def size(self) -> int:
        """Number of examples in the first epoch; others differ by a few, because run lengths depend on the order."""
        return sum(len(self._open(0, window).order) for window in range(self._num_windows))

    @property
    def estimated_size(self) -> int:
        """Number of examples of an epoch, estimated from the first window."""
        return max(len(self._open(0, 0).order) * len(self._stored) // self._per_window, 1)

    def remaining(self, epoch: int, position: int) -> int:
        """Return the number of texts left in the window of ``position``."""
        window = _window_of(position)
        return len(self._open(epoch, window).order) - (position - (window << _INDEX_BITS))

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the start of the next window or epoch."""
        window = _window_of(position) + 1
        return (epoch, window << _INDEX_BITS) if window < self._num_windows else (epoch + 1, 0)

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Make the texts at these positions; each has the seed of its number, independent of the order."""
        texts: list[Text] = []
        drawn: list[np.ndarray] = []
        for window, group in itertools.groupby(positions, key=_window_of):
            opened = self._open(epoch, window)
            numbers = opened.order[np.fromiter(group, np.int64) - (window << _INDEX_BITS)]
            texts += texts_of(opened.window, opened.cuts, numbers)
            drawn.append(numbers + (window << _INDEX_BITS))
        if not texts:
            return []
        key = key_of(self._seed, self.name, self._copy_of(epoch), "corruption")
        seeds = seeds_of_rows(key, np.concatenate(drawn))
        parts = [slice(start, start + _TEXTS_AT_ONCE) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        return [example for part in parts for example in self._maker.make(texts[part], seeds[part])]

    def __getstate__(self) -> dict[str, object]:
        """Return the state without open windows, for worker processes."""
        return {**self.__dict__, "_opened": OrderedDict()}

    def _open(self, epoch: int, window_index: int) -> _Opened:
        key = (epoch, window_index)
        if key not in self._opened:
            while len(self._opened) >= self._max_open:
                self._opened.popitem(last=False)
            self._opened[key] = self._lay(epoch, window_index)
        self._opened.move_to_end(key)
        return self._opened[key]

    def _lay(self, epoch: int, window_index: int) -> _Opened:
        indices = np.arange(
            window_index * self._per_window, min((window_index + 1) * self._per_window, len(self._stored))
        )
        maker, copy = self._maker, self._copy_of(epoch)
        keys = [key_of(self._seed, self.name, copy, use) for use in ("chunks", "cuts")]
        numbers = self._ordered(indices, copy, "documents")
        window = lay_window(
            self._stored.read(numbers),
            chunks=np.random.Philox(key=keys[0], counter=[0, 0, window_index, 0]).random_raw(len(numbers)),
            eos=maker.ids.eos if self._spec.ends_documents else None,
            with_sentences=self._spec.needs_sentences,
        )
        cuts = maker.objective.cut(window, maker.lengths, keys[1] + np.uint64(window_index))
        shuffle_key = key_of(self._seed, self.name, epoch, "order") + np.uint64(window_index)
        num_texts = len(cuts.starts)
        order = shuffled(num_texts, shuffle_key) if self._shuffle else np.arange(num_texts)
        return _Opened(window, cuts, order)

    def _copy_of(self, epoch: int) -> int:
        """Return the first epoch with the same texts and seeds; static masks repeat after ``num_copies`` epochs."""
        num_copies = self._spec.num_copies
        return epoch % num_copies if num_copies else epoch


def _window_of(position: int) -> int:
    return position >> _INDEX_BITS
