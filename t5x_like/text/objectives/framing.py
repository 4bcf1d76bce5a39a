"""Texts as an encoder of BERT's kind reads them: one or two segments between special ids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Example, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


class FramedTexts(NamedTuple):
    """N rows as long as the longest; behind the end of a shorter one stands nothing to be read."""

    tokens: np.ndarray  # int32 [N, M]
    is_text: np.ndarray  # bool [N, M], false at special ids and behind the end
    lengths: np.ndarray  # int64 [N], special ids included
    second: np.ndarray  # int64 [N], where segment B begins; the length where there is none
    texts: Sequence[Text]


class MaskedTexts(NamedTuple):
    """What became of framed rows."""

    inputs: np.ndarray  # int32 [N, M]
    is_target: np.ndarray  # bool [N, M], what is to be predicted


def require_frame(ids: VocabularyIds, *, room: int, limit: int, special: int) -> None:
    """Refuses vocabularies and limits that leave no place for a text.

    Raises:
      ValueError: says which ids are missing, or which length is needed.
    """
    missing = [name for name in ("mask", "cls", "sep") if getattr(ids, name) is None]
    if missing:
        raise ValueError(
            f"the vocabulary has no id for {', '.join(missing)}; use one of BERT's kind, or raise num_sentinels "
            "so that sentinels can stand for them"
        )
    if limit - special < room:
        raise ValueError(
            f"inputs_length of {limit} holds {special} special ids and {limit - special} others, {room} are "
            f"needed; set it to {room + special} or more"
        )


def special_ids(ids: VocabularyIds) -> np.ndarray:
    """bool [vocab_size]: padding, ends, beginnings, classification, separation, mask and sentinels.

    Not the unknown piece, which stands for a word.
    """
    is_special = np.zeros(ids.vocab_size, bool)
    named = (ids.pad, ids.eos, ids.bos, ids.cls, ids.sep, ids.mask)
    is_special[[number for number in named if number is not None and number < ids.vocab_size]] = True
    is_special[ids.first_sentinel + 1 - ids.num_sentinels : ids.first_sentinel + 1] = True
    return is_special


def drawable(ids: VocabularyIds) -> np.ndarray:
    """int32 [R]: the ids that may stand for a word: all but special ones and the unknown."""
    is_drawable = ~special_ids(ids)
    if ids.unknown is not None:
        is_drawable[ids.unknown] = False
    return np.flatnonzero(is_drawable).astype(np.int32)


def frame(texts: Sequence[Text], ids: VocabularyIds) -> FramedTexts:
    """``[CLS] A [SEP]``, or ``[CLS] A [SEP] B [SEP]`` where a text has two segments.

    Devlin et al. 2019, §3, https://arxiv.org/abs/1810.04805.
    """
    assert ids.cls is not None, "check refuses such vocabularies"
    assert ids.sep is not None, "check refuses such vocabularies"
    sizes = np.array([len(text.tokens) for text in texts], np.int64)
    firsts = np.array([text.second for text in texts], np.int64)
    has_two = firsts < sizes
    lengths = sizes + 2 + has_two
    # Behind the end stands a special id too: nothing there can be taken for text.
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
    """Examples whose targets are the unmasked rows, weighted 1 where they are to be predicted.

    With ``pairs``, segment B has token type 1 and the text's label is the sequence's.
    """
    weights = masked.is_target.astype(np.float32)
    places = np.arange(framed.tokens.shape[1])
    types = (places >= framed.second[:, None]).astype(np.int32) if pairs else None
    examples = []
    for row, (length, text) in enumerate(zip(framed.lengths.tolist(), framed.texts, strict=True)):
        examples.append(
            Example(
                inputs=masked.inputs[row, :length],
                targets=framed.tokens[row, :length],
                weights=weights[row, :length],
                token_types=None if types is None else types[row, :length],
                label=text.label if pairs else -1,
            )
        )
    return examples
