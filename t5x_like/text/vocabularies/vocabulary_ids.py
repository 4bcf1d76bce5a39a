"""The ids that objectives need of a vocabulary: special ones, sentinels, and where words begin."""

from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.vocabularies.roles import count_own_sentinels
from t5x_like.text.vocabularies.tokenizer import Special, Tokenizer

# What a vocabulary lacks of these takes the place of its last sentinels, in this order.
_LENT = ("mask", "cls", "sep", "bos")


class VocabularyIds(NamedTuple):
    """A vocabulary as objectives see it, without its text. ``None`` where there is no such id."""

    vocab_size: int
    pad: int | None
    eos: int | None
    bos: int | None
    unknown: int | None
    cls: int | None
    sep: int | None
    mask: int | None
    first_sentinel: int  # the k-th sentinel is k below it
    num_sentinels: int  # that are left for spans
    starts_word: np.ndarray | None  # bool [vocab_size]; None where a piece doesn't tell


def ids_of(tokenizer: Any) -> VocabularyIds:
    """The ids of a tokenizer (``open_tokenizer``), of a vocabulary (``load_vocabulary``), or of seqio's own.

    T5's vocabularies have no ids for mask, classification, separation and beginning of sequence. Each one that
    is missing is lent by the last sentinels, whose ids are the lowest: the mask first, then cls, sep and bos.
    ``num_sentinels`` counts those that are left.

    >>> ids = ids_of(load_vocabulary("bytes", num_sentinels=100))  # doctest: +SKIP
    >>> ids.first_sentinel, ids.num_sentinels, ids.mask, ids.cls, ids.sep, ids.bos  # doctest: +SKIP
    (358, 96, 259, 260, 261, 262)

    ``starts_word`` is true for a piece that begins a word: ``▁the``, ``Ġthe``, ``the`` where WordPiece would
    write ``##the`` inside one, and every special id. Of bytes and characters, white space begins the word that
    follows it. The first piece of a text begins a word whatever this says.
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
    lent = {name: getattr(special, name) for name in _LENT}
    for name in _LENT:
        if lent[name] is None and left:
            left -= 1
            lent[name] = size - 1 - left
    return VocabularyIds(
        vocab_size=size,
        pad=special.pad,
        eos=special.eos,
        unknown=special.unknown,
        first_sentinel=size - 1,
        num_sentinels=left,
        starts_word=starts_word,
        **lent,
    )


def _of_seqio(vocabulary: Any) -> tuple[Special, int, int, np.ndarray | None]:
    """What seqio's own vocabularies tell: those of tasks that users register themselves."""
    try:
        bos = vocabulary.bos_id
    except NotImplementedError:
        bos = None
    special = Special(
        pad=vocabulary.pad_id,
        eos=vocabulary.eos_id,
        bos=bos if bos is not None and bos >= 0 else None,
        unknown=vocabulary.unk_id,
    )
    pieces = getattr(vocabulary, "tokenizer", None)
    if pieces is None or not hasattr(pieces, "IdToPiece"):
        return special, vocabulary.vocab_size, vocabulary.extra_ids, None
    size = pieces.GetPieceSize()
    starts = [pieces.IsControl(n) or pieces.IdToPiece(n).startswith("▁") for n in range(size)]
    return special, size, count_own_sentinels(pieces.IdToPiece, size), np.array(starts, bool)
