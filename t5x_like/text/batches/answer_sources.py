"""Sources of examples with several answers to a prompt, for learning from preferences."""

from collections.abc import Mapping, Sequence

import numpy as np

from t5x_like.batch import DataField
from t5x_like.text.batches.example_sources import ChatSource, PairSource
from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.objectives.causal_lm import answers_only
from t5x_like.text.objectives.objective import Example, Lengths


class PreferenceSource(PairSource):
    """Inputs with ranked answers, from the best to the worst; empty ones fill an example up to ``num_answers``."""

    def __init__(
        self,
        name: str,
        stored: ExampleStore,
        lengths: Lengths,
        *,
        end: int | None,
        seed: int,
        shuffle: bool,
        num_answers: int,
        streams: Sequence[DataField] = (),
    ) -> None:
        super().__init__(name, stored, lengths, end=end, seed=seed, shuffle=shuffle, streams=streams)
        self._num_answers = num_answers

    @property
    def num_trimmed(self) -> int:
        """Number of examples whose inputs or longest answer are longer than the limits."""
        limits, lengths = self._limits, self._stored.lengths("inputs")
        ends = (row["answer_ends"] for row in self._stored.read(np.arange(len(self._stored))))
        longest = np.array([np.diff(each, prepend=0).max() for each in ends], np.int64)
        return int(np.count_nonzero((lengths >= limits.inputs) | (longest >= limits.targets)))

    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example:
        pair = super()._example(features, epoch)
        answers = np.split(features["targets"], features["answer_ends"][:-1])
        made = [
            Example(inputs=pair.inputs, targets=self._ended(answer, self._limits.targets))
            for answer in answers
        ]
        nothing = np.zeros(0, np.int32)
        made += [Example(inputs=nothing, targets=nothing)] * (self._num_answers - len(made))
        return Example(choices=tuple(made), declared=pair.declared)


class MismatchedSource(PairSource):
    """Inputs with their own target, and with the target of the next example of the epoch."""

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of the epoch's order."""
        following = [(position + 1) % len(self._stored) for position in positions]
        own, others = (super(MismatchedSource, self).examples(epoch, each) for each in (positions, following))
        return [
            Example(
                choices=(
                    example._replace(declared={}),
                    example._replace(targets=other.targets, declared={}),
                ),
                declared=example.declared,
            )
            for example, other in zip(own, others, strict=True)
        ]


class ChatPreferenceSource(ChatSource):
    """Pairs of conversations whose last answers are compared."""

    @property
    def num_trimmed(self) -> int:
        """Number of pairs of which a conversation is longer than the limit."""
        ends = (row["answer_ends"] for row in self._stored.read(np.arange(len(self._stored))))
        longest = np.array([np.diff(each, prepend=0).max() for each in ends], np.int64)
        return int(np.count_nonzero(longest > self._limit + 1))

    def _example(self, features: Mapping[str, np.ndarray], epoch: int) -> Example:
        del epoch
        middle = int(features["answer_ends"][0])
        tokens = np.split(features["tokens"], [middle])
        answers = (features["answers"][:2], features["answers"][2:] - middle)
        pairs = zip(tokens, answers, strict=True)
        return Example(choices=tuple(answers_only(*pair, limit=self._limit) for pair in pairs))
