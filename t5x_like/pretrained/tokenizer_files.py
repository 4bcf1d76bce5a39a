"""The vocabulary that lies beside a model's weights."""

from collections.abc import Mapping
from typing import Any

from t5x_like.io.files import PathLike, as_path
from t5x_like.model.zoo.architectures import architecture_for
from t5x_like.text.vocabularies.opening import BYTES, open_tokenizer, vocabulary_files


def files_of(directory: PathLike | None) -> tuple[PathLike, ...]:
    """The vocabulary's files in a model's directory, if it is one."""
    if directory is None or not as_path(directory).is_dir():
        return ()
    return tuple(vocabulary_files(directory).values())


def vocabulary_of(directory: PathLike | None, fields: Mapping[str, Any], vocab_size: int) -> Any:
    """The tokenizer of a directory, of any kind, or ByT5's bytes; ``None`` where the directory has none.

    T5's sentinels, which stand in no ``spiece.model``, are its last ids.

    Raises:
      ValueError: it has more ids than the model has embeddings, ``vocab_size``.
    """
    if fields.get("tokenizer_class") == "ByT5Tokenizer":
        vocabulary = open_tokenizer(BYTES, architecture_for(fields, "").num_byte_sentinels)
    elif files_of(directory):
        assert directory is not None
        vocabulary = open_tokenizer(directory, architecture_for(fields, str(directory)).num_sentinels)
    else:
        return None
    if vocabulary.vocab_size > vocab_size:
        raise ValueError(
            f"the vocabulary of {directory} has {vocabulary.vocab_size:,} ids, its model embeddings for "
            f"{vocab_size:,}: they don't belong together"
        )
    return vocabulary
