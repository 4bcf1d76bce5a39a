"""What a loader reads: one task's examples, and those of all its tasks."""

from typing import Any, NamedTuple

from t5x_like.text.batches.example_sources import ExampleSource
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


class OpenedTask(NamedTuple):
    """One task's examples, and what is known of them."""

    source: ExampleSource
    spec: ExampleSpec
    vocabulary: Any  # a tokenizer, or seqio's vocabulary


class OpenedTasks(NamedTuple):
    """What a loader reads. Shares sum to 1."""

    names: list[str]
    sources: list[ExampleSource]
    shares: list[float]
    spec: ExampleSpec
    vocabulary: Any
    ids: VocabularyIds
