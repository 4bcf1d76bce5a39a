"""Tokenizers run by the ``tokenizers`` library: ``tokenizer.json``, WordPiece, GPT-2's and Sennrich's BPE, words."""

import copy
import functools
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.text.vocabularies.roles import (
    added_ends,
    count_own_sentinels,
    find_special,
    is_markup,
    template_ends,
)
from t5x_like.text.vocabularies.tokenizer import Tokenizer, check_ids, visible

if TYPE_CHECKING:
    import tokenizers

Definition = dict[str, Any]  # the contents of a tokenizer.json


class HuggingFaceTokenizer(Tokenizer):
    """Tokenizer that can't encode special pieces, and decodes them and sentinels."""

    def __init__(
        self,
        name: str,
        definition: Definition,
        *,
        num_sentinels: int,
        configuration: Mapping[str, Any] | None = None,
        kind: str = "tokenizer.json",
    ) -> None:
        """Read the definition.

        Args:
          name: Path as the user wrote it.
          definition: Content of a ``tokenizer.json``.
          num_sentinels: Number of sentinels to add, unless the vocabulary has its own.
          configuration: Content of a ``tokenizer_config.json``.
          kind: Type of the vocabulary.

        Raises:
          ValueError: The library can't read the definition.
        """
        self.kind = kind  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
        self.definition = _without_extras(definition)
        self.adds_bos, self.adds_eos = added_ends(configuration, definition)
        self.text_ends = template_ends(definition)
        self.chat_template = (configuration or {}).get("chat_template")
        numbers = own_ids(name, self.definition)
        self._pieces = {token_id: piece for piece, token_id in numbers.items()}
        size = max(self._pieces) + 1
        own = count_own_sentinels(self._pieces.get, size)
        super().__init__(
            name,
            num_own=size,
            special=find_special(
                numbers.get,
                configuration=configuration,
                unk=_unknown(self.definition["model"], numbers),
            ),
            num_sentinels=own or num_sentinels,
            has_sentinels=own > 0,
        )
        self._num_own = size
        with refusing_damage(name):
            self._check_added_ids()

    def _check_added_ids(self) -> None:
        """Refuse added tokens to which the library gives other ids than the file does."""
        engine = self._engine
        for token in self.definition["added_tokens"]:
            content = token["content"]
            if content not in self._hidden and engine.token_to_id(content) != token["id"]:
                raise ValueError(
                    f"{self.name!r}: the added token {content!r} has the id {token['id']}, where the library gives it "
                    f"{engine.token_to_id(content)}; ids of added tokens must follow one another after those of "
                    "the vocabulary"
                )

    @functools.cached_property
    def _hidden(self) -> frozenset[str]:
        """Pieces that text must not be encoded to."""
        added = {token["content"] for token in self.definition["added_tokens"] if token.get("special")}
        marked = {piece for piece in self._pieces.values() if is_markup(piece)}
        special = {
            self._pieces[token_id] for token_id in self.special.by_role.values() if token_id is not None
        }
        return frozenset(added | marked | special)

    @functools.cached_property
    def _engine(self) -> "tokenizers.Tokenizer":
        return _build(_rename(self.definition, self._hidden, self._engine_secret))

    @functools.cached_property
    def _engine_secret(self) -> str:
        """Random text before hidden pieces, which no text can contain."""
        return secrets.token_hex(16)

    @functools.cached_property
    def special_pieces(self) -> dict[str, int]:
        """Implement ``Tokenizer``: added tokens, and pieces with a role; others are text to the library."""
        special = {
            self._pieces[token_id]: token_id
            for token_id in self.special.by_role.values()
            if token_id is not None
        }
        return special | self._added_special

    @functools.cached_property
    def _added_special(self) -> dict[str, int]:
        tokens = self.definition["added_tokens"]
        return {token["content"]: token["id"] for token in tokens if token["content"] in self._hidden}

    def encode_parts(self, parts: Sequence[str | int]) -> list[int]:
        """Implement ``Tokenizer``; white space around added tokens counts as the library has it."""
        if not {part for part in parts if isinstance(part, int)} <= set(self._added_special.values()):
            return super().encode_parts(parts)
        texts = (
            f"{self._engine_secret}{self._pieces[part]}" if isinstance(part, int) else part for part in parts
        )
        return self.encode("".join(texts))

    @functools.cached_property
    def _engine_for_decoding(self) -> "tokenizers.Tokenizer":
        from tokenizers import AddedToken

        engine = _build(self.definition)
        missing = range(self._num_own, self.vocab_size)
        engine.add_tokens([AddedToken(self.piece(token_id), normalized=False) for token_id in missing])
        return engine

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if len(texts) == 1:
            return [self._engine.encode(texts[0], add_special_tokens=False).ids]
        return [each.ids for each in self._engine.encode_batch_fast(texts, add_special_tokens=False)]

    def _decode(self, ids: list[int]) -> str:
        unknown = self.special.unk
        known = [self._known(token_id, unknown) for token_id in visible(ids, self.special)]
        with refusing_damage(self.name):
            tokens = self._engine_for_decoding
            return tokens.decode(
                [token_id for token_id in known if token_id is not None], skip_special_tokens=False
            )

    def _known(self, token_id: int, unknown: int | None) -> int | None:
        return token_id if token_id in self._pieces or self.is_sentinel(token_id) else unknown

    def _piece(self, token_id: int) -> str:
        return self._pieces.get(token_id, f"<{token_id}>")

    @functools.cached_property
    def _kinds_of_parts(self) -> set[str]:
        return _kinds_of_parts(self.definition)

    def _text(self, token_id: int, piece: str) -> bytes | None:
        if token_id not in self._pieces:
            return None
        model, kinds = self.definition["model"], self._kinds_of_parts
        if "ByteLevel" in kinds and all(character in _BYTE_OF for character in piece):
            return bytes(_BYTE_OF[character] for character in piece)
        if suffix := model.get("end_of_word_suffix"):
            return (piece.removesuffix(suffix) + " " * piece.endswith(suffix)).encode()
        prefix = model.get("continuing_subword_prefix")
        if prefix or model.get("type") == "WordLevel":
            continues = bool(prefix) and piece.startswith(prefix)
            return (piece.removeprefix(prefix) if continues else f" {piece}").encode()
        return super()._text(token_id, piece)

    def starts_word(self) -> np.ndarray | None:
        pieces = [self.piece(token_id) for token_id in range(self.vocab_size)]
        with refusing_damage(self.name):
            begins = word_starts(self.definition, pieces)
        if begins is None:
            return None
        special = {token_id for token_id in self.special.by_role.values() if token_id is not None}
        begins[[n for n in range(self.vocab_size) if self.is_sentinel(n) or n in special]] = True
        if self.special.unk is not None and self.definition["model"].get("type") in ("BPE", "Unigram"):
            begins[self.special.unk] = False  # it may be inside a word
        return begins

    def _contents(self) -> Iterable[bytes]:
        return (json.dumps(self.definition, sort_keys=True).encode(),)


def own_ids(name: str, definition: Definition) -> dict[str, int]:
    """Return the id of each piece of a definition.

    Args:
      name: Path of the file, for messages.
      definition: Content of a ``tokenizer.json``.

    Raises:
      ValueError: There is none, or the definition has another format.
    """
    try:
        vocabulary = definition["model"]["vocab"]
        numbers = (
            dict(vocabulary)
            if isinstance(vocabulary, Mapping)
            else {piece: index for index, (piece, _) in enumerate(vocabulary)}
        )
        numbers |= {token["content"]: token["id"] for token in definition["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name!r} is not a tokenizer.json: {type(error).__name__} {error}") from error
    check_ids(name, numbers)
    return numbers


def _build(definition: Definition) -> "tokenizers.Tokenizer":
    from tokenizers import Tokenizer as Engine

    return Engine.from_str(json.dumps(definition))


def _without_extras(definition: Definition) -> Definition:
    """Return the definition without truncation, padding and added special ids."""
    extras = {"truncation": None, "padding": None, "post_processor": None}
    return {**definition, "added_tokens": definition.get("added_tokens") or [], **extras}


def _unknown(model: Mapping[str, Any], numbers: Mapping[str, int]) -> int | None:
    if model.get("unk_id") is not None:
        return model["unk_id"]
    return numbers.get(model.get("unk_token") or "")


def _rename(definition: Definition, hidden: frozenset[str], secret: str) -> Definition:
    """Rename hidden pieces to strings with a random secret, which no text can contain; ids stay.

    They no longer need to be words of their own: an id between two letters is meant as that id.
    """

    def rename(piece: str) -> str:
        return f"{secret}{piece}" if piece in hidden else piece

    renamed = copy.copy(definition)
    model = renamed["model"] = dict(definition["model"])
    if isinstance(model["vocab"], Mapping):
        model["vocab"] = {rename(piece): token_id for piece, token_id in model["vocab"].items()}
    else:
        model["vocab"] = [[rename(piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token"):
        model["unk_token"] = rename(model["unk_token"])
    if model.get("merges"):
        model["merges"] = [pair for pair in model["merges"] if not _makes(pair, hidden)]
    renamed["added_tokens"] = [
        {**token, "content": rename(token["content"])}
        | ({"single_word": False} if token["content"] in hidden else {})
        for token in definition["added_tokens"]
    ]
    return renamed


def pieces_of_merge(merge: str | Sequence[str]) -> tuple[str, str]:
    """Return both pieces of a merge, which a ``tokenizer.json`` has as a list or as one text."""
    first, second = merge.split(" ", 1) if isinstance(merge, str) else merge
    return first, second


def _makes(pair: str | list[str], hidden: frozenset[str]) -> bool:
    first, second = pieces_of_merge(pair)
    return first in hidden or second in hidden or first + second in hidden


_THEMSELVES = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
_OTHERS = [byte for byte in range(256) if byte not in _THEMSELVES]

CHARACTER_OF = {byte: chr(byte) for byte in _THEMSELVES} | {
    byte: chr(0x100 + index) for index, byte in enumerate(_OTHERS)
}
_BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}
WHITE_SPACE = {CHARACTER_OF[byte] for byte in b" \t\n\r\v\f"}


def word_starts(definition: Definition, pieces: Sequence[str]) -> np.ndarray | None:
    """Return the pieces that start a word, bool [P]; None if pieces don't determine it.

    Args:
      definition: Content of a ``tokenizer.json``.
      pieces: All pieces by id.
    """
    model = definition["model"]
    if model.get("end_of_word_suffix"):
        return None  # the previous piece decides
    if prefix := model.get("continuing_subword_prefix"):
        return np.array([not piece.startswith(prefix) for piece in pieces], bool)
    if model["type"] == "WordLevel":
        return np.ones(len(pieces), bool)
    first = _first_characters(definition)
    return None if first is None else np.array([piece[:1] in first for piece in pieces], bool)


def _first_characters(definition: Definition) -> set[str] | None:
    parts = [*_parts(definition.get("normalizer")), *_parts(definition.get("pre_tokenizer"))]
    kinds = _kinds_of_parts(definition)
    if "ByteLevel" in kinds:
        return {*WHITE_SPACE, " "}  # pieces added to the file start with a raw space
    is_replaced = any(part["type"] == "Replace" and part.get("content") == "▁" for part in parts)
    return {"▁", " "} if "Metaspace" in kinds or is_replaced else None


def _kinds_of_parts(definition: Definition) -> set[str]:
    parts = [*_parts(definition.get("normalizer")), *_parts(definition.get("pre_tokenizer"))]
    return {part["type"] for part in parts}


def _parts(part: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if part is None:
        return
    yield part
    for inner in [*part.get("pretokenizers", ()), *part.get("normalizers", ())]:
        yield from _parts(inner)
