"""Noun phrases of English text, by the library TextBlob (https://textblob.readthedocs.io)."""

import functools
import warnings
from typing import Any


@functools.lru_cache(maxsize=4096)
def noun_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a text that have a noun, in order.

    >>> noun_phrases("The trophy didn't fit in the brown suitcase.")
    ('The trophy', 'the brown suitcase')

    Raises:
      ValueError: TextBlob isn't installed.
    """
    phrases: list[list[Any]] = []
    inside = False
    parse = _parser()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it doesn't close its lexicon
        parsed = parse(text, chunks=True).split()
    for sentence in parsed:
        for word, tag, chunk, *_ in sentence:
            if not chunk.endswith("-NP"):
                inside = False
                continue
            if chunk.startswith("B") or not inside:
                phrases.append([])
            inside = True
            phrases[-1].append((word, tag))
    with_nouns = [
        each for each in phrases if any(tag.startswith("NN") and len(word) > 1 for word, tag in each)
    ]
    return tuple(" ".join(word for word, _ in each) for each in with_nouns)


def _parser() -> Any:
    try:
        from textblob.en import parse  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "noun phrases need the library TextBlob; install it: pip install 't5x-like[pronouns]'. Or give each row "
            "its candidates"
        ) from None
    return parse
