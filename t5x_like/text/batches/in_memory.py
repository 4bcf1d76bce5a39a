"""A task's tokens in memory, where they fit."""

import itertools
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

import numpy as np

from t5x_like.text.batches.ragged_array import RaggedArray, RaggedArrayBuilder
from t5x_like.text.cache.content import content_of
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.rows import RowPolicy

_log = logging.getLogger(__name__)
_AT_ONCE = 4096  # texts given to the tokenizer together
_WIDTHS = {"spans": 2}


class ExampleStore(Protocol):
    """Tokenized examples by number, in memory or in a cache: features as ``FileTask.feature_names`` has them."""

    @property
    def checksum(self) -> int: ...

    def __len__(self) -> int: ...

    def lengths(self, feature: str) -> np.ndarray:
        """int64 [N]; without reading tokens."""
        ...

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]: ...


class TooLarge(Exception):  # noqa: N818 - not an error: the task is streamed instead
    """More tokens than may be held in memory."""


class InMemoryExamples:
    """Features of all examples in memory."""

    def __init__(self, features: Mapping[str, RaggedArray]) -> None:
        self._features = features
        columns = [features[name].views() for name in sorted(features)]
        # As the cache of these examples has it, so that a run may go on from there, or come from there.
        self.checksum = content_of(itertools.chain.from_iterable(zip(*columns, strict=True))).value

    def __len__(self) -> int:
        return len(next(iter(self._features.values())))

    def lengths(self, feature: str) -> np.ndarray:
        """int64 [N]."""
        return self._features[feature].lengths

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """The features of examples."""
        wanted = numbers.tolist()
        columns = [[feature[number] for number in wanted] for feature in self._features.values()]
        for name, column in zip(self._features, columns, strict=True):
            if name in _WIDTHS:
                column[:] = [array.reshape(-1, _WIDTHS[name]) for array in column]
        return [dict(zip(self._features, arrays, strict=True)) for arrays in zip(*columns, strict=True)]


def hold(definition: FileTask[Any], split: str, *, max_tokens_in_memory: int) -> InMemoryExamples:
    """Tokenises a split.

    Raises:
      TooLarge: there are more than ``max_tokens_in_memory``.
      ValueError: bad rows, or no token at all.
    """
    names = definition.feature_names()
    vocab_size = definition.tokenizer.vocab_size
    of_ids = {name: name in ("tokens", "inputs", "targets") for name in names}
    builders = {name: RaggedArrayBuilder(vocab_size if of_ids[name] else 2**31 - 1) for name in names}
    policy = RowPolicy(definition.on_bad_row)
    rows = definition.read(split, policy)
    while chunk := list(islice(rows, _AT_ONCE)):
        for example in definition.tokenize(chunk):
            for name, builder in builders.items():
                builder.extend([np.asarray(example[name]).reshape(-1)])
        num_tokens = sum(builder.num_tokens for builder in builders.values())
        if num_tokens > max_tokens_in_memory:
            raise TooLarge
    if policy.num_skipped:
        _log.warning("task %s, split %s: %s", definition.name, split, policy)
    if not num_tokens:
        raise ValueError(f"task {definition.name!r}, split {split!r}: its texts hold no token")
    return InMemoryExamples({name: builder.build() for name, builder in builders.items()})
