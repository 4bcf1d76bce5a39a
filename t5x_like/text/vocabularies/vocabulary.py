"""The vocabulary of a run: pieces or bytes, special ids and sentinels."""

import functools
import os
from typing import TYPE_CHECKING

from t5x_like.text.paths import find_file

if TYPE_CHECKING:
    import seqio

BYTES = "bytes"


def load_vocabulary(path_or_name: str | os.PathLike[str], *, num_sentinels: int = 100) -> "seqio.Vocabulary":
    """Loads the vocabulary that a path to a SentencePiece ``.model``, or the word ``bytes``, names.

    Ids are T5's: 0 padding, 1 end of sequence, 2 unknown; sentinels are the highest ids, counting down, so
    ``<extra_id_0>`` is ``vocab_size - 1``. Bytes are ByT5's: byte ``b`` is id ``b + 3``
    (Xue et al. 2022, https://arxiv.org/abs/2105.13626). A model that already holds sentinel pieces at its end
    (mT5's) gets no others.

    Text is read literally: ``<extra_id_0>`` written by a user becomes ordinary pieces, never a sentinel id,
    unlike seqio's own vocabularies. Decoding a sentinel id prints ``<extra_id_k>``.

    Raises:
      ValueError: no such file, not a SentencePiece model, or one whose special ids are not T5's.
    """
    if num_sentinels < 0:
        raise ValueError(f"num_sentinels must not be negative, got {num_sentinels}")
    name = os.fspath(path_or_name)
    return _load(name if name == BYTES else find_file(name), num_sentinels)


@functools.lru_cache(maxsize=16)
def _load(name: str, num_sentinels: int) -> "seqio.Vocabulary":
    from t5x_like.text.vocabularies import literal

    if name == BYTES:
        return literal.LiteralByteVocabulary(num_sentinels)
    return literal.load_sentencepiece(name, num_sentinels)


def first_sentinel(vocabulary: "seqio.Vocabulary") -> int:
    """The id of ``<extra_id_0>``; the k-th sentinel is ``k`` below it."""
    return vocabulary.vocab_size - 1
