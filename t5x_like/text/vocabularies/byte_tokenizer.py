"""Vocabulary of UTF-8 bytes, as in ByT5 (Xue et al. 2022, https://arxiv.org/abs/2105.13626)."""

from collections.abc import Iterable

import numpy as np

from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_FIRST = 3  # after padding, end of sequence and unknown
_WHITE_SPACE = b" \t\n\r\v\f"


class ByteTokenizer(Tokenizer):
    """Tokenizer in which byte ``b`` has id ``b + 3``; nothing is unknown."""

    kind = "bytes"
    num_special = _FIRST  # the special ids come first, the unknown one last

    def __init__(self, num_sentinels: int) -> None:
        super().__init__(
            "bytes",
            num_own=_FIRST + 256,
            special=SpecialTokenIds(pad=0, eos=1, unk=2),
            num_sentinels=num_sentinels,
        )

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [
            (np.frombuffer(text.encode("utf-8"), np.uint8).astype(np.int32) + _FIRST).tolist()
            for text in texts
        ]

    def _decode(self, ids: list[int]) -> str:
        """Decode bytes, without special ids and invalid UTF-8; sentinels stay visible."""
        parts = [
            self.piece(token_id).encode() if self.is_sentinel(token_id) else bytes([token_id - _FIRST])
            for token_id in ids
            if self.is_sentinel(token_id) or _FIRST <= token_id < _FIRST + 256
        ]
        return b"".join(parts).decode("utf-8", errors="ignore")

    def _piece(self, token_id: int) -> str:
        if token_id < _FIRST:
            return ("<pad>", "</s>", "<unk>")[token_id]
        byte = token_id - _FIRST
        return chr(byte) if 32 < byte < 127 else f"<0x{byte:02X}>"

    def _text(self, token_id: int, piece: str) -> bytes:
        del piece
        return bytes([token_id - _FIRST])

    def starts_word(self) -> np.ndarray:
        """Return white space and special ids: white space starts the word after it, as ``▁`` does in pieces."""
        numbers = np.arange(self.vocab_size)
        is_byte = (numbers >= _FIRST) & (numbers < _FIRST + 256)
        return ~is_byte | np.isin(numbers - _FIRST, list(_WHITE_SPACE))

    def _contents(self) -> Iterable[bytes]:
        return ()
