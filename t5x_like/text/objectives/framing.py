"""Inputs of BERT-style encoders: one or two segments between special ids."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Example, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


class FramedTexts(NamedTuple):
    """N token rows, padded to the longest with special ids.

    Attributes:
      tokens: Ids, int32 [N, M].
      is_text: bool [N, M], false for special ids and padding.
      lengths: Row lengths with special ids, int64 [N].
      second: Start of segment B, int64 [N]; the row's length if there is none.
      texts: Source texts.
    """

    tokens: np.ndarray
    is_text: np.ndarray
    lengths: np.ndarray
    second: np.ndarray
    texts: Sequence[Text]


class MaskedTexts(NamedTuple):
    """Framed rows after masking.

    Attributes:
      inputs: Corrupted ids, int32 [N, M].
      is_target: Positions to predict, bool [N, M].
    """

    inputs: np.ndarray
    is_target: np.ndarray


def require_frame(ids: VocabularyIds, *, min_tokens: int, limit: int, num_special: int) -> None:
    """Check that the vocabulary has mask, cls and sep, and that rows are long enough for a text.

    Args:
      ids: Special ids of the vocabulary.
      min_tokens: Text tokens that a row must be able to hold.
      limit: Maximum row length.
      num_special: Special ids of a row.

    Raises:
      ValueError: Lists the missing ids, or the length needed.
    """
    require_ids({name: getattr(ids, name) for name in ("mask", "cls", "sep")})
    if limit - num_special < min_tokens:
        raise ValueError(
            f"inputs_length of {limit} holds {num_special} special ids and {limit - num_special} others, {min_tokens} "
            f"are needed; set it to {min_tokens + num_special} or more"
        )


def require_ids(ids: Mapping[str, int | None]) -> None:
    """Check that a vocabulary has all of these ids, given by name.

    Raises:
      ValueError: Lists those that are None.
    """
    missing = [name for name, token_id in ids.items() if token_id is None]
    if missing:
        raise ValueError(
            f"the vocabulary has no id for {', '.join(missing)}; raise num_sentinels so that sentinels can take their "
            "place, or use a vocabulary of BERT's kind"
        )


def special_ids(ids: VocabularyIds) -> np.ndarray:
    """Return a mask of pad, eos, bos, cls, sep, mask and sentinels, bool [vocab_size].

    The unknown id is not special: it represents a word.
    """
    is_special = np.zeros(ids.vocab_size, bool)
    named = (ids.pad, ids.eos, ids.bos, ids.cls, ids.sep, ids.mask)
    is_special[[token_id for token_id in named if token_id is not None and token_id < ids.vocab_size]] = True
    is_special[ids.first_sentinel + 1 - ids.num_sentinels : ids.first_sentinel + 1] = True
    return is_special


def ordinary_ids(ids: VocabularyIds) -> np.ndarray:
    """Return the ids that may replace a token, int32 [R]: neither special nor unknown."""
    is_ordinary = ~special_ids(ids)
    if ids.unk is not None:
        is_ordinary[ids.unk] = False
    return np.flatnonzero(is_ordinary).astype(np.int32)


def frame(texts: Sequence[Text], ids: VocabularyIds) -> FramedTexts:
    """Build rows ``[CLS] A [SEP]``, or ``[CLS] A [SEP] B [SEP]`` for texts of two segments.

    Devlin et al. 2019, §3, https://arxiv.org/abs/1810.04805.

    Args:
      texts: Texts of one or two segments.
      ids: Special ids of the vocabulary, with ``cls`` and ``sep``.
    """
    assert ids.cls is not None, "check refuses such vocabularies"
    assert ids.sep is not None, "check refuses such vocabularies"
    sizes = np.array([len(text.tokens) for text in texts], np.int64)
    firsts = np.array([text.second for text in texts], np.int64)
    has_two = firsts < sizes
    lengths = sizes + 2 + has_two
    # Padding is a special id too, so that nothing after the end counts as text.
    tokens = np.full((len(texts), lengths.max(initial=1)), ids.cls, np.int32)
    for row, text, first, two in zip(tokens, texts, firsts.tolist(), has_two.tolist(), strict=True):
        row[1 : first + 1] = text.tokens[:first]
        row[first + 1] = ids.sep
        if two:
            end = len(text.tokens) + 2
            row[first + 2 : end] = text.tokens[first:]
            row[end] = ids.sep
    return FramedTexts(
        tokens=tokens,
        is_text=~special_ids(ids)[tokens],
        lengths=lengths,
        second=np.where(has_two, firsts + 2, lengths),
        texts=texts,
    )


def to_examples(framed: FramedTexts, masked: MaskedTexts, *, pairs: bool = False) -> list[Example]:
    """Convert masked rows to examples whose targets are the original rows.

    Args:
      framed: Original rows.
      masked: Rows after masking; positions to predict have loss weight 1.
      pairs: Give segment B token type 1, and the example its text's label.
    """
    arrays = {
        "inputs": masked.inputs,
        "targets": framed.tokens,
        "weights": masked.is_target.astype(np.float32),
    }
    if not pairs:
        return rows_to_examples(framed.lengths, **arrays)
    arrays["token_types"] = (np.arange(framed.tokens.shape[1]) >= framed.second[:, None]).astype(np.int32)
    return rows_to_examples(framed.lengths, [text.label for text in framed.texts], **arrays)


def rows_to_examples(
    lengths: np.ndarray, labels: Sequence[int] | None = None, **arrays: np.ndarray
) -> list[Example]:
    """Convert padded rows to examples.

    Args:
      lengths: Length of each row, int64 [N].
      labels: Label of each row; None for none.
      **arrays: Fields of ``Example`` [N, M].
    """
    labels = [-1] * len(lengths) if labels is None else labels
    return [
        Example(label=label)._replace(**{name: array[row, :end] for name, array in arrays.items()})
        for row, (end, label) in enumerate(zip(lengths.tolist(), labels, strict=True))
    ]
