r"""Ways in which byte-level BPE cuts text into words, by llama.cpp's names.

A way is a sequence of patterns; each cuts the parts that those before it left. ``tokenizer.ggml.pre`` of a GGUF file
names it, and the steps of a ``tokenizer.json`` spell it out.

The names are those of llama.cpp's ``src/llama-vocab.cpp`` (https://github.com/ggml-org/llama.cpp). Where it simplifies
a pattern, the one here is that of the model's own files: its ``tokenizer.json``, or the ``pat_str`` of Kimi's
``tokenization_kimi.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_UP_TO_THREE_DIGITS = r"\p{N}{1,3}"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_REST = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_THREE_DIGITS = "[0-9][0-9][0-9]"


def _words_by_case(excluded: str = "") -> tuple[str, str]:
    """Return patterns of words with capitals at their beginning; ``excluded`` ends the classes of letters."""
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{excluded}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{excluded}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return f"{start}{upper}*{lower}+", f"{start}{upper}+{lower}*"


_CAPITALS = _words_by_case()
_NOT_HAN = _words_by_case(r"&&[^\p{Han}]")
_REST_OF_PATHS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_MARKS = r"[\p{P}\$\+<=>\^~\|]+"
_SENTENCE_PARTS = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"

# DeepSeek's patterns, with characters in place of some escapes as in its files. ``_CASED`` has the letters with case
# of Unicode 11, without a few Latin and Georgian ones.
_LINE_END = "[\r\n]"
_CASED = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"
    "\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e"
    "\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f"
    "\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_ASCII_AND_WIDE_MARKS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_CHINESE_OR_JAPANESE = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_MARK_AND_WORD = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
_WORD_OR_MARKS = (
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

# The first name of each way is the one that is written.
_NAMES: Mapping[tuple[str, ...], str] = {
    (
        _GPT2,
    ): "gpt-2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de jina-v1-en "
    "jina-v2-code roberta-bpe modern-bert gigachat a.x-4.0 mellum exaone4",
    (_DIGIT, _GPT2): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    (
        rf"{_ENDINGS}|{_WORD}|{_UP_TO_THREE_DIGITS}|{_REST}",
    ): "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
    "jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe",
    (
        rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_REST}",
    ): "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
    (
        rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
    ): "qwen35",
    (_UP_TO_THREE_DIGITS, rf"{_ENDINGS}|{_WORD}|\p{{N}}+|{_REST}"): "minicpm5",
    (rf"{'|'.join(_CAPITALS)}|\p{{N}}|{_REST_OF_PATHS}",): "tekken",
    (
        rf"{'|'.join(f'{each}{_ENDINGS}?' for each in _CAPITALS)}|{_UP_TO_THREE_DIGITS}|{_REST_OF_PATHS}",
    ): "gpt-4o llama4 kanana2 talkie minimax-m2",
    (
        rf"[\p{{Han}}]+|{'|'.join(f'{each}{_ENDINGS}?' for each in _NOT_HAN)}|{_UP_TO_THREE_DIGITS}|{_REST}",
    ): "kimi-k2",
    (_SENTENCE_PARTS,): "bloom poro-chat gpt3-finnish",
    (_SENTENCE_PARTS, _DIGIT): "viking",
    (
        _LINE_END,
        rf"\s?[{_CASED}]+",
        rf"\s?[{_ASCII_AND_WIDE_MARKS}]+",
        r"\s+$",
        _EAST_ASIAN,
        _DIGIT,
    ): "deepseek-llm",
    (_LINE_END, r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, _DIGIT): "deepseek-coder",
    (
        _UP_TO_THREE_DIGITS,
        _CHINESE_OR_JAPANESE,
        f"{_MARK_AND_WORD}|{_WORD_OR_MARKS}",
    ): "deepseek-v3 hunyuan-dense joyai-llm",
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


def pre_tokenizer(patterns: Sequence[str]) -> dict[str, object]:
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
