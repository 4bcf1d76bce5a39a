"""Tokenised examples of one task that can be asked for by epoch and position."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.objectives.causal_lm import SFT_SPEC, answers_only
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths, Objective, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


class ExampleSource(Protocol):
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


class ExampleMaker(NamedTuple):
    """How documents become examples."""

    objective: Objective
    lengths: Lengths
    ids: VocabularyIds

    def make(self, texts: Sequence[Text], seeds: np.ndarray) -> list[Example]:
        """See ``Objective.make``."""
        return self.objective.make(texts, seeds, self.lengths, self.ids)


class StoredSource:
    """What sources over stored features share. An epoch is one stretch, and nothing is held for places."""

    def __init__(self, name: str, stored: ExampleStore, *, seed: int, shuffle: bool) -> None:
        self.name, self.checksum = name, stored.checksum
        self._stored, self._seed, self._shuffle = stored, seed, shuffle

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """See ``ExampleSource.following``."""
        del position
        return epoch + 1, 0

    def release(self, epoch: int, position: int) -> None:
        """See ``ExampleSource.release``."""
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


class ChatSource(IndexedSource):
    """Conversations by number, of which the answers are learned; those that are too long are cut at their end."""

    def __init__(
        self, name: str, stored: ExampleStore, lengths: Lengths, *, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, stored, seed=seed, shuffle=shuffle)
        self._limit = lengths.targets

    @property
    def num_trimmed(self) -> int:
        """Number of conversations longer than the limit."""
        return int(np.count_nonzero(self._stored.lengths("tokens") > self._limit + 1))

    def _example(self, features: Mapping[str, np.ndarray]) -> Example:
        return answers_only(features["tokens"], features["answers"], limit=self._limit)


class DecoderSource:
    """Joins inputs and targets of another source into one stream for a decoder.

    With "bidirectional" prefix attention all positions see the inputs, as in seqio's converter for prefix language
    models (Raffel et al. 2020, §3.2.1). With "causal" the inputs are read in order, as GPT does; see ``answers_only``.
    """

    SPEC = ExampleSpec(layout="decoder", fields=("weights", "prefix"))

    def __init__(
        self,
        source: ExampleSource,
        lengths: Lengths,
        *,
        prefix_attention: PrefixAttention = "bidirectional",
        loss_on_targets_only: bool = True,
    ) -> None:
        if lengths.inputs >= lengths.targets:
            raise ValueError(
                f"a decoder's stream of targets_length={lengths.targets} has no room for answers after inputs of "
                f"inputs_length={lengths.inputs}; raise the one or lower the other"
            )
        self.name, self.checksum = source.name, source.checksum
        self.remaining, self.following, self.release = source.remaining, source.following, source.release
        self._source, self._limit = source, lengths.targets
        self._is_bidirectional = prefix_attention == "bidirectional"
        self._loss_on_targets_only = loss_on_targets_only
        self.spec = self.SPEC if self._is_bidirectional else SFT_SPEC

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Returns inputs followed by targets."""
        pairs = self._source.examples(epoch, positions)
        only = self._loss_on_targets_only
        if self._is_bidirectional:
            return [to_decoder_example(pair, loss_on_targets_only=only) for pair in pairs]
        return [_to_causal_example(pair, self._limit, only) for pair in pairs]


def _to_causal_example(pair: Example, limit: int, loss_on_targets_only: bool) -> Example:
    assert pair.inputs is not None
    assert pair.targets is not None
    tokens = np.concatenate([pair.inputs, pair.targets])
    start = len(pair.inputs) if loss_on_targets_only else 0
    return answers_only(tokens, np.array([start, len(tokens)]), limit=limit)


def to_decoder_example(pair: Example, *, loss_on_targets_only: bool = True) -> Example:
    """Returns inputs, then targets, with weight 0 on the inputs if only targets count in the loss.

    The first target is predicted from the last input token, so that position is part of the prefix.
    """
    assert pair.inputs is not None
    assert pair.targets is not None
    sides = len(pair.inputs), len(pair.targets)
    weights = np.ones(sides[1], np.float32) if pair.weights is None else pair.weights
    return Example(
        targets=np.concatenate([pair.inputs, pair.targets]),
        weights=np.concatenate([np.full(sides[0], not loss_on_targets_only, np.float32), weights]),
        prefix=(np.arange(sum(sides)) <= sides[0]).astype(np.int32),
    )
