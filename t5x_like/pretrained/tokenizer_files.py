"""Tokenizer files next to a model's weights, and the ids that pad, begin and end its texts."""

import warnings
from collections.abc import Mapping
from typing import Any

from t5x_like.io.files import PathLike, as_path
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.architecture import T5_SPECIAL_IDS
from t5x_like.model.zoo.architectures import architecture_of, by_model_type
from t5x_like.model.zoo.config_fields import MAX_SIZE
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.run_weights import trained_with_sentinels, trained_with_vocabulary
from t5x_like.text.vocabularies.gguf_vocabulary import is_gguf
from t5x_like.text.vocabularies.opening import (
    BYTES,
    TIKTOKEN_NAMES,
    open_tokenizer,
    vocabulary_contents,
    vocabulary_files,
)
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# Fields of a config.json, which an export writes as they were read.
SPECIAL_ID_FIELDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


def special_ids_of(fields: Mapping[str, Any]) -> SpecialTokenIds:
    """Return the ids in a ``config.json``, or transformers' defaults for this model where it gives none.

    Without a start token, decoders of encoder-decoders start with the begin of sequence, and without that with padding.
    """
    architecture = by_model_type().get(fields.get("model_type", ""))
    defaults = T5_SPECIAL_IDS if architecture is None else architecture.special_ids
    ids = {name: fields.get(name, defaults.get(name)) for name in SPECIAL_ID_FIELDS}
    for name, value in ids.items():
        for token_id in one_or_several(value):
            if token_id is not None and (type(token_id) is not int or not -1 <= token_id < MAX_SIZE):
                raise ValueError(
                    f"config.json: {name} is {value!r}; ids are whole numbers below {MAX_SIZE:,}"
                )
    pad, bos, ends = ids["pad_token_id"], ids["bos_token_id"], one_or_several(ids["eos_token_id"])
    starts = (ids["decoder_start_token_id"], bos if fields.get("is_encoder_decoder") else None, pad, 0)
    start = next(each for each in starts if each is not None)
    return SpecialTokenIds(
        pad=pad,
        eos=ends[0] if ends else None,
        bos=bos,
        decoder_start=start,
        further_eos=ends[1:],
    )


def holds_tokenizer(directory: PathLike) -> bool:
    """Return whether a model's directory or GGUF file has a tokenizer."""
    return (as_path(directory).is_dir() or is_gguf(directory)) and bool(vocabulary_files(directory))


def tokenizer_contents(directory: PathLike) -> dict[str, bytes]:
    """Return the files of the tokenizer next to a model's weights or in its GGUF file, by name.

    A tokenizer in a GGUF file that can't be read is left out, with a warning.
    """
    if not holds_tokenizer(directory):
        return {}
    try:
        return vocabulary_contents(directory)
    except ValueError as error:
        warnings.warn(f"the tokenizer is left out: {error}", stacklevel=2)
        return {}


def find_tokenizer(
    directory: PathLike,
    config: ModelConfig,
    fields: Mapping[str, object],
    *,
    vocabulary: str = "",
    num_sentinels: int | None = None,
) -> Tokenizer | None:
    """Open the tokenizer of a checkpoint, of any kind, or ByT5's bytes; ``None`` where there is none.

    T5's sentinels, which are not in its ``spiece.model``, are the last ids.

    Args:
      directory: Path of the checkpoint, a directory or a GGUF file.
      config: Configuration of its model.
      fields: Fields of its ``config.json``; empty for runs.
      vocabulary: Path of a tokenizer to open in place of the one in ``directory``.
      num_sentinels: Number of sentinels to add; if not given, that of a run's tasks, or of the architecture.

    Raises:
      ValueError: The tokenizer has more ids than the model has embeddings.
    """
    if not vocabulary and fields.get("tokenizer_class") == "ByT5Tokenizer":
        vocabulary, num_sentinels = BYTES, architecture_of(config).num_byte_sentinels
    if not vocabulary and not holds_tokenizer(directory):
        vocabulary = trained_with_vocabulary(directory)
        if vocabulary != BYTES and vocabulary not in TIKTOKEN_NAMES:  # one without a file
            return None
    is_derived = num_sentinels is None
    if num_sentinels is None:
        num_sentinels = trained_with_sentinels(directory)
    if num_sentinels is None:
        num_sentinels = architecture_of(config).num_sentinels
    tokenizer = open_tokenizer(vocabulary or directory, num_sentinels)
    if (
        is_derived and tokenizer.vocab_size > config.vocab_size
    ):  # a task's sentinels that its head doesn't read
        tokenizer = open_tokenizer(vocabulary or directory, 0)
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"the vocabulary of {vocabulary or directory} has {tokenizer.vocab_size:,} ids, its model embeddings for "
            f"{config.vocab_size:,}: they don't belong together (num_sentinels is {num_sentinels})"
        )
    return tokenizer


def required_tokenizer(tokenizer: Tokenizer | None, directory: PathLike) -> Tokenizer:
    """Return the result of ``find_tokenizer`` where a tokenizer is needed.

    Args:
      tokenizer: Result of ``find_tokenizer``.
      directory: Folder of the weights, for messages.

    Raises:
      ValueError: There is no tokenizer.
    """
    if tokenizer is None:
        raise ValueError(f"{directory} has no vocabulary next to its weights; name one: vocabulary=PATH")
    return tokenizer
