"""Base class of tokenizers: text to ids and back, without TensorFlow."""

import abc
import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.text.vocabularies.roles import is_markup
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

# Longer texts are encoded in parts, and batches are limited, because libraries use up to 100 bytes per character.
LONGEST_CHARACTERS = 1_000_000
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_CHARACTERS_AT_ONCE = 8_000_000

MAX_UNUSED_IDS = 2**16  # besides 4 for each piece: rows are made for all ids up to the largest


class Tokenizer(abc.ABC):
    """Encodes text literally: text that looks like a special token never becomes a special id.

    Sentinels are the highest ids, counting down: ``<extra_id_0>`` is ``vocab_size - 1``. Two tokenizers are equal if
    they give the same ids for every text, wherever they were read from. All can be pickled with their files' contents.

    Attributes:
      kind: Type of the vocabulary, such as "sentencepiece".
      name: Path or name by which it was opened.
      special: Special ids that the vocabulary's own files define.
      num_sentinels: Number of sentinels.
      vocab_size: Number of ids, sentinels included.
      adds_bos: Whether texts that a model reads begin with bos; None if the vocabulary's files don't say.
      adds_eos: Whether they end with eos, likewise.
      text_ends: Special ids before and after a text by a template of the vocabulary's files; None without one.
      chat_template: Jinja template of conversations, or a list of named ones, from ``chat_template.jinja`` or
        ``tokenizer_config.json``.
    """

    kind: ClassVar[str]
    adds_bos: bool | None = None
    adds_eos: bool | None = None
    text_ends: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    chat_template: Any = None

    def __init__(
        self,
        name: str,
        *,
        num_own: int,
        special: SpecialTokenIds,
        num_sentinels: int,
        has_sentinels: bool = False,
    ) -> None:
        """Set the sizes.

        Args:
          name: Path or name by which it was opened.
          num_own: Number of ids in the file.
          special: Special ids.
          num_sentinels: Number of sentinels, added after the file's ids.
          has_sentinels: Whether the file's last ids already are the sentinels.
        """
        self.name = name
        self.special = special
        self.num_sentinels = num_sentinels
        self.vocab_size = num_own + (0 if has_sentinels else num_sentinels)

    @abc.abstractmethod
    def _encode(self, texts: list[str]) -> list[list[int]]:
        """Return ids of texts that are valid Unicode and not too long."""

    @abc.abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Return the text of non-negative ids. Ids beyond the vocabulary are unknown; special ids give no text."""

    @abc.abstractmethod
    def _piece(self, token_id: int) -> str:
        """Return the string of an id that is no sentinel."""

    @abc.abstractmethod
    def starts_word(self) -> np.ndarray | None:
        """Return the ids that start a word, bool [vocab_size]; None if pieces don't determine it."""

    @abc.abstractmethod
    def _contents(self) -> Iterable[bytes]:
        """Return all content that determines the ids of a text."""

    def encode(self, text: str | bytes) -> list[int]:
        """Return the ids of a text, without special ids.

        Raises:
          ValueError: Invalid UTF-8, or a lone surrogate.
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """Return the ids of each text, faster than one by one.

        Raises:
          ValueError: Invalid UTF-8, a lone surrogate, or a vocabulary that its library can't encode with.
        """
        encoded: list[list[int]] = []
        for group in _groups(map(require_valid_unicode, texts)):
            with refusing_damage(self.name):
                if len(group[0]) > LONGEST_CHARACTERS:
                    encoded.append(
                        [token_id for part in self._parts(group[0]) for token_id in self._encode([part])[0]]
                    )
                else:
                    encoded.extend(self._encode(group))
        return encoded

    @functools.cached_property
    def special_pieces(self) -> dict[str, int]:
        """Ids of pieces that no text is encoded to, by piece; a chat template writes them as text."""
        special = set(self.special.by_role.values())
        pieces = enumerate(map(self.piece, range(self.vocab_size)))
        return {piece: token_id for token_id, piece in pieces if token_id in special or is_markup(piece)}

    def encode_parts(self, parts: Sequence[str | int]) -> list[int]:
        """Return the ids of texts with special ids between them.

        Args:
          parts: Texts, and ids of ``special_pieces``.
        """
        return [
            token_id
            for part in parts
            for token_id in ([part] if isinstance(part, int) else self.encode(part))
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids up to the first end of sequence; sentinels become ``<extra_id_k>``.

        Ids beyond the vocabulary, which a model with a padded embedding may generate, decode as unknown.

        Raises:
          ValueError: An id is negative.
        """
        numbers = [int(token_id) for token_id in ids]
        if numbers and min(numbers) < 0:
            raise ValueError(
                f"id {min(numbers)} is negative; ids lie between 0 and {self.vocab_size - 1}, padding is "
                f"{self.special.pad}"
            )
        if self.special.eos in numbers:
            numbers = numbers[: numbers.index(self.special.eos)]
        with refusing_damage(self.name):
            return self._decode(numbers)

    def piece(self, token_id: int) -> str:
        """Return the string of an id: ``▁the``, ``##ing``, ``<extra_id_0>``; ``<number>`` if there is no such id."""
        if self.is_sentinel(token_id):
            return f"<extra_id_{self.vocab_size - 1 - token_id}>"
        return self._piece(token_id) if 0 <= token_id < self.vocab_size else f"<{token_id}>"

    def piece_text(self, token_id: int) -> bytes | None:
        """Return the text of an id in UTF-8, with the space before a word; ``None`` for an id that is no text."""
        piece = self.piece(token_id)
        is_text = not self.is_sentinel(token_id) and token_id not in self.special.by_role.values()
        return self._text(token_id, piece) if is_text and not is_markup(piece) else None

    def _text(self, token_id: int, piece: str) -> bytes | None:
        """Return the text of an id that is neither special nor markup."""
        if piece == f"<{token_id}>":  # there is no such id
            return None
        is_byte = _BYTE.fullmatch(piece)
        return bytes.fromhex(is_byte[1]) if is_byte else piece.replace("▁", " ").encode()

    def is_sentinel(self, token_id: int) -> bool:
        """Return whether ``token_id`` is a sentinel, one of the highest ids."""
        return self.vocab_size - self.num_sentinels <= token_id < self.vocab_size

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of everything that determines ids, independent of the file's location."""
        digest = hashlib.sha256(
            repr((self.kind, self.vocab_size, self.num_sentinels, *self.special.by_role.values())).encode()
        )
        for content in self._contents():
            digest.update(len(content).to_bytes(8, "little") + content)
        return digest.hexdigest()

    @functools.cached_property
    def _space_is_dropped(self) -> bool:
        """True if the space at which a long text is divided belongs to neither part."""
        whole, first, kept, dropped = self._encode(["a b", "a", " b", "b"])
        return whole != first + kept and whole == first + dropped

    def _parts(self, text: str) -> Iterator[str]:
        """Divide a long text, at single spaces where possible, so that ids stay the same."""
        start = 0
        while len(text) - start > LONGEST_CHARACTERS:
            end = _last_space(text, start + LONGEST_CHARACTERS // 2, start + LONGEST_CHARACTERS)
            is_text = end is not None
            end = end if end is not None else start + LONGEST_CHARACTERS
            yield text[start:end]
            start = end + (is_text and self._space_is_dropped)
        yield text[start:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.vocab_size} ids, {self.fingerprint[:12]})"

    def __getstate__(self) -> dict[str, object]:
        """Return the state without library objects (``_engine…``), which are recreated on use."""
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_engine")}


def check_ids(name: str, numbers: Mapping[str, int] | Mapping[bytes, int]) -> None:
    """Check the ids of a vocabulary's pieces.

    Args:
      name: Path of the file, for messages.
      numbers: Id of each piece.

    Raises:
      ValueError: There are no pieces, or an id is no number that a vocabulary of this size can have.
    """
    if not numbers:
        raise ValueError(f"{name!r} holds no pieces")
    limit = 4 * len(numbers) + MAX_UNUSED_IDS
    for piece, token_id in numbers.items():
        if not isinstance(piece, str | bytes) or type(token_id) is not int or not 0 <= token_id < limit:
            raise ValueError(
                f"{name!r}: the id of the piece {piece!r} is {token_id!r}; ids of {len(numbers):,} pieces are whole "
                f"numbers below {limit:,}"
            )


def pad_size(vocab_size: int, multiple: int = 128) -> int:
    """Return the next multiple: the rows of an embedding that must be divisible among devices.

    Args:
      vocab_size: Number of ids.
      multiple: Divisor of the result.
    """
    return -(-vocab_size // multiple) * multiple


def _groups(texts: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        if group and (characters + len(text) > _CHARACTERS_AT_ONCE or len(text) > LONGEST_CHARACTERS):
            yield group
            group, characters = [], 0
        group.append(text)
        characters += len(text)
        if len(text) > LONGEST_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _last_space(text: str, start: int, end: int) -> int | None:
    """Return the last single space between two other characters in ``text[start:end]``."""
    while (end := text.rfind(" ", start, end)) > start:
        if text[end - 1] != " " and text[end + 1] != " ":
            return end
    return None


def visible(ids: Sequence[int], special: SpecialTokenIds) -> list[int]:
    """Return ids without those that have no text: pad, eos, bos, cls and sep.

    Args:
      ids: Token ids.
      special: Special ids of the vocabulary.
    """
    invisible = {special.pad, special.eos, special.bos, special.cls, special.sep} - {None, special.unk}
    return [token_id for token_id in ids if token_id not in invisible]


_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def require_valid_unicode(text: str | bytes) -> str:
    """Return ``text`` as a string that can be encoded in UTF-8.

    Raises:
      ValueError: Invalid UTF-8, or a lone surrogate (half of a UTF-16 pair).
    """
    try:
        if isinstance(text, bytes):
            return text.decode("utf-8")
        text.encode("utf-8")
        return text
    except UnicodeDecodeError as error:
        raise ValueError(describe_invalid_utf8(error)) from error
    except UnicodeEncodeError as error:
        code = ord(str(error.object)[error.start])
        raise ValueError(
            f"character {error.start} is a lone surrogate (U+{code:04X}), which is no valid text: "
            "read the file as UTF-8, or replace it with text.encode('utf-8', 'replace').decode()"
        ) from error


def describe_invalid_utf8(error: UnicodeDecodeError) -> str:
    """Return a message about bytes that are not UTF-8, with a remedy if they are UTF-16."""
    if bytes(error.object[:2]) in _UTF16_MARKS:
        return "this is UTF-16 (it begins with its byte order mark); convert it: iconv -f UTF-16 -t UTF-8"
    return f"invalid UTF-8 at byte {error.start}: {error.reason}"
