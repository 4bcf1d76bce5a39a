"""SentencePiece models: unigram and BPE (Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226)."""

import functools
import threading
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t5x_like.text.vocabularies.roles import added_ends, count_own_sentinels, find_special, is_markup
from t5x_like.text.vocabularies.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_THREADS = 2
_LOADING = threading.Lock()  # two threads that load models at the same time can crash the process
# Models whose text is normalized in Python before SentencePiece reads it.
_NORMALIZED = ("Albert", "XLNet")


class SentencePieceTokenizer(Tokenizer):
    """Tokenizer of two models: one encodes and can't reach special pieces, the other decodes all pieces.

    Attributes:
      model: Serialized model, as in the file, with the tokens that SpeechT5's files add.
      path: Path of the file.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        name: str,
        model: bytes,
        *,
        num_sentinels: int,
        configuration: Mapping[str, Any] | None = None,
        path: str | None = None,
    ) -> None:
        """Read the model.

        Args:
          name: Path as the user wrote it.
          model: Serialized model.
          num_sentinels: Number of sentinels to add, unless the vocabulary has its own.
          configuration: Content of a ``tokenizer_config.json``; ALBERT's and XLNet's define a text normalization.
          path: Path of the file.

        Raises:
          ValueError: Not a SentencePiece model.
        """
        proto = parse_model(name, model)
        pieces = [piece.piece for piece in proto.pieces]
        own = count_own_sentinels(pieces.__getitem__, len(pieces))
        numbers = {piece: token_id for token_id, piece in enumerate(pieces)}
        spec = proto.trainer_spec
        known = {"pad": spec.pad_id, "eos": spec.eos_id, "bos": spec.bos_id}
        kinds = {token_id: piece.type for token_id, piece in enumerate(proto.pieces)}
        control, unknown = proto.SentencePiece.CONTROL, proto.SentencePiece.UNKNOWN
        super().__init__(
            name,
            num_own=len(pieces),
            special=find_special(
                numbers.get,
                configuration=configuration,
                unk=next((token_id for token_id, kind in kinds.items() if kind == unknown), None),
                **{role: n if kinds.get(n) == control else None for role, n in known.items()},
            ),
            num_sentinels=own or num_sentinels,
            has_sentinels=own > 0,
        )
        self.model, self.path = model, path or name
        self.adds_bos, self.adds_eos = added_ends(configuration)
        self.chat_template = (configuration or {}).get("chat_template")
        self._added = 0 if own else num_sentinels
        self._normalization = _normalization(configuration or {})

    @functools.cached_property
    def pieces(self) -> tuple[str, ...]:
        """Pieces of the model, by id."""
        return tuple(piece.piece for piece in parse_model(self.name, self.model).pieces)

    @functools.cached_property
    def model_with_sentinels(self) -> bytes:
        """Model for decoding: the original with a piece for each sentinel."""
        proto = parse_model(self.name, self.model)
        for token_id in reversed(range(self._added)):
            proto.pieces.add(
                piece=f"▁<extra_id_{token_id}>", score=0.0, type=proto.SentencePiece.USER_DEFINED
            )
        return proto.SerializeToString()

    @functools.cached_property
    def literal_model(self) -> bytes:
        """Model for encoding, in which no text reaches a sentinel or another special piece."""
        proto = parse_model(self.name, self.model_with_sentinels)
        ordinary = (proto.SentencePiece.NORMAL, proto.SentencePiece.USER_DEFINED)
        for piece in proto.pieces:
            if piece.type in ordinary and is_markup(piece.piece):
                piece.type = proto.SentencePiece.UNUSED
        return proto.SerializeToString()

    @property
    def normalizes(self) -> bool:
        """True if text is normalized in Python before the model reads it."""
        return bool(self._normalization)

    @functools.cached_property
    def _engine(self) -> "SentencePieceProcessor":
        return _processor(self.literal_model)

    @functools.cached_property
    def _engine_for_decoding(self) -> "SentencePieceProcessor":
        return _processor(self.model_with_sentinels)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if self._normalization:
            texts = [_normalize(text, **self._normalization) for text in texts]
        return self._engine.Encode(texts, num_threads=min(_THREADS, len(texts)))

    def _decode(self, ids: list[int]) -> str:
        unknown = self.special.unk or 0
        return self._engine_for_decoding.DecodeIds(
            [token_id if token_id < self.vocab_size else unknown for token_id in ids]
        )

    def _piece(self, token_id: int) -> str:
        return self._engine_for_decoding.IdToPiece(token_id)

    def starts_word(self) -> np.ndarray | None:
        """Implement ``Tokenizer``; None for models that attach spaces to the end of words."""
        proto = parse_model(self.name, self.model_with_sentinels)
        if proto.trainer_spec.treat_whitespace_as_suffix:
            return None
        begins = [
            piece.piece.startswith("▁") or piece.type == proto.SentencePiece.CONTROL or is_markup(piece.piece)
            for piece in proto.pieces
        ]
        if self.special.unk is not None:
            begins[self.special.unk] = False  # it may be inside a word
        return np.array(begins, bool)

    def _contents(self) -> Iterable[bytes]:
        return (self.model, repr(sorted(self._normalization.items())).encode())


def parse_model(name: str, model: bytes) -> Any:
    """Return the ``ModelProto`` of a serialized model.

    Args:
      name: Name of the model in messages.
      model: Content of a ``.model`` file.

    Raises:
      ValueError: it is no SentencePiece model.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        proto.ParseFromString(model)
    except Exception as error:
        raise ValueError(f"{name!r} is not a SentencePiece model: {error}") from error
    if not proto.pieces:
        raise ValueError(f"{name!r} is not a SentencePiece model: it has no pieces")
    damaged = next((each.piece for each in proto.pieces if not isinstance(each.piece, str)), None)
    if damaged is not None:
        raise ValueError(f"{name!r} is not a SentencePiece model: the piece {damaged!r} is no UTF-8")
    return proto


def with_control_pieces(name: str, model: bytes, pieces: Sequence[str]) -> bytes:
    """Return a model with further pieces after its own, which no text reaches and which have no text.

    Args:
      name: Name of the model in messages.
      model: Content of a ``.model`` file.
      pieces: Pieces to add.
    """
    proto = parse_model(name, model)
    for piece in pieces:
        proto.pieces.add(piece=piece, score=0.0, type=proto.SentencePiece.CONTROL)
    return proto.SerializeToString()


def _processor(model: bytes) -> "SentencePieceProcessor":
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    with _LOADING:
        processor.LoadFromSerializedProto(model)
    return processor


def _normalization(configuration: Mapping[str, object]) -> dict[str, bool]:
    name = str(configuration.get("tokenizer_class", "")).removesuffix("Fast")
    family = next((family for family in _NORMALIZED if name == f"{family}Tokenizer"), None)
    if family is None:
        return {}
    return {
        "lower_case": bool(configuration.get("do_lower_case", family == "Albert")),
        "keep_accents": bool(configuration.get("keep_accents", False)),
        "squeeze": bool(configuration.get("remove_space", True)),
    }


def _normalize(text: str, *, lower_case: bool, keep_accents: bool, squeeze: bool) -> str:
    """Normalize text as ALBERT and XLNet do before SentencePiece (google-research/albert, tokenization.py)."""
    if squeeze:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in decomposed if not unicodedata.combining(character))
    return text.lower() if lower_case else text
