"""Perplexity and bits of texts per token, word and byte, so that vocabularies can be compared."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from t5x_like.text.metrics.classification import Scores


class TextCost(NamedTuple):
    """Cost of texts and their sizes. Costs can be added.

    Attributes:
      nats: Negative log-likelihood of all scored tokens.
      tokens: Number of scored tokens.
      words: Number of words.
      bytes: Number of bytes in UTF-8.
    """

    nats: float
    tokens: int
    words: int
    bytes: int

    def __add__(self, other: "TextCost") -> "TextCost":  # pyright: ignore[reportIncompatibleMethodOverride]
        return TextCost(
            self.nats + other.nats,
            self.tokens + other.tokens,
            self.words + other.words,
            self.bytes + other.bytes,
        )


def cost_of(text: str, nats: float, tokens: int) -> TextCost:
    """Return the cost of a text; words are split at white space.

    Args:
      text: The text.
      nats: Negative log-likelihood of its scored tokens.
      tokens: Number of scored tokens.
    """
    return TextCost(nats, tokens, len(text.split()), len(text.encode("utf-8")))


def perplexities(cost: TextCost) -> Scores:
    """Compute perplexity per token, word and byte, and bits per byte.

    ``word_perplexity`` divides the cost of all tokens by the words of the untokenized text, so that it doesn't depend
    on the vocabulary. Merity et al. (2017, https://arxiv.org/abs/1609.07843) and lm-evaluation-harness define it so.

    Raises:
      ValueError: No tokens were scored.
    """
    if not cost.tokens or not cost.bytes:
        raise ValueError("no text to measure: it has no tokens, or none that was scored")
    return {
        "token_perplexity": _power(cost.nats / cost.tokens),
        "word_perplexity": _power(cost.nats / cost.words) if cost.words else float("nan"),
        "byte_perplexity": _power(cost.nats / cost.bytes),
        "bits_per_byte": cost.nats / cost.bytes / math.log(2),
    }


def _power(nats: float) -> float:
    return math.exp(nats) if nats < 700 else float("inf")


class Window(NamedTuple):
    """Window over tokens ``start:end``; those from ``scored_from`` on are scored."""

    start: int
    end: int
    scored_from: int


def windows(num_tokens: int, *, length: int, stride: int) -> Iterator[Window]:
    """Yield overlapping windows over a long text that score every token once.

    The first token has no context and is scored only if the caller provides some. A smaller stride gives tokens more
    context, at least ``length - stride``, and takes more time (Press et al. 2021, §2,
    https://arxiv.org/abs/2012.15832).

    Args:
      num_tokens: Length of the text.
      length: Tokens in a window.
      stride: Tokens between the starts of two windows.

    Raises:
      ValueError: The stride is not between 1 and ``length``.
    """
    if not 1 <= stride <= length:
        raise ValueError(f"stride={stride} must be between 1 and the window's length={length}")
    scored, start = 0, 0
    while scored < num_tokens:
        end = min(start + length, num_tokens)
        yield Window(start, end, scored)
        scored, start = end, start + stride
