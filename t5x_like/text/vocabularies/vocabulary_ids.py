"""Vocabulary ids that objectives need: special ids, sentinels, and word starts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from t5x_like.text.vocabularies.roles import count_own_sentinels
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# Absent ones of these are replaced by the last sentinels, in this order.
_FROM_SENTINELS = ("mask", "cls", "sep", "bos")


@dataclass(frozen=True, kw_only=True)
class VocabularyIds(SpecialTokenIds):
    """Ids of a vocabulary without its text.

    Attributes:
      vocab_size: Number of ids.
      first_sentinel: First sentinel; the k-th is k below it.
      num_sentinels: Number of sentinels available for spans.
      starts_word: Pieces that start a word, bool [vocab_size]; None if pieces don't determine it.
    """

    vocab_size: int
    first_sentinel: int
    num_sentinels: int
    starts_word: np.ndarray | None = None


def ids_of(tokenizer: object) -> VocabularyIds:
    """Return the ids of a tokenizer (``open_tokenizer``), a vocabulary (``load_vocabulary``), or a seqio vocabulary.

    T5's vocabularies have no mask, cls, sep and bos. Each absent one is replaced by one of the last sentinels, whose
    ids are the lowest: first the mask, then cls, sep and bos. ``num_sentinels`` counts the remaining ones.

    >>> ids = ids_of(load_vocabulary("bytes", num_sentinels=100))  # doctest: +SKIP
    >>> ids.first_sentinel, ids.num_sentinels, ids.mask, ids.cls, ids.sep, ids.bos  # doctest: +SKIP
    (358, 96, 259, 260, 261, 262)

    ``starts_word`` is true for a piece that starts a word: ``▁the``, ``Ġthe``, ``the`` in contrast to ``##the``, and
    every special id. For bytes and characters, white space starts the word after it. The first piece of a text starts
    a word in any case.
    """
    core = getattr(tokenizer, "core", tokenizer)
    if isinstance(core, Tokenizer):
        special, size, left, starts_word = (
            core.special,
            core.vocab_size,
            core.num_sentinels,
            core.starts_word(),
        )
    else:
        special, size, left, starts_word = _of_seqio(tokenizer)
    roles: dict[str, Any] = {**special.by_role}
    for name in _FROM_SENTINELS:
        if roles[name] is None and left:
            left -= 1
            roles[name] = size - 1 - left
    return VocabularyIds(
        vocab_size=size, first_sentinel=size - 1, num_sentinels=left, starts_word=starts_word, **roles
    )


def _of_seqio(vocabulary: Any) -> tuple[SpecialTokenIds, int, int, np.ndarray | None]:
    """Return special ids, size, sentinels and word starts of seqio's own vocabularies, used by users' tasks."""
    try:
        bos = vocabulary.bos_id
    except NotImplementedError:
        bos = None
    special = SpecialTokenIds(
        pad=vocabulary.pad_id,
        eos=vocabulary.eos_id,
        bos=bos if bos is not None and bos >= 0 else None,
        unk=getattr(vocabulary, "unk_id", None),
    )
    pieces = getattr(vocabulary, "tokenizer", None)
    if pieces is None or not hasattr(pieces, "IdToPiece"):
        return special, int(vocabulary.vocab_size), vocabulary.extra_ids, None
    size = pieces.GetPieceSize()
    starts = [pieces.IsControl(n) or pieces.IdToPiece(n).startswith("▁") for n in range(size)]
    return special, size, count_own_sentinels(pieces.IdToPiece, size), np.array(starts, bool)
