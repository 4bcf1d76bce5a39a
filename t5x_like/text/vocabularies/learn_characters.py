"""Learning which characters to keep."""

import os
from collections import Counter

from t5x_like.io.files import write_json
from t5x_like.text.vocabularies.corpus import Corpus
from t5x_like.text.vocabularies.reading import OUR_CHARACTERS

_NUM_SPECIAL = 3


def learn_characters(corpus: Corpus, output: str | os.PathLike[str], *, size: int, min_count: int = 1) -> int:
    """Keeps the ``size - 3`` most frequent code points that occur ``min_count`` times, after T5's special ids.

    The end of a line counts as a character, once a line. Returns the number of ids, which is less than ``size``
    where the text has fewer characters.

    Raises:
      ValueError: bad text (named by file and line), or no room for any character.
    """
    if size <= _NUM_SPECIAL:
        raise ValueError(
            f"{_NUM_SPECIAL} ids are special, so size must be at least {_NUM_SPECIAL + 1}, got {size}"
        )
    counts: Counter[str] = Counter()
    for line in corpus:
        counts.update(line)
        counts["\n"] += 1
    frequent = sorted((-count, character) for character, count in counts.items() if count >= min_count)
    characters = "".join(character for _, character in frequent[: size - _NUM_SPECIAL])
    write_json(output, {"format": OUR_CHARACTERS, "characters": characters})
    return _NUM_SPECIAL + len(characters)
