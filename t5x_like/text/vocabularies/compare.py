"""What a text costs in different vocabularies."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.training_corpus import Corpus

_LINES_AT_ONCE = 4096
_LONGEST = 1 << 16  # bytes of a line that are read together


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Counts of one vocabulary on one text. Words are what white space separates, bytes those of UTF-8, both without
    the ends of lines."""

    name: str
    kind: str
    vocab_size: int
    num_words: int
    num_bytes: int
    num_tokens: int
    num_unknown: int

    @property
    def fertility(self) -> float:
        """Tokens a word (Rust et al. 2021, §3.2, https://arxiv.org/abs/2012.15613): 1 at best."""
        return self.num_tokens / self.num_words

    @property
    def bytes_per_token(self) -> float:
        """How much text a token holds: how much of it fits into a sequence."""
        return self.num_bytes / self.num_tokens if self.num_tokens else 0.0

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are the unknown one: what can't be written back."""
        return self.num_unknown / self.num_tokens if self.num_tokens else 0.0

    def as_row(self) -> dict[str, Any]:
        """Counts and rates, to be written as JSON."""
        rates = {name: getattr(self, name) for name in ("fertility", "bytes_per_token", "unknown_rate")}
        return asdict(self) | rates


def measure(
    tokenizers: Sequence[Tokenizer], inputs: str | Sequence[str], *, progress: bool = False
) -> list[Measures]:
    """Encodes the files once in each vocabulary, whatever their size, a few thousand lines at a time.

    Raises:
      ValueError: bad text, named by file and line.
    """
    counts = [[0, 0] for _ in tokenizers]
    num_words = num_bytes = 0
    lines = iter(Corpus(inputs, longest=_LONGEST, progress=progress))
    while texts := list(islice(lines, _LINES_AT_ONCE)):
        num_words += sum(len(text.split()) for text in texts)
        num_bytes += sum(len(text.encode("utf-8")) for text in texts)
        for count, tokenizer in zip(counts, tokenizers, strict=True):
            for ids in tokenizer.encode_all(texts):
                count[0] += len(ids)
                count[1] += (
                    ids.count(tokenizer.special.unknown) if tokenizer.special.unknown is not None else 0
                )
    return [
        Measures(
            name=tokenizer.name,
            kind=tokenizer.kind,
            vocab_size=tokenizer.vocab_size,
            num_words=num_words,
            num_bytes=num_bytes,
            num_tokens=num_tokens,
            num_unknown=num_unknown,
        )
        for tokenizer, (num_tokens, num_unknown) in zip(tokenizers, counts, strict=True)
    ]
