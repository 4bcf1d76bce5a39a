"""Tokenizers in llama.cpp's ``.gguf`` files, as a ``tokenizer.json`` with its ``tokenizer_config.json``.

The rules are llama.cpp's. transformers reads the same ids from most texts; ``docs/guides/models.md`` lists the others.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.gguf_header import read_metadata
from t5x_like.text.vocabularies.byte_level_splits import PATTERNS, WITH_WHOLE_WORDS, pre_tokenizer
from t5x_like.text.vocabularies.definitions import byte_level
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition

_PREFIX = "tokenizer.ggml."
_WITHOUT = (None, "no_vocab", "none")  # values of tokenizer.ggml.model in files without a tokenizer
# Fields of a tokenizer_config.json, by the names that ids have.
_ROLES = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}


class TokenKind(IntEnum):
    """llama.cpp's kinds of tokens; SentencePiece numbers its own in the same way."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class GgufToken(NamedTuple):
    """Token of a GGUF file."""

    text: str
    score: float
    kind: int


class GgufVocabulary(NamedTuple):
    """Tokenizer of a GGUF file.

    Attributes:
      definition: Content of a ``tokenizer.json``.
      configuration: Content of a ``tokenizer_config.json``.
    """

    definition: Definition
    configuration: dict[str, Any]

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files by name."""
        contents = {"tokenizer.json": self.definition, "tokenizer_config.json": self.configuration}
        return {
            name: json.dumps(content, ensure_ascii=False, indent=2).encode()
            for name, content in contents.items()
        }


class _Fields(NamedTuple):
    """What the metadata says of a tokenizer.

    Attributes:
      values: Values under ``tokenizer.ggml``, without that prefix.
      tokens: Tokens by id.
      special: Ids by the names that metadata gives them.
    """

    values: Mapping[str, Any]
    tokens: Sequence[GgufToken]
    special: Mapping[str, int]

    @property
    def numbers(self) -> dict[str, int]:
        """Id of each token."""
        return {token.text: number for number, token in enumerate(self.tokens)}

    def of_kind(self, *kinds: TokenKind) -> list[int]:
        """Return the ids of tokens of some kinds."""
        return [number for number, token in enumerate(self.tokens) if token.kind in kinds]


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Return whether a path has the name of a GGUF file."""
    return os.fspath(path).endswith(".gguf")


def holds_vocabulary(path: str | os.PathLike[str]) -> bool:
    """Return whether a GGUF file has a tokenizer.

    Raises:
      ValueError: It is damaged.
    """
    return read_metadata(path).get(f"{_PREFIX}model") not in _WITHOUT


def read_gguf_vocabulary(path: str | os.PathLike[str]) -> GgufVocabulary:
    """Read the tokenizer of a GGUF file.

    Raises:
      ValueError: The file is damaged, or its tokenizer is missing or of a kind that can't be read.
    """
    with refusing_damage(path):
        metadata = read_metadata(path)
        values = {
            name.removeprefix(_PREFIX): value for name, value in metadata.items() if name.startswith(_PREFIX)
        }
        kind = values.get("model")
        if kind in _WITHOUT:
            raise ValueError("the file holds no tokenizer; name one: vocabulary=PATH")
        if kind not in _DEFINITIONS:
            raise ValueError(
                f"tokenizer.ggml.model is {kind!r}; {', '.join(_DEFINITIONS)} can be read. Name the model's own "
                "tokenizer: vocabulary=PATH"
            )
        tokens = _tokens(values)
        fields = _Fields(values, tokens, _special_ids(values, tokens))
        definition = _DEFINITIONS[kind](fields)
        configuration = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{
                role: tokens[fields.special[name]].text
                for name, role in _ROLES.items()
                if name in fields.special
            },
            **_added_ends(fields, kind),
        }
        if (template := _chat_template(metadata)) is not None:
            configuration["chat_template"] = template
        return GgufVocabulary(
            {**definition, "post_processor": _template(fields, configuration)}, configuration
        )


def _tokens(values: Mapping[str, Any]) -> list[GgufToken]:
    """Return the tokens without the last rows that only fill a table.

    Raises:
      ValueError: There are none, lists differ in length, or two tokens are equal.
    """
    texts = values.get("tokens")
    if not isinstance(texts, list) or not texts:
        raise ValueError("tokenizer.ggml.tokens is missing")
    columns = {
        "scores": values.get("scores", [0.0] * len(texts)),
        "token_type": values.get("token_type", [TokenKind.NORMAL] * len(texts)),
    }
    for name, column in columns.items():
        if not isinstance(column, list) or len(column) < len(texts):
            raise ValueError(f"tokenizer.ggml.{name} has not a value for each of {len(texts):,} tokens")
    named = [text or f"[EMPTY_{number}]" for number, text in enumerate(texts)]
    tokens = [GgufToken(*row) for row in zip(named, *columns.values(), strict=False)]
    while tokens and tokens[-1].kind == TokenKind.UNUSED and tokens[-1].text == f"[PAD{len(tokens) - 1}]":
        tokens.pop()
    seen: set[str] = set()
    for number, token in enumerate(tokens):
        if token.text in seen:
            raise ValueError(f"the token {token.text!r} is there twice, id {number} again")
        seen.add(token.text)
    return tokens


def _special_ids(values: Mapping[str, Any], tokens: Sequence[GgufToken]) -> dict[str, int]:
    """Return the ids that the file names; llama.cpp ignores those beyond the tokens too."""
    ids = {
        name.removesuffix("_token_id"): value for name, value in values.items() if name.endswith("_token_id")
    }
    return {name: number for name, number in ids.items() if 0 <= number < len(tokens)}


def _added_ends(fields: _Fields, kind: str) -> dict[str, bool]:
    """Return whether texts begin with bos and end with eos."""
    begins = kind == "llama" or fields.values.get("pre") in WITH_WHOLE_WORDS
    begins, ends = (
        fields.values.get("add_bos_token", begins),
        fields.values.get("add_eos_token", kind == "t5"),
    )
    return {
        "add_bos_token": bool(begins) and "bos" in fields.special,
        "add_eos_token": bool(ends) and "eos" in fields.special,
    }


def _template(fields: _Fields, configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the ``post_processor`` that adds the special ids at the ends of texts."""
    first = [fields.special["bos"]] if configuration["add_bos_token"] else []
    last = [fields.special["eos"]] if configuration["add_eos_token"] else []
    if not first and not last:
        return None

    def special(ids: Sequence[int], part: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": fields.tokens[number].text, "type_id": part}} for number in ids]

    one, two = ({"Sequence": {"id": name, "type_id": part}} for part, name in enumerate("AB"))
    single = [*special(first, 0), one, *special(last, 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *special(first, 1), two, *special(last, 1)],
        "special_tokens": {
            fields.tokens[number].text: {
                "id": fields.tokens[number].text,
                "ids": [number],
                "tokens": [fields.tokens[number].text],
            }
            for number in (*first, *last)
        },
    }


def _chat_template(metadata: Mapping[str, Any]) -> Any:
    """Return the chat template, or the list of several as transformers stores it."""
    default = metadata.get("tokenizer.chat_template")
    named = {
        name: metadata.get(f"tokenizer.chat_template.{name}")
        for name in metadata.get("tokenizer.chat_templates", ())
    }
    if not named:
        return default
    return [
        {"name": name, "template": template}
        for name, template in {"default": default, **named}.items()
        if template is not None
    ]


def _added(fields: _Fields, special: Sequence[int]) -> list[dict[str, Any]]:
    """Return the ``added_tokens``: special ones, and those that are found in text before all others."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    ids = {*special, *fields.of_kind(TokenKind.CONTROL, TokenKind.USER_DEFINED)}
    return [
        {
            "id": number,
            "content": fields.tokens[number].text,
            **flags,
            "special": number in special or fields.tokens[number].kind == TokenKind.CONTROL,
        }
        for number in sorted(ids)
    ]


def _byte_level(fields: _Fields) -> Definition:
    """Return GPT-2's BPE with the file's way to cut words.

    Raises:
      ValueError: There are no merges, or the way is not known.
    """
    name = fields.values.get("pre", "default")
    if name not in PATTERNS:
        raise ValueError(
            f"tokenizer.ggml.pre is {name!r}, a way to cut words that is not known; {', '.join(sorted(PATTERNS))} "
            "are. Name the model's own tokenizer: vocabulary=PATH"
        )
    if "merges" not in fields.values:
        raise ValueError("tokenizer.ggml.merges is missing")
    # A piece may begin with a space, so that the space between two is not the first character.
    cuts = [(pair, pair.find(" ", 1)) for pair in fields.values["merges"]]
    merges = [(pair[:cut], pair[cut + 1 :]) for pair, cut in cuts]
    definition = byte_level(fields.numbers, merges, prefix_space=False)
    return {
        **definition,
        "added_tokens": _added(fields, ()),
        "pre_tokenizer": pre_tokenizer(PATTERNS[name]),
        "model": {**definition["model"], "ignore_merges": name in WITH_WHOLE_WORDS},
    }


_DEFINITIONS: Mapping[str, Callable[[_Fields], Definition]] = {"gpt2": _byte_level}
