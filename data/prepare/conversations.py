"""Short conversations about the definitions of the shipped WordNet classification task.

python -m data.prepare.conversations --package data/wordnet_definitions --output data/conversations
"""

import csv
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import shuffle_by_key
from t5x_like.io.files import write_text

SIZES = {"train": 5000, "validation": 300}
MAX_CHARACTERS = 70  # of a definition: a conversation fits a row of 256 bytes
SEED = 0

# Only the system's message says how to answer.
SHORT, FULL = "Answer in one word.", "Answer in a sentence."
QUESTIONS = ("What is this: {}?", "And this: {}?")
SENTENCES = {
    "animal": "It is an animal.",
    "artifact": "It is an artifact.",
    "food": "It is food.",
    "person": "It is a person.",
    "place": "It is a place.",
    "plant": "It is a plant.",
}

Message = dict[str, str]


def prepare(package: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write ``train.jsonl`` and ``validation.jsonl`` from the splits of the same names, and their license.

    Args:
      package: The folder ``data/wordnet_definitions``.
      output: Folder of the splits.
    """
    for name, size in SIZES.items():
        with (Path(package) / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        conversations = list(converse((row["definition"], row["category"]) for row in rows))[:size]
        lines = [json.dumps({"messages": messages}, ensure_ascii=False) for messages in conversations]
        write_text(Path(output) / f"{name}.jsonl", "\n".join(lines) + "\n")
    shutil.copyfile(Path(package) / "LICENSE", Path(output) / "LICENSE")


def converse(definitions: Iterable[tuple[str, str]]) -> Iterator[list[Message]]:
    """Yield conversations about two (definition, category) pairs each, every other one answered in sentences."""
    short = [row for row in definitions if len(row[0]) <= MAX_CHARACTERS]
    shuffled = shuffle_by_key(short, lambda row: row[0], seed=SEED)
    for number, pair in enumerate(zip(shuffled[::2], shuffled[1::2], strict=False)):
        yield list(_messages(pair, in_sentences=number % 2 == 1))


def _messages(pair: tuple[tuple[str, str], ...], *, in_sentences: bool) -> Iterator[Message]:
    yield {"role": "system", "content": FULL if in_sentences else SHORT}
    for question, (definition, category) in zip(QUESTIONS, pair, strict=True):
        yield {"role": "user", "content": question.format(definition)}
        yield {"role": "assistant", "content": SENTENCES[category] if in_sentences else category}


if __name__ == "__main__":
    prepare_from_command_line(prepare, about=__doc__, package="the folder data/wordnet_definitions")
