"""What every pretraining objective is: a rule that turns a run of raw tokens into something to learn."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


class Corrupted(NamedTuple):
    """What the model reads and what it must write, without end of sequence. The same rows as the tokens
    given."""

    inputs: np.ndarray  # int32 [..., inputs]
    targets: np.ndarray  # int32 [..., targets]


@runtime_checkable
class Objective(Protocol):
    """A frozen dataclass with these methods. Lengths include the end of sequence, tokens do not."""

    def raw_length(self, inputs_length: int) -> int:
        """How many raw tokens make one example whose inputs fill ``inputs_length``."""
        ...

    def lengths(self, raw_length: int) -> tuple[int, int]:
        """Lengths of inputs and targets made of ``raw_length`` tokens."""
        ...

    def sentinels_needed(self, raw_length: int) -> int:
        """How many sentinels an example of ``raw_length`` tokens uses."""
        ...

    def corrupt(self, tokens: np.ndarray, seeds: np.ndarray, *, first_sentinel: int) -> Corrupted:
        """Corrupts rows of equally many tokens [..., L], each by its own seed, uint64 [..., 2]."""
        ...

    def preprocessors(self) -> Sequence[Callable[..., Any]]:
        """The same as seqio preprocessors, from tokenised documents to inputs and targets."""
        ...
