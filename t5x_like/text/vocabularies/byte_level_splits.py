r"""Ways in which byte-level BPE cuts text into words, by llama.cpp's names.

A way is a sequence of patterns; each cuts the parts that those before it left. ``tokenizer.ggml.pre`` of a GGUF file
names it, and the steps of a ``tokenizer.json`` spell it out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_THREE_DIGITS = "[0-9][0-9][0-9]"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CAPITALS = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_REST_OF_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_MARKS = r"[\p{P}\$\+<=>\^~\|]+"

# The first name of each way is the one that is written.
_NAMES: Mapping[tuple[str, ...], str] = {
    (
        _GPT2,
    ): "gpt-2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de jina-v1-en "
    "jina-v2-code roberta-bpe modern-bert gigachat a.x-4.0 mellum exaone4",
    (_DIGIT, _GPT2): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    (
        rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",
    ): "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
    "jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe",
    (
        rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_REST}",
    ): "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
    (rf"{'|'.join(_CAPITALS)}|\p{{N}}|{_REST_OF_PATHS}",): "tekken",
    (
        rf"{'|'.join(f'{each}{_ENDINGS}?' for each in _CAPITALS)}|\p{{N}}{{1,3}}|{_REST_OF_PATHS}",
    ): "gpt-4o llama4 kanana2 talkie minimax-m2",
    (rf"{_MARKS[:-2]}`]+", _GPT2, _THREE_DIGITS): "falcon",
    (_MARKS, _GPT2, r"\p{N}+", _THREE_DIGITS): "default",
}
PATTERNS: Mapping[str, tuple[str, ...]] = {
    name: patterns for patterns, names in _NAMES.items() for name in names.split()
}

_LLAMA3 = (
    "llama-bpe",
    "llama3",
    "llama-v3",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
)
# A word that is a token stays whole, whatever the merges say; texts begin with bos unless the file says otherwise.
WITH_WHOLE_WORDS = frozenset({*_LLAMA3, "tekken"})


def pre_tokenizer(patterns: Sequence[str]) -> dict[str, Any]:
    """Return the ``pre_tokenizer`` of a ``tokenizer.json`` that cuts text by ``patterns`` and spells bytes."""
    ends_as_gpt2 = patterns[-1] == _GPT2
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": ends_as_gpt2,
    }
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in (patterns[:-1] if ends_as_gpt2 else patterns)
    ]
    return {"type": "Sequence", "pretokenizers": [*splits, level]} if splits else level


def name_of_splits(steps: Sequence[Mapping[str, Any]]) -> str | None:
    """Return llama.cpp's name of the steps of a ``pre_tokenizer``; ``None`` if it has none that is known here."""
    if not steps or steps[-1]["type"] != "ByteLevel":
        return None
    patterns = [_pattern_of(step) for step in steps[:-1]]
    patterns += [_GPT2] if steps[-1].get("use_regex", True) else []
    return next((name for name, known in PATTERNS.items() if list(known) == patterns), None)


def _pattern_of(step: Mapping[str, Any]) -> str | None:
    if step["type"] == "Digits" and step.get("individual_digits"):
        return _DIGIT
    return step.get("pattern", {}).get("Regex") if step["type"] == "Split" else None
