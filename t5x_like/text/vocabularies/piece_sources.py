"""Pieces of an old vocabulary that those of a new one are made of."""

from typing import NamedTuple

from t5x_like.text.vocabularies.roles import is_markup
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# A special id that the other vocabulary lacks may have that of a similar role.
_SIMILAR = {"cls": "bos", "bos": "cls", "sep": "eos", "eos": "sep"}


class PieceSources(NamedTuple):
    """For each id of a new vocabulary, the ids of an old one whose vectors it begins with the mean of.

    Attributes:
      ids: Old ids of each new one: one for a piece that both have; none for the mean of all.
      num_copied: Number of pieces that both have.
      num_composed: Number of pieces whose text the old vocabulary cuts into several.
      num_old: Number of old ids.
    """

    ids: tuple[tuple[int, ...], ...]
    num_copied: int
    num_composed: int
    num_old: int

    @property
    def num_averaged(self) -> int:
        """Number of pieces that begin with the mean of all."""
        return len(self.ids) - self.num_copied - self.num_composed

    @property
    def summary(self) -> str:
        """The counts in words."""
        return (
            f"of {len(self.ids):,} ids {self.num_copied:,} are copied, {self.num_composed:,} are means of the old "
            f"pieces of their text, and {self.num_averaged:,} are the mean of all"
        )


def piece_sources(old: Tokenizer, new: Tokenizer) -> PieceSources:
    """Return the old ids that each new id begins with.

    Special ids are matched by their roles, sentinels by their numbers, and others by their text, with the space before
    a word. A new piece is otherwise cut as the old tokenizer cuts its text, or into the longest old pieces where that
    adds or drops a space (Gee et al. 2022, §3.1, https://aclanthology.org/2022.emnlp-industry.41).

    Args:
      old: Tokenizer that the vectors are of.
      new: Tokenizer to make vectors for.
    """
    cut = _Cutter(old)
    special = _special_sources(old, new)
    ids: list[tuple[int, ...]] = []
    num_copied = 0
    for token_id, text in enumerate(texts_of(new)):
        same = special.get(token_id) if text is None else cut.own.get(text)
        num_copied += same is not None
        ids.append((same,) if same is not None else () if text is None else cut(text))
    num_some = sum(map(bool, ids))
    return PieceSources(tuple(ids), num_copied, num_some - num_copied, old.vocab_size)


def texts_of(tokenizer: Tokenizer) -> list[bytes | None]:
    """Return the text of each piece, as ``Tokenizer.piece_text`` does."""
    return [tokenizer.piece_text(token_id) for token_id in range(tokenizer.vocab_size)]


class _Cutter:
    """Cuts texts into pieces of a vocabulary.

    Attributes:
      own: Id of each piece by its text; the lowest of several.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._texts = tokenizer, texts_of(tokenizer)
        self.own: dict[bytes, int] = {}
        for token_id, text in enumerate(self._texts):
            if text:
                self.own.setdefault(text, token_id)
        self._longest = max(map(len, self.own), default=0)

    def __call__(self, text: bytes) -> tuple[int, ...]:
        """Return the pieces of a text; none where some character has no piece."""
        try:
            written = text.decode("utf-8")
        except UnicodeDecodeError:
            return self._by_length(text)
        encoded = [
            tuple(self._tokenizer.encode(each)) for each in dict.fromkeys((written, written.strip(" ")))
        ]
        for ids in encoded:
            if b"".join(self._texts[token_id] or b"\0" for token_id in ids) == text:
                return ids
        known = [ids for ids in encoded if self._tokenizer.special.unk not in ids]
        return self._by_length(text) or next(filter(None, known), ())

    def _by_length(self, text: bytes) -> tuple[int, ...]:
        """Cut into the longest pieces, from the left on."""
        ids, start = [], 0
        while start < len(text):
            ends = range(min(len(text), start + self._longest), start, -1)
            end = next((end for end in ends if text[start:end] in self.own), None)
            if end is None:
                return ()
            ids.append(self.own[text[start:end]])
            start = end
        return tuple(ids)


def _special_sources(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Return the old id of each new one that is no text."""
    roles = {name: token_id for name, token_id in old.special.by_role.items() if token_id is not None}
    numbers = {old.piece(token_id): token_id for token_id in range(old.vocab_size)}
    sources = {
        token_id: numbers[piece]
        for token_id in range(new.vocab_size)
        if (piece := new.piece(token_id)) in numbers and (is_markup(piece) or new.is_sentinel(token_id))
    }
    for name, token_id in new.special.by_role.items():
        source = roles.get(name, roles.get(_SIMILAR.get(name, "")))
        if token_id is not None and source is not None:
            sources[token_id] = source
    return sources
