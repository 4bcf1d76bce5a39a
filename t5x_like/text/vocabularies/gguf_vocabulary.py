"""Tokenizers in llama.cpp's ``.gguf`` files, as a ``tokenizer.json`` with its ``tokenizer_config.json``.

The rules are llama.cpp's. transformers reads the same ids from most texts; ``docs/guides/models.md`` lists the others.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.gguf_header import read_metadata
from t5x_like.text.vocabularies.byte_level_splits import WITH_WHOLE_WORDS
from t5x_like.text.vocabularies.definitions import template_of
from t5x_like.text.vocabularies.gguf_definitions import DEFINITIONS
from t5x_like.text.vocabularies.gguf_tokens import TokenizerFields, tokenizer_fields
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition

_PREFIX = "tokenizer.ggml."
_WITHOUT = (None, "no_vocab", "none")  # values of tokenizer.ggml.model in files without a tokenizer
# Fields of a tokenizer_config.json, by the names that ids have. llama.cpp spells the separator so.
_ROLES = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
    "seperator": "sep_token",
    "cls": "cls_token",
    "mask": "mask_token",
}
_ROLES_OF_BERT = {**_ROLES, "bos": "cls_token"}


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
        if kind not in DEFINITIONS:
            raise ValueError(
                f"tokenizer.ggml.model is {kind!r}; {', '.join(DEFINITIONS)} can be read. Name the model's own "
                "tokenizer: vocabulary=PATH"
            )
        fields = tokenizer_fields(values)
        first, last = _ends(fields, kind)
        roles = _ROLES_OF_BERT if kind == "bert" else _ROLES
        configuration = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{role: text for name, role in roles.items() if (text := fields.text_of(name)) is not None},
        }
        if kind != "bert":
            configuration |= {"add_bos_token": bool(first), "add_eos_token": bool(last)}
        if (template := _chat_template(metadata)) is not None:
            configuration["chat_template"] = template
        middle = () if kind == "bert" else first
        processor = template_of(
            lambda token_id: fields.tokens[token_id].text,
            start=first,
            between=[*((token_id, 0) for token_id in last), *((token_id, 1) for token_id in middle)],
            end=last,
        )
        return GgufVocabulary({**DEFINITIONS[kind](fields), "post_processor": processor}, configuration)


def _ends(fields: TokenizerFields, kind: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that texts begin and end with."""
    begins = kind in ("llama", "bert") or fields.values.get("pre") in WITH_WHOLE_WORDS
    last, flag = ("seperator", "add_sep_token") if kind == "bert" else ("eos", "add_eos_token")
    adds = {
        "bos": fields.values.get("add_bos_token", begins),
        last: fields.values.get(flag, kind in ("bert", "t5")),
    }
    first, last = (
        (fields.special[name],) if is_added and name in fields.special else ()
        for name, is_added in adds.items()
    )
    return first, last


def _chat_template(metadata: Mapping[str, Any]) -> Any:
    """Return the chat template, or the list of several as transformers stores it."""
    default = metadata.get("tokenizer.chat_template")
    names = metadata.get("tokenizer.chat_templates", ())
    if not names:
        return default
    templates = {
        "default": default,
        **{name: metadata.get(f"tokenizer.chat_template.{name}") for name in names},
    }
    return [
        {"name": name, "template": template} for name, template in templates.items() if template is not None
    ]
