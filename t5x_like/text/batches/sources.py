"""Tokenised examples of one task that can be asked for by epoch and position."""

import functools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from t5x_like.text.batches.order import key_of, shuffled
from t5x_like.text.batches.ragged import Ragged
from t5x_like.text.objectives import documents
from t5x_like.text.objectives.objective import Objective

Pair = tuple[np.ndarray, np.ndarray]  # inputs and targets, int32, end of sequence included


class Source(Protocol):
    """Examples of one task. Every epoch has all of them once, in an order of its own."""

    name: str
    ahead: int  # how many examples it costs nothing to plan before they are needed

    @property
    def checksum(self) -> int | None:
        """Tells other data under the same name from this; None where that would take reading it all."""
        ...

    def remaining(self, epoch: int, position: int) -> int:
        """How many can be asked for from a position on: at least 1 until the epoch ends, then 0."""
        ...

    def lengths(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of inputs and targets at positions of an epoch, known without making the examples."""
        ...

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Pair]:
        """The examples at positions of an epoch."""
        ...

    def release(self, epoch: int, position: int) -> None:
        """Nothing before this place will be asked for again."""
        ...


class TokenisedPairs:
    """Inputs and targets held in memory."""

    def __init__(self, name: str, inputs: Ragged, targets: Ragged, *, seed: int, shuffle: bool) -> None:
        self.name = name
        self.checksum = inputs.checksum ^ targets.checksum
        self.ahead = 1024
        self._inputs, self._targets = inputs, targets
        self._lengths = inputs.lengths, targets.lengths
        self._seed, self._shuffle = seed, shuffle

    def remaining(self, epoch: int, position: int) -> int:
        """Every epoch is as long."""
        del epoch
        return len(self._inputs) - position

    def lengths(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of inputs and targets."""
        numbers = self._order(epoch)[positions]
        return self._lengths[0][numbers], self._lengths[1][numbers]

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Pair]:
        """The pairs at these places of the epoch's order."""
        order = self._order(epoch)
        return [(self._inputs[order[place]], self._targets[order[place]]) for place in positions]

    def release(self, epoch: int, position: int) -> None:
        """Nothing is held for places."""
        del epoch, position

    def _order(self, epoch: int) -> np.ndarray:
        return self._order_of(epoch) if self._shuffle else np.arange(len(self._inputs))

    @functools.lru_cache(maxsize=2)  # noqa: B019 - one for each of a run's few tasks; two epochs meet in a batch
    def _order_of(self, epoch: int) -> np.ndarray:
        return shuffled(len(self._inputs), key_of(self._seed, self.name, epoch, "order"))


class CorruptedDocuments:
    """Documents held in memory, joined, cut and corrupted anew in every epoch."""

    def __init__(
        self,
        name: str,
        tokens: Ragged,
        objective: Objective,
        *,
        inputs_length: int,
        first_sentinel: int,
        eos_id: int,
        seed: int,
        shuffle: bool,
    ) -> None:
        self.name = name
        self.checksum = tokens.checksum
        self.ahead = 1024
        self._tokens, self._objective = tokens, objective
        self._raw_length = objective.raw_length(inputs_length)
        self._first_sentinel, self._eos_id = first_sentinel, eos_id
        self._seed, self._shuffle = seed, shuffle
        table = [objective.lengths(length) for length in range(self._raw_length + 1)]
        self._length_table = np.array(table, np.int64)  # [raw length] -> inputs, targets

    @property
    def size(self) -> int:
        """Runs in the first epoch. Others differ by a few: short rests depend on which documents are
        joined."""
        return len(self._epoch(0)[0])

    def remaining(self, epoch: int, position: int) -> int:
        """Runs of the epoch from a position on."""
        return len(self._epoch(epoch)[0]) - position

    def lengths(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths follow from the number of raw tokens."""
        runs, order = self._epoch(epoch)
        lengths = self._length_table[runs.lengths[order[positions]]]
        return lengths[:, 0], lengths[:, 1]

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Pair]:
        """Corrupts the runs at these places, each by its own seed; runs of one length together."""
        runs, order = self._epoch(epoch)
        raw = [runs.tokens(int(order[place])) for place in positions]
        seed = key_of(self._seed, self.name, epoch, "corruption")[0]
        by_length: dict[int, list[int]] = {}
        for number, tokens in enumerate(raw):
            by_length.setdefault(len(tokens), []).append(number)
        pairs: list[Pair] = [(np.zeros(0), np.zeros(0))] * len(raw)
        for numbers in by_length.values():
            seeds = np.array([(seed, positions[number]) for number in numbers], np.uint64)
            stacked = np.stack([raw[number] for number in numbers])
            corrupted = self._objective.corrupt(stacked, seeds, first_sentinel=self._first_sentinel)
            inputs, targets = self._ended(corrupted.inputs), self._ended(corrupted.targets)
            for row, number in enumerate(numbers):
                pairs[number] = (inputs[row], targets[row])
        return pairs

    def release(self, epoch: int, position: int) -> None:
        """Nothing is held for places."""
        del epoch, position

    def _ended(self, tokens: np.ndarray) -> np.ndarray:
        return np.pad(tokens, ((0, 0), (0, 1)), constant_values=self._eos_id)

    @functools.lru_cache(maxsize=2)  # noqa: B019 - as above
    def _epoch(self, epoch: int) -> tuple[documents.Runs, np.ndarray]:
        keys = [key_of(self._seed, self.name, epoch, use) for use in ("documents", "chunks", "order")]
        num_documents = len(self._tokens)
        order = shuffled(num_documents, keys[0]) if self._shuffle else np.arange(num_documents)
        runs = documents.cut_into_runs(
            self._tokens.flat, self._tokens.ends, order=order, run_length=self._raw_length, key=keys[1]
        )
        return runs, shuffled(len(runs), keys[2]) if self._shuffle else np.arange(len(runs))
