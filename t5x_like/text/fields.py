"""Features of tokenized rows, in memory and in caches: the table that tasks choose theirs from."""

from dataclasses import dataclass, replace

import numpy as np

IDS = "ids"  # the smallest integer type that holds the vocabulary's ids


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One array of every row.

    Attributes:
      name: Name of the feature.
      dtype: NumPy dtype, or ``IDS``.
      width: Second dimension of an array [length, width]; None for [length].
    """

    name: str
    dtype: str
    width: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of one position of the array."""
        return np.dtype(self.dtype).itemsize * (self.width or 1)

    def stored(self, vocab_size: int) -> "Feature":
        """Return the feature with the type in which ids of a vocabulary are stored."""
        return replace(self, dtype=token_dtype(vocab_size)) if self.dtype == IDS else self


INPUTS = Feature(name="inputs", dtype=IDS)
TARGETS = Feature(name="targets", dtype=IDS)
TOKENS = Feature(name="tokens", dtype=IDS)
SENTENCE_ENDS = Feature(name="sentence_ends", dtype="int32")
SPANS = Feature(name="spans", dtype="int32", width=2)
ENTITY_SPANS = Feature(name="spans", dtype="int32", width=3)  # with the number of an entity
ANSWERS = Feature(name="answers", dtype="int32")
REFERENCE_ENDS = Feature(name="reference_ends", dtype="int32")
ANSWER_ENDS = Feature(name="answer_ends", dtype="int32")


def token_dtype(vocab_size: int) -> str:
    """Return the smallest type for the ids of a vocabulary: uint16 if they fit, otherwise int32."""
    return "uint16" if vocab_size <= 2**16 else "int32"
