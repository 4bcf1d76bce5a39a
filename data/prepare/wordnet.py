"""WordNet's noun definitions as a classification task: from a definition to one of six categories.

python -m data.prepare.wordnet --package wordnet-base_3.0-37_all.deb \\
    --output data/wordnet_definitions
"""

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from data.prepare.packages import read_member
from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import hold_out, shuffle_by_key, write_tsv
from t5x_like.io.files import write_text

# WordNet's lexicographer files (lexnames(5WN)) that become labels, in words a reader expects.
CATEGORIES = {5: "animal", 6: "artifact", 13: "food", 15: "place", 18: "person", 20: "plant"}
MAX_PER_CATEGORY = 5000
HELD_OUT_PER_CATEGORY = {"validation": 250, "test": 250}
SEED = 0

_MEMBER = "usr/share/wordnet/data.noun"
# WordNet records insults as insults and races as its time saw them; a first example should show neither.
_UNSUITED = re.compile(
    r"\b(slurs?|offensive|disparaging|derogatory|insulting|pejorative|obscene|whores?"
    r"|negro(id|es)?|mongoloid|caucasoid|caucasian race)\b",
    re.IGNORECASE,
)


class Definition(NamedTuple):
    """One sense of a noun.

    Attributes:
      word: Its first word.
      definition: Its meaning.
      category: Its category.
    """

    word: str
    definition: str
    category: str


def prepare(package: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write ``train.tsv``, ``validation.tsv``, ``test.tsv`` and WordNet's license.

    Args:
      package: Debian's wordnet-base package.
      output: Folder of the splits.
    """
    text = read_member(package, _MEMBER).decode("utf-8")
    for name, rows in split_definitions(read_definitions(text)).items():
        write_tsv(Path(output) / f"{name}.tsv", Definition._fields, rows)
    write_text(Path(output) / "LICENSE", read_license(text))


def read_definitions(text: str) -> list[Definition]:
    """Return the senses of ``CATEGORIES`` in WordNet's ``data.noun`` (format: wndb(5WN)), without usage examples."""
    definitions = []
    for line in text.splitlines():
        if line.startswith("  "):  # the license
            continue
        fields, _, gloss = line.partition(" | ")
        _, lexicographer_file, _, _, word, *_ = fields.split(" ")
        if int(lexicographer_file) in CATEGORIES:
            definition = gloss.split('; "')[0].strip()
            if _UNSUITED.search(definition):
                continue
            definitions.append(
                Definition(word.replace("_", " "), definition, CATEGORIES[int(lexicographer_file)])
            )
    return definitions


def read_license(text: str) -> str:
    """Return the notice at the start of every WordNet file, which its license requires on all copies."""
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    return "".join(re.sub(r"^ +\d+ ?", "", line).rstrip() + "\n" for line in lines)


def split_definitions(definitions: list[Definition]) -> dict[str, list[Definition]]:
    """Divide definitions into splits with balanced held-out splits and at most ``MAX_PER_CATEGORY`` rows of a category.

    Definitions that occur twice (except for case and punctuation) in one category are kept once, because they would
    leak from training into the test. Definitions in two categories are left out, because they have no right answer.
    """
    categories_of: dict[str, set[str]] = defaultdict(set)
    for row in definitions:
        categories_of[_key(row)].add(row.category)
    once = {
        _key(row): row for row in reversed(definitions) if len(categories_of[_key(row)]) == 1 and _key(row)
    }
    shuffled = shuffle_by_key(once.values(), _key, seed=SEED)
    splits: dict[str, list[Definition]] = defaultdict(list)
    for category in CATEGORIES.values():
        rows = [row for row in shuffled if row.category == category][:MAX_PER_CATEGORY]
        for name, part in hold_out(rows, HELD_OUT_PER_CATEGORY, rest="train").items():
            splits[name].extend(part)
    # Another seed: in the order that chose the rows, those of the most numerous categories come first.
    return {name: shuffle_by_key(rows, _key, seed=SEED + 1) for name, rows in splits.items()}


def _key(row: Definition) -> str:
    return " ".join(re.findall(r"\w+", row.definition.lower()))


if __name__ == "__main__":
    prepare_from_command_line(
        prepare, about=__doc__, package="Debian's wordnet-base_*.deb (apt-get download wordnet-base)"
    )
