"""Tokenised examples of one task that can be asked for by epoch and position."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.objectives import sft
from t5x_like.text.objectives.objective import Example, Lengths, Objective, Text, Traits
from t5x_like.text.vocabularies.ids import Ids

Prompts = Literal["prefix", "causal"]
Learn = Literal["targets", "all"]


class Source(Protocol):
    """Examples of one task. Every epoch has all of them once, in an order of its own."""

    name: str

    @property
    def checksum(self) -> int | None:
        """Tells other data under the same name from this; None where that would take reading it all."""
        ...

    def remaining(self, epoch: int, position: int) -> int:
        """How many can be asked for from a position on: those of one stretch, at whose end there are 0."""
        ...

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Where it goes on after a stretch: in the same epoch, or at position 0 of the next one."""
        ...

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """The examples at positions of an epoch."""
        ...

    def release(self, epoch: int, position: int) -> None:
        """Nothing before this place will be asked for again."""
        ...


class Making(NamedTuple):
    """How documents become examples."""

    objective: Objective
    lengths: Lengths
    ids: Ids

    def make(self, texts: Sequence[Text], seeds: np.ndarray) -> list[Example]:
        """See ``Objective.make``."""
        return self.objective.make(texts, seeds, self.lengths, self.ids)


class StoredSource:
    """What sources over stored features share. An epoch is one stretch, and nothing is held for places."""

    def __init__(self, name: str, stored: ExampleStore, *, seed: int, shuffle: bool) -> None:
        self.name, self.checksum = name, stored.checksum
        self._stored, self._seed, self._shuffle = stored, seed, shuffle

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """See ``Source.following``."""
        del position
        return epoch + 1, 0

    def release(self, epoch: int, position: int) -> None:
        """See ``Source.release``."""
        del epoch, position

    def _ordered(self, places: np.ndarray, epoch: int, use: str) -> np.ndarray:
        """What stands at these places in an order drawn for the epoch, or in the stored one."""
        if not self._shuffle:
            return places
        return permuted(places, len(self._stored), key_of(self._seed, self.name, epoch, use))


class IndexedSource(StoredSource, ABC):
    """One example of each that is stored."""

    def remaining(self, epoch: int, position: int) -> int:
        """Every epoch is as long."""
        del epoch
        return len(self._stored) - position

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """What is at these places of the epoch's order."""
        numbers = self._ordered(np.asarray(positions, np.int64), epoch, "order")
        return [self._example(features) for features in self._stored.read(numbers)]

    @abstractmethod
    def _example(self, features: Mapping[str, np.ndarray]) -> Example: ...


class PairSource(IndexedSource):
    """Inputs and targets by number, cut to the limits and ended; ``end=None`` leaves them as they are stored."""

    def __init__(
        self, name: str, stored: ExampleStore, lengths: Lengths, *, end: int | None, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, stored, seed=seed, shuffle=shuffle)
        self._limits, self._end = lengths, end

    @property
    def num_trimmed(self) -> int | None:
        """How many are longer than the limits; not known of what came cut already."""
        if self._end is None:
            return None
        too_long = [self._stored.lengths(name) >= limit for name, limit in self._limits._asdict().items()]
        return int(np.count_nonzero(np.logical_or(*too_long)))

    def _example(self, features: Mapping[str, np.ndarray]) -> Example:
        return Example(
            inputs=self._ended(features["inputs"], self._limits.inputs),
            targets=self._ended(features["targets"], self._limits.targets),
        )

    def _ended(self, tokens: np.ndarray, limit: int) -> np.ndarray:
        if self._end is None:
            return tokens.astype(np.int32)
        return np.append(tokens[: limit - 1], self._end).astype(np.int32)


class AsDecoder:
    """Another source's inputs and targets in one stream, of which only the targets are learned, or ``all``.

    As ``prefix``, all see the inputs: what seqio's converter for prefix language models makes of them (Raffel et al.
    2020, §3.2.1; its ``loss_on_targets_only`` is ``learn="targets"``). As ``causal``, inputs are read in order, as GPT
    has learned to: see ``answers_only``.
    """

    TRAITS = Traits(layout="decoder", fields=("weights", "prefix"))

    def __init__(
        self, source: Source, lengths: Lengths, *, prompts: Prompts = "prefix", learn: Learn = "targets"
    ) -> None:
        if lengths.inputs >= lengths.targets:
            raise ValueError(
                f"a decoder's stream of targets_length={lengths.targets} has no room for answers after inputs of "
                f"inputs_length={lengths.inputs}; raise the one or lower the other"
            )
        self.name, self.checksum = source.name, source.checksum
        self.remaining, self.following, self.release = source.remaining, source.following, source.release
        self._source, self._limit = source, lengths.targets
        self._is_prefix = prompts == "prefix"
        self._learn: Learn = learn
        self.traits = self.TRAITS if self._is_prefix else sft.TRAITS

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Inputs followed by targets. What comes first of these is foretold by the inputs, so it sees them all."""
        examples = self._source.examples(epoch, positions)
        if self._is_prefix:
            return [as_decoder(example, learn=self._learn) for example in examples]
        return [_in_order(example, self._limit, self._learn) for example in examples]


def _in_order(example: Example, limit: int, learn: Learn) -> Example:
    assert example.inputs is not None
    assert example.targets is not None
    tokens = np.concatenate([example.inputs, example.targets])
    start = 0 if learn == "all" else len(example.inputs)
    return sft.answers_only(tokens, np.array([start, len(tokens)]), limit=limit)


def as_decoder(example: Example, *, learn: Learn = "targets") -> Example:
    """Inputs, then targets, with weight 0 on the inputs unless ``all`` is learned."""
    assert example.inputs is not None
    assert example.targets is not None
    sides = len(example.inputs), len(example.targets)
    weights = np.ones(sides[1], np.float32) if example.weights is None else example.weights
    return Example(
        targets=np.concatenate([example.inputs, example.targets]),
        weights=np.concatenate([np.full(sides[0], learn == "all", np.float32), weights]),
        prefix=(np.arange(sum(sides)) <= sides[0]).astype(np.int32),
    )
