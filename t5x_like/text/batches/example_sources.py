"""Sources of tokenized examples of one task, addressed by epoch and position."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from t5x_like.batch import DataField
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.objectives.causal_lm import SFT_SPEC, answers_only
from t5x_like.text.objectives.masked_targets import MaskedTargets
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths, Objective, Text
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


class ExampleSource(Protocol):
    """Examples of one task. Every epoch contains all of them once, in its own order."""

    name: str

    @property
    def checksum(self) -> int | None:
        """Hash of the data; None if that would require reading all of it."""
        ...

    @property
    def size(self) -> int | None:
        """Number of examples of the first epoch; None if that would require reading all of it."""
        ...

    def remaining(self, epoch: int, position: int) -> int:
        """Return the number of examples left in the current block; 0 at its end.

        Args:
          epoch: Number of the epoch.
          position: Position of the next example.
        """
        ...

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the position after a block: in the same epoch, or position 0 of the next one.

        Args:
          epoch: Number of the epoch.
          position: Position at the end of a block.
        """
        ...

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return some examples of an epoch.

        Args:
          epoch: Number of the epoch.
          positions: Positions of the examples.
        """
        ...

    def release(self, epoch: int, position: int) -> None:
        """Free memory of examples that won't be requested again.

        Args:
          epoch: Number of the epoch.
          position: Position after those examples.
        """
        ...


@runtime_checkable
class SizedSource(Protocol):
    """Examples whose lengths are known before they are made, so that batches can have similar ones."""

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """Return the lengths of some examples, int64 [N].

        Args:
          epoch: Number of the epoch.
          positions: Positions of the examples.
        """
        ...


class OpenedTask(NamedTuple):
    """Examples of one task.

    Attributes:
      source: The examples.
      spec: Their properties.
      vocabulary: Tokenizer, or seqio's vocabulary.
    """

    source: ExampleSource
    spec: ExampleSpec
    vocabulary: Any


class OpenedTasks(NamedTuple):
    """Examples of all tasks of a loader.

    Attributes:
      names: Names of the tasks.
      sources: Examples of each task.
      shares: Fraction of the examples drawn from each task; they sum to 1.
      spec: Common properties of the examples.
      vocabulary: Common tokenizer, or seqio's vocabulary.
      ids: Special ids of the vocabulary.
    """

    names: list[str]
    sources: list[ExampleSource]
    shares: list[float]
    spec: ExampleSpec
    vocabulary: Any
    ids: VocabularyIds


class ExampleMaker(NamedTuple):
    """Conversion of texts to examples.

    Attributes:
      objective: Pretraining objective.
      lengths: Maximum lengths of both streams.
      ids: Special ids of the vocabulary.
    """

    objective: Objective
    lengths: Lengths
    ids: VocabularyIds

    def make(self, texts: Sequence[Text], seeds: np.ndarray) -> list[Example]:
        """Return one example per text.

        Args:
          texts: Texts of the objective's ``cut``.
          seeds: Seed of each text, uint64 [N, 2].
        """
        return self.objective.make(texts, seeds, self.lengths, self.ids)


class _Data(Protocol):
    @property
    def checksum(self) -> int: ...

    def __len__(self) -> int: ...


_DataType = TypeVar("_DataType", bound=_Data)


class StoredSource(Generic[_DataType]):
    """Base of sources over stored examples; by default an epoch is one block with every example once."""

    def __init__(self, name: str, stored: _DataType, *, seed: int, shuffle: bool) -> None:
        self.name, self.checksum = name, stored.checksum
        self._stored, self._seed, self._shuffle = stored, seed, shuffle

    @property
    def size(self) -> int:
        """Number of examples of an epoch."""
        return self.remaining(0, 0)

    def remaining(self, epoch: int, position: int) -> int:
        """Return the number of examples left; see ``ExampleSource.remaining``."""
        del epoch
        return len(self._stored) - position

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the start of the next epoch; see ``ExampleSource.following``."""
        del position
        return epoch + 1, 0

    def release(self, epoch: int, position: int) -> None:
        """Do nothing: nothing is kept in memory per position."""
        del epoch, position

    def _ordered(self, positions: np.ndarray, epoch: int, use: str) -> np.ndarray:
        """Return indices of the examples at these positions, in an order drawn for the epoch or in stored order."""
        if not self._shuffle:
            return positions
        return permuted(positions, len(self._stored), key_of(self._seed, self.name, epoch, use))


class IndexedSource(StoredSource[ExampleStore], ABC):
    """Source with one example for each stored one."""

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of the epoch's order."""
        numbers = self._ordered(np.asarray(positions, np.int64), epoch, "order")
        return [self._example(features, epoch) for features in self._stored.read(numbers)]

    @abstractmethod
    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example: ...


class PairSource(IndexedSource):
    """Inputs and targets, cut to the limits and ended; with ``end=None`` they are used as stored."""

    def __init__(
        self,
        name: str,
        stored: ExampleStore,
        lengths: Lengths,
        *,
        end: int | None,
        seed: int,
        shuffle: bool,
        streams: Sequence[DataField] = (),
    ) -> None:
        super().__init__(name, stored, seed=seed, shuffle=shuffle)
        self._limits, self._end, self._streams = lengths, end, streams

    @property
    def num_trimmed(self) -> int | None:
        """Number of examples longer than the limits; None if they were cut before storing."""
        if self._end is None:
            return None
        too_long = [self._stored.lengths(name) >= limit for name, limit in self._limits._asdict().items()]
        return int(np.count_nonzero(np.logical_or(*too_long)))

    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example:
        del epoch
        return Example(
            inputs=self._ended(features["inputs"], self._limits.inputs),
            targets=self._ended(features["targets"], self._limits.targets),
            declared={each.name: features[each.name][0] for each in self._streams},
        )

    def _ended(self, tokens: np.ndarray, limit: int) -> np.ndarray:
        if self._end is None:
            return tokens.astype(np.int32)
        return np.append(tokens[: limit - 1], self._end).astype(np.int32)


class ReferenceSource(PairSource):
    """Inputs with one of several targets, the next one in each epoch."""

    @property
    def num_trimmed(self) -> None:
        """None: the lengths of single references aren't counted."""

    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example:
        ends = features["reference_ends"]
        reference = epoch % len(ends)
        start = ends[reference - 1] if reference else 0
        return super()._example({**features, "targets": features["targets"][start : ends[reference]]}, epoch)


class ChatSource(IndexedSource):
    """Conversations whose answers are learned; those that are too long are cut at their end."""

    def __init__(
        self, name: str, stored: ExampleStore, lengths: Lengths, *, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, stored, seed=seed, shuffle=shuffle)
        self._limit = lengths.targets

    @property
    def num_trimmed(self) -> int:
        """Number of conversations longer than the limit."""
        return int(np.count_nonzero(self._stored.lengths("tokens") > self._limit + 1))

    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example:
        del epoch
        return answers_only(features["tokens"], features["answers"], limit=self._limit)


class DecoderSource:
    """Joins inputs and targets of another source into one stream for a decoder.

    With "bidirectional" prefix attention all positions attend to the inputs, as in seqio's converter for prefix
    language models (Raffel et al. 2020, §3.2.1). With "causal" the inputs are read in order, as in GPT; see
    ``answers_only``.
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
                f"a decoder's stream of targets_length={lengths.targets} is too short for answers after inputs of "
                f"inputs_length={lengths.inputs}; raise the one or lower the other"
            )
        self.name, self.checksum, self.size = source.name, source.checksum, source.size
        self.remaining, self.following, self.release = source.remaining, source.following, source.release
        self._source, self._limit = source, lengths.targets
        self._is_bidirectional = prefix_attention == "bidirectional"
        self._loss_on_targets_only = loss_on_targets_only

    @classmethod
    def spec_for(cls, prefix_attention: PrefixAttention, pairs: ExampleSpec) -> ExampleSpec:
        """Return the properties of the joined examples of pairs.

        Args:
          prefix_attention: Attention within inputs.
          pairs: Properties of the pairs.
        """
        spec = cls.SPEC if prefix_attention == "bidirectional" else SFT_SPEC
        return spec.with_streams(pairs.streams)._replace(
            num_choices=pairs.num_choices, fills_rows=pairs.fills_rows or bool(pairs.num_choices)
        )

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return examples of inputs followed by targets."""
        return [self._joined(pair) for pair in self._source.examples(epoch, positions)]

    def _joined(self, pair: Example) -> Example:
        if pair.choices:
            return pair._replace(choices=tuple(self._joined(each) for each in pair.choices))
        only = self._loss_on_targets_only
        if self._is_bidirectional:
            joined = to_decoder_example(pair, loss_on_targets_only=only)
        else:
            joined = _to_causal_example(pair, self._limit, only)
        return joined._replace(declared=pair.declared)


class MaskedTargetSource:
    """Inputs and targets of another source as rows of a generative encoder, with other masks in each epoch."""

    def __init__(
        self,
        source: PairSource,
        objective: MaskedTargets,
        ids: VocabularyIds,
        *,
        seed: int,
        pairs: ExampleSpec,
    ) -> None:
        self.name, self.checksum, self.size = source.name, source.checksum, source.size
        self.spec = objective.spec.with_streams(pairs.streams)
        self.remaining, self.following, self.release = source.remaining, source.following, source.release
        self._source, self._objective, self._ids, self._seed = source, objective, ids, seed

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return masked rows; each has the seed of its position in the epoch."""
        key = key_of(self._seed, self.name, epoch, "corruption")
        seeds = seeds_of_rows(key, np.asarray(positions, np.int64))
        pairs = self._source.examples(epoch, positions)
        rows = self._objective.make(pairs, seeds, self._ids)
        return [row._replace(declared=pair.declared) for row, pair in zip(rows, pairs, strict=True)]


def _to_causal_example(pair: Example, limit: int, loss_on_targets_only: bool) -> Example:
    assert pair.inputs is not None
    assert pair.targets is not None
    tokens = np.concatenate([pair.inputs, pair.targets])
    start = len(pair.inputs) if loss_on_targets_only else 0
    return answers_only(tokens, np.array([start, len(tokens)]), limit=limit)


def to_decoder_example(pair: Example, *, loss_on_targets_only: bool = True) -> Example:
    """Join inputs and targets into one stream with a bidirectional prefix.

    The first target is predicted from the last input token, so that position is part of the prefix.

    Args:
      pair: Example with inputs and targets.
      loss_on_targets_only: Give inputs weight 0.
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
