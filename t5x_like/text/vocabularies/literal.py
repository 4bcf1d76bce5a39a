"""seqio vocabularies that read text literally: no string a user can write becomes a sentinel id."""

import re
from collections.abc import Iterable, Sequence

import seqio
import tensorflow as tf
import tensorflow_text
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

_SENTINEL_PIECE = re.compile("▁?<extra_id_[0-9]+>")
_Model = sentencepiece_model_pb2.ModelProto  # pyright: ignore[reportAttributeAccessIssue]


def load_sentencepiece(path: str, num_sentinels: int) -> "LiteralSentencePieceVocabulary":
    """Loads a SentencePiece model, adding sentinels unless it has its own.

    Raises:
      ValueError: not a SentencePiece model, or its special ids are not T5's.
    """
    model = _Model()
    try:
        model.ParseFromString(tf.io.gfile.GFile(path, "rb").read())
    except Exception as error:
        raise ValueError(f"{path!r} is not a SentencePiece model: {error}") from error
    if not model.pieces:
        raise ValueError(f"{path!r} is not a SentencePiece model: it has no pieces")
    has_sentinels = bool(_SENTINEL_PIECE.fullmatch(model.pieces[-1].piece))
    vocabulary = LiteralSentencePieceVocabulary(path, extra_ids=0 if has_sentinels else num_sentinels)
    ids = {"padding": vocabulary.tokenizer.pad_id(), "end": vocabulary.eos_id, "unknown": vocabulary.unk_id}
    if ids["padding"] != 0 or ids["end"] != 1:
        raise ValueError(
            f"{path!r} has the special ids {ids}; T5 needs padding 0 and end 1. Learn one with `t5x-like "
            "vocabulary learn`, or pass --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1 to spm_train"
        )
    return vocabulary


def require_valid_unicode(text: str | bytes) -> str:
    """``text`` as a string that UTF-8 can write.

    Raises:
      ValueError: invalid UTF-8, or a lone surrogate (half of a UTF-16 pair).
    """
    try:
        if isinstance(text, bytes):
            return text.decode("utf-8")
        text.encode("utf-8")
        return text
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start}: {error.reason}") from error
    except UnicodeEncodeError as error:
        code = ord(str(error.object)[error.start])
        raise ValueError(
            f"character {error.start} is a lone surrogate (U+{code:04X}), which no text may hold: "
            "read the file as UTF-8, or replace it with text.encode('utf-8', 'replace').decode()"
        ) from error


class LiteralSentencePieceVocabulary(seqio.SentencePieceVocabulary):
    """SentencePiece with T5's sentinels at its end, which text cannot reach.

    Two models: one without sentinel pieces turns text into ids, one with them turns ids into text.
    """

    def __getstate__(self) -> dict:
        return {key: value for key, value in super().__getstate__().items() if key != "_literal_tokenizer"}

    @property
    def sentencepiece_file(self) -> str:
        """Path of the model it was loaded from."""
        return self.sentencepiece_model_file

    def _literal_model(self) -> bytes:
        model = _Model.FromString(self.sp_model)
        for piece in model.pieces:
            if _SENTINEL_PIECE.fullmatch(piece.piece):
                piece.type = _Model.SentencePiece.UNUSED
        return model.SerializeToString()

    @property
    def literal_tokenizer(self) -> SentencePieceProcessor:
        """The processor that reads users' text."""
        if "_literal_tokenizer" not in self.__dict__:
            processor = SentencePieceProcessor()
            processor.LoadFromSerializedProto(self._literal_model())
            self._literal_tokenizer = processor
        return self._literal_tokenizer

    def _encode(self, s: str | bytes) -> list[int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.literal_tokenizer.EncodeAsIds(require_valid_unicode(s))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """``[encode(text) for text in texts]``, faster."""
        return self.literal_tokenizer.Encode([require_valid_unicode(text) for text in texts], num_threads=2)

    def _encode_tf(self, s: tf.Tensor):
        return tensorflow_text.SentencepieceTokenizer(model=self._literal_model()).tokenize(s)


class LiteralByteVocabulary(seqio.ByteVocabulary):
    """Bytes with sentinels after them, printed as ``<extra_id_k>``."""

    def __str__(self) -> str:
        return f"LiteralByteVocabulary(extra_ids={self.extra_ids})"

    def _encode(self, s: str | bytes) -> list[int]:
        return super()._encode(require_valid_unicode(s))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """``[encode(text) for text in texts]``."""
        return [self._encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ``ids`` up to the end of sequence; invalid UTF-8 is dropped, sentinels stay visible."""
        numbers = [int(number) for number in ids]
        if self.eos_id in numbers:
            numbers = numbers[: numbers.index(self.eos_id)]
        text, start = "", 0
        for place, number in enumerate(numbers):
            if self._base_vocab_size <= number < self.vocab_size:
                text += self._decode(numbers[start:place]) + f"<extra_id_{self.vocab_size - 1 - number}>"
                start = place + 1
        return text + self._decode(numbers[start:])


def encode_all(vocabulary: seqio.Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """Ids of many texts, without end of sequence, by the fastest way the vocabulary has."""
    if isinstance(vocabulary, (LiteralSentencePieceVocabulary, LiteralByteVocabulary)):
        return vocabulary.encode_all(texts)
    return [list(vocabulary.encode(text)) for text in texts]
