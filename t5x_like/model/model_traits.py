"""Properties of a model that decide which data it can learn from, and what a run of it begins with."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np


class CarriedMemory(NamedTuple):
    """Memory of the batch before, which rows must continue.

    Attributes:
      setting: Beginning of a sentence that names it, such as ``"the model remembers 8 positions of …"``.
      without: Setting of a model without it.
      is_backward: Whether the model reads rows from their end.
      reuse_length: Tokens of a row that the next row continues; ``None`` for all.
    """

    setting: str
    without: str
    is_backward: bool = False
    reuse_length: int | None = None


class ModelTraits:
    """Base of model configurations; the values here are those of most models.

    Attributes:
      can_pack: Whether a row may have several examples.
      hides_targets: Whether the model predicts a token without reading it, so that inputs may show the targets.
    """

    can_pack: ClassVar[bool] = True

    @property
    def hides_targets(self) -> bool:
        """Return whether inputs may show the targets."""
        return False

    @property
    def carried_memory(self) -> CarriedMemory | None:
        """Memory of the batch before; ``None`` for a model without one."""
        return None

    @property
    def unlabeled_loss(self) -> str | None:
        """Setting by which the model learns from rows without labels; ``None`` if it doesn't."""
        return None

    def check_vocabulary(self, vocabulary: Any) -> None:
        """Check that the model can read a vocabulary, apart from its size.

        Args:
          vocabulary: A tokenizer, or a vocabulary that has one.

        Raises:
          ValueError: Its pieces are of another kind than the model reads.
        """

    @property
    def vocabulary_weights(self) -> tuple[str, ...]:
        """Paths of constant weights that follow from the vocabulary."""
        return ()

    def weights_of_vocabulary(self, vocabulary: Any) -> Mapping[str, np.ndarray]:
        """Return the weights at ``vocabulary_weights``.

        Args:
          vocabulary: A tokenizer, or a vocabulary that has one.

        Raises:
          ValueError: Its pieces are of another kind than the model reads.
        """
        return {}

    def trained_by_default(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return the patterns of weights that train where an experiment gives none.

        Args:
          paths: Paths of all weights.
        """
        return ("*",)


def traits_of(config: Any) -> ModelTraits:
    """Return a configuration as ``ModelTraits``; one of another base class has the values of most models."""
    return config if isinstance(config, ModelTraits) else ModelTraits()
