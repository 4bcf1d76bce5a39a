"""seqio vocabulary over any tokenizer; special tokens written in a text are read literally."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import seqio
import tensorflow as tf
import tensorflow_text

from t5x_like.text.vocabularies.sentencepiece_tokenizer import SentencePieceTokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer, require_valid_unicode

__all__ = ["LiteralVocabulary", "encode_all", "require_valid_unicode"]


class LiteralVocabulary(seqio.Vocabulary):
    """A tokenizer as a seqio vocabulary. Vocabularies of equal tokenizers are equal.

    In a TensorFlow graph, SentencePiece and bytes run as operations; other tokenizers run in Python.
    """

    def __init__(self, core: Tokenizer) -> None:
        self.core = core
        super().__init__(extra_ids=core.num_sentinels)

    @property
    def pad_id(self) -> int:
        """Padding id; 0, as seqio pads, if the vocabulary has none."""
        return self.core.special.pad or 0

    @property
    def eos_id(self) -> int | None:
        """End-of-sequence id, or ``None``."""
        return self.core.special.eos

    @property
    def unk_id(self) -> int | None:
        """Id of unknown pieces, or ``None``."""
        return self.core.special.unk

    @property
    def bos_id(self) -> int:
        """Beginning-of-sequence id; -1, as in SentencePiece, if there is none."""
        return -1 if self.core.special.bos is None else self.core.special.bos

    @property
    def _base_vocab_size(self) -> int:
        return self.core.vocab_size - self.core.num_sentinels

    def piece(self, token_id: int) -> str:
        """Return an id's piece as text."""
        return self.core.piece(token_id)

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return ``[encode(text) for text in texts]``, faster."""
        return self.core.encode_all(texts)

    def _encode(self, s: str | bytes) -> list[int]:
        return self.core.encode(s)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ``ids`` up to the end of sequence; sentinels are written as ``<extra_id_k>``."""
        return self.core.decode(np.asarray(ids).tolist())

    def _decode(self, ids: Iterable[int]) -> str:
        return self.core.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> object:
        operation = _operation(self.core)
        return _in_python(self.core, s) if operation is None else operation(s)

    def decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        """Decode the last axis: int32 [..., L] -> string [...]."""
        rows = ids.to_tensor(self.pad_id) if isinstance(ids, tf.RaggedTensor) else tf.convert_to_tensor(ids)

        def write(numbers: np.ndarray) -> np.ndarray:
            texts = np.empty(numbers.shape[:-1], object)
            for index in np.ndindex(*texts.shape):
                texts[index] = self.core.decode(numbers[index].tolist()).encode("utf-8")
            return texts

        text = tf.numpy_function(write, [rows], tf.string, stateful=False)
        return tf.ensure_shape(text, rows.shape[:-1])

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        return self.decode_tf(ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LiteralVocabulary) and self.core == other.core

    def __hash__(self) -> int:
        return hash(self.core)

    def __str__(self) -> str:
        kind, size = self.core.kind, self.core.vocab_size
        return f"LiteralVocabulary({self.core.name}, {kind}, {size} ids, {self.core.num_sentinels} sentinels)"


def encode_all(vocabulary: seqio.Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """Encode many texts, without end of sequence, by the vocabulary's fastest method.

    Args:
      vocabulary: Vocabulary of seqio.
      texts: Texts to tokenize.
    """
    if isinstance(vocabulary, LiteralVocabulary):
        return vocabulary.encode_all(texts)
    return [list(vocabulary.encode(text)) for text in texts]


def _operation(core: Tokenizer) -> Callable[[tf.Tensor], object] | None:
    """Return the TensorFlow operation that encodes as ``core`` does, if there is one."""
    if isinstance(core, SentencePieceTokenizer) and not core.normalizes:
        return tensorflow_text.SentencepieceTokenizer(model=core.literal_model).tokenize
    if core.kind == "bytes":
        return seqio.ByteVocabulary(core.num_sentinels).encode_tf
    return None


def _in_python(core: Tokenizer, text: tf.Tensor) -> object:
    """Encode one text to int32 [N], or a vector of texts to ragged [B, (N)]."""

    def encode(texts: np.ndarray | bytes) -> tuple[np.ndarray, np.ndarray]:
        encoded = core.encode_all(np.atleast_1d(np.asarray(texts, object)).tolist())
        lengths = np.array([len(ids) for ids in encoded], np.int64)
        return np.array([token_id for ids in encoded for token_id in ids], np.int32), lengths

    text = tf.convert_to_tensor(text)
    if text.shape.rank not in (0, 1):
        raise ValueError(f"encode_tf takes one text or a vector of texts, not a tensor of shape {text.shape}")
    ids, lengths = tf.numpy_function(encode, [text], [tf.int32, tf.int64], stateful=False)
    ids, lengths = tf.ensure_shape(ids, [None]), tf.ensure_shape(lengths, [None])
    return (
        ids
        if text.shape.rank == 0
        else tf.RaggedTensor.from_row_lengths(  # pyright: ignore[reportAttributeAccessIssue]
            ids, lengths, validate=False
        )
    )
