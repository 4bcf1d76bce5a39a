"""Special ids of a vocabulary, by its configuration or by their usual names."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

_NAMES: Mapping[str, Sequence[str]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "eos": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "bos": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>", "<|mask|>"),
}
_SENTINEL = re.compile(r"▁?<extra_id_(\d+)>")
_MARKUP = re.compile(
    r"<\|.*\|>|<(eod|eop|start_of_turn|end_of_turn|unused\d+|ctc_blank)>|\[@BOS@\]|▁?<extra_id_\d+>"
)
_USUAL = {name for names in _NAMES.values() for name in names}

Finder = Callable[[str], int | None]


def content_of(token: object) -> str:
    """Return the text of a token that a configuration has as an object or as the text itself; empty for none."""
    return str((token.get("content") if isinstance(token, Mapping) else token) or "")


def is_markup(piece: str) -> bool:
    """Return whether a piece that its file lists as ordinary is not text, such as ``<mask>`` or ``<|im_start|>``."""
    return piece in _USUAL or bool(_MARKUP.fullmatch(piece))


def find_special(
    find: Finder, *, configuration: Mapping[str, object] | None = None, **known: int | None
) -> SpecialTokenIds:
    """Return the special ids of a vocabulary.

    Sources are, in order, ``known``, a ``tokenizer_config.json``, and the usual names. With a mask but no cls, ``<s>``
    and ``</s>`` are cls and sep, as in RoBERTa. Without an eos, the separator is eos, as in ALBERT.

    Args:
      find: Returns the id of a piece, or None.
      configuration: Content of a ``tokenizer_config.json``.
      **known: Special ids given by the file itself.
    """
    ids: dict[str, Any] = {}
    for role, names in _NAMES.items():
        ids[role] = known.get(role)
        named = content_of((configuration or {}).get(f"{role}_token"))
        for name in filter(None, (named, *names)):
            if ids[role] is None:
                ids[role] = find(name)
    if ids["mask"] is not None and ids["cls"] is None and ids["sep"] is None:
        ids["cls"], ids["sep"] = ids["bos"], ids["eos"]
    if ids["eos"] is None:
        ids["eos"] = ids["sep"]
    return SpecialTokenIds(**ids)


def added_ends(
    configuration: Mapping[str, Any] | None, definition: Mapping[str, Any] | None = None
) -> tuple[bool | None, bool | None]:
    """Return whether texts begin with bos and end with eos; None where the files don't say.

    Args:
      configuration: Content of a ``tokenizer_config.json``.
      definition: Content of a ``tokenizer.json``, whose template counts where the configuration is silent.
    """
    settings = configuration or {}
    begins, ends = settings.get("add_bos_token"), settings.get("add_eos_token")
    processor = (definition or {}).get("post_processor") or {}
    steps = processor.get("processors", [processor])
    single = next((step["single"] for step in steps if step.get("type") == "TemplateProcessing"), None)
    if begins is None and single:
        begins = "SpecialToken" in single[0]
        ends = "SpecialToken" in single[-1] if ends is None else ends
    return begins, ends


def template_ends(definition: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the special ids before and after a text; ``None`` where a definition has no template of texts.

    Args:
      definition: Content of a ``tokenizer.json``.
    """
    processor = definition.get("post_processor") or {}
    steps = processor.get("processors", [processor])
    template = next((step for step in steps if step.get("type") == "TemplateProcessing"), None)
    if template is None:
        return None
    ids, ends = template["special_tokens"], ([], [])
    is_after = False
    for piece in template["single"]:
        if "SpecialToken" in piece:
            ends[is_after].extend(ids[piece["SpecialToken"]["id"]]["ids"])
        else:
            is_after = True
    return tuple(ends[0]), tuple(ends[1])


def count_own_sentinels(piece_of: Callable[[int], str | None], size: int) -> int:
    """Return the number of last ids that are sentinels counting down to the end, as in mT5.

    Args:
      piece_of: Returns the string of an id.
      size: Number of ids.
    """
    count = 0
    while count < size:
        match = _SENTINEL.fullmatch(piece_of(size - 1 - count) or "")
        if match is None or int(match[1]) != count:
            return count
        count += 1
    return count
