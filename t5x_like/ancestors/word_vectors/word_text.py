"""Text as rows of a table of words, for training their vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from t5x_like.text.vocabularies.hugging_face_tokenizer import HuggingFaceTokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.training_corpus import Corpus

_MAX_BYTES = 1 << 16  # of a line that is encoded at once; words of two parts are not neighbors
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, eq=False)
class WordText:
    """Words of a text that have a place in a table.

    Attributes:
      words: Words that occur, the most frequent first.
      counts: How often each occurs, int64 [W].
      rows: Row in ``words`` of each place of the text, int32 [N]; unknown words are left out.
      lines: Number of the line that each place is in, int32 [N].
    """

    words: tuple[str, ...]
    counts: np.ndarray
    rows: np.ndarray
    lines: np.ndarray


def words_of(vocabulary: object) -> dict[int, str]:
    """Return the words of a vocabulary by id, without special pieces and sentinels.

    Args:
      vocabulary: A tokenizer, or a vocabulary that has one.

    Raises:
      ValueError: Its pieces are not whole words.
    """
    tokenizer = getattr(vocabulary, "core", vocabulary)
    if not (
        isinstance(tokenizer, HuggingFaceTokenizer) and tokenizer.definition["model"]["type"] == "WordLevel"
    ):
        name, kind = getattr(tokenizer, "name", tokenizer), getattr(tokenizer, "kind", "unknown")
        raise ValueError(
            f"the vocabulary {name!r} is of the kind {kind}; word vectors and models that read characters need one of "
            "whole words, as `t5x-like vocabulary learn --kind words` writes it"
        )
    return {
        token_id: tokenizer.piece(token_id)
        for token_id in range(tokenizer.vocab_size)
        if token_id not in tokenizer.special.by_role.values() and not tokenizer.is_sentinel(token_id)
    }


def read_word_text(
    inputs: str | Sequence[str], tokenizer: Tokenizer, *, min_count: int = 1, progress: bool = False
) -> WordText:
    """Read text files as words of a vocabulary.

    Args:
      inputs: UTF-8 files, or patterns.
      tokenizer: A vocabulary of whole words.
      min_count: Words that occur less often are unknown, too.
      progress: Show a progress bar.

    Raises:
      ValueError: A vocabulary of another kind, bad text (located by file and line), or no known word.
    """
    words = words_of(tokenizer)
    if min_count < 1:
        raise ValueError(f"min_count is {min_count}; give at least 1")
    ids, lines = [], []
    corpus = Corpus(inputs, max_bytes=_MAX_BYTES, progress=progress)
    for line, encoded in enumerate(_encoded(corpus, tokenizer)):
        ids.append(np.asarray(encoded, np.int32))
        lines.append(np.full(len(encoded), line, np.int32))
    ids, lines = np.concatenate(ids), np.concatenate(lines)
    counts = np.bincount(ids, minlength=tokenizer.vocab_size)
    kept = np.array([token_id for token_id in words if counts[token_id] >= min_count], np.int32)
    if len(kept) < 2:
        raise ValueError(
            f"{', '.join(corpus.files[:3])} has {len(kept)} words of the vocabulary {tokenizer.name!r} with "
            f"min_count={min_count}; give more text, or a vocabulary that was learned from it"
        )
    order = kept[np.argsort(-counts[kept], kind="stable")]
    row_of = np.full(tokenizer.vocab_size, -1, np.int32)
    row_of[order] = np.arange(len(order), dtype=np.int32)
    rows = row_of[ids]
    is_known = rows >= 0
    return WordText(
        words=tuple(words[token_id] for token_id in order.tolist()),
        counts=counts[order],
        rows=rows[is_known],
        lines=lines[is_known],
    )


def _encoded(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[list[int]]:
    lines = iter(corpus)
    while group := list(islice(lines, _LINES_AT_ONCE)):
        yield from tokenizer.encode_all(group)
