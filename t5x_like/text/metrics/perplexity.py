"""Perplexity and bits of texts for each token, word and byte, so that vocabularies can be compared."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from t5x_like.text.metrics.classification import Scores


class TextCost(NamedTuple):
    """Nats that texts cost, and what they are made of. Costs add up."""

    nats: float
    tokens: int  # scored ones
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
    """Compute the measures of a text whose tokens cost ``nats`` together; words are split at white space."""
    return TextCost(nats, tokens, len(text.split()), len(text.encode("utf-8")))


def perplexities(cost: TextCost) -> Scores:
    """Perplexity a token, a word and a byte, and bits a byte.

    ``word_perplexity`` spreads the cost of all tokens over the words of the untokenized text, as Merity et al. (2017,
    https://arxiv.org/abs/1609.07843) and lm-evaluation-harness count it, so that it doesn't depend on the vocabulary.

    Raises:
      ValueError: no tokens were scored.
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
    """Tokens ``start:end`` are read; those from ``scored_from`` on are scored."""

    start: int
    end: int
    scored_from: int


def windows(num_tokens: int, *, length: int, stride: int) -> Iterator[Window]:
    """Windows of ``length`` tokens over a long text, each ``stride`` further on, that score every token once.

    The first token has nothing before it and is scored only if the caller gives it something. A smaller stride gives
    tokens more context, at least ``length - stride``, and takes more time (Press et al. 2021, §2,
    https://arxiv.org/abs/2012.15832).

    Raises:
      ValueError: a stride that is not between 1 and ``length``.
    """
    if not 1 <= stride <= length:
        raise ValueError(f"stride={stride} must lie between 1 and the window's length={length}")
    scored, start = 0, 0
    while scored < num_tokens:
        end = min(start + length, num_tokens)
        yield Window(start, end, scored)
        scored, start = end, start + stride
