"""Comparison of vocabularies by the tokens that a text needs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.training_corpus import Corpus

_LINES_AT_ONCE = 4096
_MAX_BYTES = 1 << 16  # bytes of a line encoded at once


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Counts of one vocabulary on one text, without line ends.

    Attributes:
      name: Path or name of the vocabulary.
      kind: Type of the vocabulary.
      vocab_size: Number of ids.
      num_words: Strings separated by white space.
      num_bytes: Bytes of UTF-8.
      num_tokens: Tokens.
      num_unknown: Tokens that are the unknown id.
    """

    name: str
    kind: str
    vocab_size: int
    num_words: int
    num_bytes: int
    num_tokens: int
    num_unknown: int

    @property
    def fertility(self) -> float:
        """Tokens per word (Rust et al. 2021, §3.2, https://arxiv.org/abs/2012.15613); 1 is optimal."""
        return self.num_tokens / self.num_words

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text per token, which determine how much text fits into a sequence."""
        return self.num_bytes / self.num_tokens if self.num_tokens else 0.0

    @property
    def unknown_rate(self) -> float:
        """Fraction of tokens that are unknown and can't be decoded."""
        return self.num_unknown / self.num_tokens if self.num_tokens else 0.0

    def as_row(self) -> dict[str, object]:
        """Return counts and rates as JSON values."""
        rates = {name: getattr(self, name) for name in ("fertility", "bytes_per_token", "unknown_rate")}
        return asdict(self) | rates


def measure(
    tokenizers: Sequence[Tokenizer], inputs: str | Sequence[str], *, progress: bool = False
) -> list[Measures]:
    """Encode files once with each vocabulary, a few thousand lines at a time.

    Args:
      tokenizers: Vocabularies to compare.
      inputs: Text files.
      progress: Show a progress bar.

    Raises:
      ValueError: Bad text; the message names file and line.
    """
    return measure_texts(tokenizers, Corpus(inputs, max_bytes=_MAX_BYTES, progress=progress))


def measure_texts(tokenizers: Sequence[Tokenizer], texts: Iterable[str]) -> list[Measures]:
    """Encode texts once with each vocabulary, a few thousand at a time.

    Args:
      tokenizers: Vocabularies to compare.
      texts: Lines or other short texts.
    """
    counts = [[0, 0] for _ in tokenizers]
    num_words = num_bytes = 0
    lines = iter(texts)
    while part := list(islice(lines, _LINES_AT_ONCE)):
        num_words += sum(len(text.split()) for text in part)
        num_bytes += sum(len(text.encode("utf-8")) for text in part)
        for count, tokenizer in zip(counts, tokenizers, strict=True):
            for ids in tokenizer.encode_all(part):
                count[0] += len(ids)
                count[1] += ids.count(tokenizer.special.unk) if tokenizer.special.unk is not None else 0
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
