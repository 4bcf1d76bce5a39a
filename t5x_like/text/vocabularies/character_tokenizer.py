"""Vocabulary of characters."""

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_FIRST = 3  # after padding, end of sequence and unknown


class CharacterTokenizer(Tokenizer):
    """Tokenizer with one id for each listed code point, from 3 on; others are unknown.

    Raises:
      ValueError: An entry is not one character, or is there twice.
    """

    kind = "characters"

    def __init__(self, name: str, characters: Sequence[str], *, num_sentinels: int) -> None:
        wrong = [each for each in characters if len(each) != 1]
        if wrong or len(set(characters)) < len(characters):
            problem = f"{wrong[0][:20]!r} among its characters" if wrong else "a character twice"
            raise ValueError(f"{name!r} has {problem}; each entry must be one character, once")
        special = SpecialTokenIds(pad=0, eos=1, unk=2)
        super().__init__(name, num_own=_FIRST + len(characters), special=special, num_sentinels=num_sentinels)
        self.characters = "".join(characters)

    @functools.cached_property
    def _engine(self) -> np.ndarray:
        table = np.full(0x110000, self.special.unk, np.int32)
        table[_code_points(self.characters)] = np.arange(_FIRST, _FIRST + len(self.characters))
        return table

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [self._engine[_code_points(text)].tolist() for text in texts]

    def _decode(self, ids: list[int]) -> str:
        return "".join(self._written(token_id) for token_id in ids)

    def _written(self, token_id: int) -> str:
        if token_id >= self.vocab_size or token_id == self.special.unk:
            return "\N{REPLACEMENT CHARACTER}"
        return self.piece(token_id) if token_id >= _FIRST else ""

    def _piece(self, token_id: int) -> str:
        return (
            ("<pad>", "</s>", "<unk>")[token_id] if token_id < _FIRST else self.characters[token_id - _FIRST]
        )

    def _text(self, token_id: int, piece: str) -> bytes:
        del token_id
        return piece.encode()

    def starts_word(self) -> np.ndarray:
        """Return white space and special ids: white space starts the word after it, as ``▁`` does in pieces."""
        begins = np.ones(self.vocab_size, bool)
        begins[2] = False
        begins[_FIRST : _FIRST + len(self.characters)] = [each.isspace() for each in self.characters]
        return begins

    def _contents(self) -> Iterable[bytes]:
        return (self.characters.encode(),)


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
