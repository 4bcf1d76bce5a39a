"""Checks that a pretrained model's token ids mean what they mean in the training data."""

import logging
from typing import Any

from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.vocabularies.tokenizer import Tokenizer

log = logging.getLogger(__name__)


def check_same_vocabulary(
    what: str, checkpoint: Checkpoint, loader: Any, *, has_all_rows: bool = True
) -> None:
    """Check that a model's ids mean what they mean in the data; numbers of sentinels and of padding may differ.

    Args:
      what: The model, for the message.
      checkpoint: The model.
      loader: Loader of the data.
      has_all_rows: The model needs an embedding for each id of the data; otherwise sentinels may have none.

    Raises:
      ValueError: It has another vocabulary, or fewer embeddings than the data has ids.
    """
    saved, wanted, where = checkpoint.found_tokenizer, loader.vocabulary, checkpoint.directory
    if saved is None or not isinstance(wanted, Tokenizer):
        log.warning("%s %s has no vocabulary to compare; it is taken for that of the tasks", what, where)
    elif difference := _vocabulary_difference(saved, wanted):
        raise ValueError(
            f"{what} {where} has another vocabulary than the tasks ({wanted.name}): {difference}. Take a model with "
            "the tasks' vocabulary, or give the tasks the model's"
        )
    if has_all_rows and checkpoint.config.vocab_size < loader.num_ids:
        raise ValueError(
            f"{what} {where} has {checkpoint.config.vocab_size:,} embedding rows, the tasks need {loader.num_ids:,}; "
            "take a model with the tasks' vocabulary"
        )


def _vocabulary_difference(saved: Tokenizer, wanted: Tokenizer) -> str:
    """Return the difference between two vocabularies in words; an empty string if their ids mean the same.

    Sentinels, which follow the other ids, may be missing in one of them.
    """
    if saved == wanted:
        return ""
    sizes = [each.vocab_size - each.num_sentinels for each in (saved, wanted)]
    if sizes[0] != sizes[1]:
        return f"{sizes[0]:,} ids without sentinels there, {sizes[1]:,} here"
    common = (
        min(saved.vocab_size, wanted.vocab_size) if saved.num_sentinels == wanted.num_sentinels else sizes[0]
    )
    differing = [token_id for token_id in range(common) if saved.piece(token_id) != wanted.piece(token_id)]
    if not differing:
        return ""
    first = differing[0]
    others = f", and {len(differing) - 1:,} more differ" if len(differing) > 1 else ""
    return f"id {first} is {saved.piece(first)!r} there and {wanted.piece(first)!r} here{others}"
