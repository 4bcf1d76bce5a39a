"""What a loader reads: one task's examples, and those of all its tasks."""

from typing import Any, NamedTuple

from t5x_like.text.batches.sources import Source
from t5x_like.text.objectives.objective import Traits
from t5x_like.text.vocabularies.ids import Ids


class OpenedTask(NamedTuple):
    """One task's examples, and what is known of them."""

    source: Source
    traits: Traits
    vocabulary: Any  # a tokenizer, or seqio's vocabulary


class OpenedTasks(NamedTuple):
    """What a loader reads. Shares sum to 1."""

    names: list[str]
    sources: list[Source]
    shares: list[float]
    traits: Traits
    vocabulary: Any
    ids: Ids
