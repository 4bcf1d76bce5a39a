"""Tokens that users added to a vocabulary with transformers, as its slow tokenizers saved them.

They are in ``added_tokens.json`` or, since version 4.34, in ``added_tokens_decoder`` of ``tokenizer_config.json``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from t5x_like.text.vocabularies.roles import content_of, is_markup

_FLAGS = ("single_word", "lstrip", "rstrip")


def added_tokens(
    configuration: Mapping[str, Any], ids: Mapping[str, int], pieces: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return added tokens in the form of a ``tokenizer.json``, by id, without special ones that are pieces.

    Args:
      configuration: Content of a ``tokenizer_config.json``, with that of a ``special_tokens_map.json``.
      ids: Content of an ``added_tokens.json``.
      pieces: Id of each piece of the vocabulary's own file.
    """
    special = set(_special_contents(configuration))
    tokens: dict[int, dict[str, Any]] = {}
    for content, token_id in ids.items():
        tokens[token_id] = {"content": content, "special": content in special}
    for token_id, token in (configuration.get("added_tokens_decoder") or {}).items():
        tokens[int(token_id)] = dict(token)
    return [
        {
            "id": token_id,
            "content": token["content"],
            **{flag: bool(token.get(flag, False)) for flag in _FLAGS},
            "normalized": bool(token.get("normalized", not token.get("special"))),
            "special": bool(token.get("special")),
        }
        for token_id, token in sorted(tokens.items())
        if not (token.get("special") and token["content"] in pieces)
    ]


def ordinary_contents(
    configuration: Mapping[str, Any], ids: Mapping[str, int], pieces: Mapping[str, int]
) -> list[str]:
    """Return added tokens that are text, and no pieces.

    Args:
      configuration: Content of a ``tokenizer_config.json``, with that of a ``special_tokens_map.json``.
      ids: Content of an ``added_tokens.json``.
      pieces: Id of each piece of the vocabulary's own file.
    """
    return [
        token["content"]
        for token in added_tokens(configuration, ids, pieces)
        if not (token["special"] or is_markup(token["content"]) or token["content"] in pieces)
    ]


def _special_contents(configuration: Mapping[str, object]) -> Iterator[str]:
    for name, value in configuration.items():
        values = value if isinstance(value, list) else [value]
        if name.endswith(("_token", "_special_tokens")):
            yield from map(content_of, values)
