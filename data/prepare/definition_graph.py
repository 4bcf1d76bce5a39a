"""A small graph of people and places, text that mentions them, and relations to classify, from dictionary definitions.

python -m data.prepare.definition_graph --package data/wordnet_definitions --output data/definition_graph
"""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import shuffle_by_key
from t5x_like.io.files import write_text

SEED = 0
MIN_TRIPLES_OF_TAIL = 3
HELD_OUT_TAILS, HELD_OUT_ROWS = 0.3, 300
TRAINING_ROWS = 400
VALIDATION_TEXTS, TEXTS = 100, 900

_NAME = r"([A-Z][a-z]+(?:[ -][A-Z][a-z]+)*)"
_PLACES = "city|town|port|village|river|lake|mountain|resort|peak|capital|state|county|region|island|district"
_OCCUPATIONS = (
    "painter|writer|poet|composer|physicist|chemist|general|politician|novelist|philosopher|actor|architect|"
    "mathematician|singer|statesman|explorer|sculptor|dramatist|physiologist|astronomer|biologist|economist|historian|"
    "conductor|musician|pianist|inventor|author|botanist|king|leader|actress|dancer|journalist"
)
# Relations, categories of the words that have them, and patterns whose first group is the tail.
_PATTERNS = (
    (
        "located_in",
        "place",
        re.compile(rf"^an? [a-z ]*(?:{_PLACES})[a-z, ]* (?:in|of|on) (?:[a-z-]+ )*{_NAME}"),
    ),
    ("nationality", "person", re.compile(rf"^{_NAME} (?:[a-z-]+ )*(?:{_OCCUPATIONS})\b")),
    ("occupation", "person", re.compile(rf"\b({_OCCUPATIONS})\b.*\(.*\d{{3,4}}")),
)


class Fact(NamedTuple):
    """A triple, and where its tail is in the definition of its head.

    Attributes:
      head: Word that is defined.
      relation: Name of the relation.
      tail: Words of the definition.
      place: First character of the tail in the definition.
    """

    head: str
    relation: str
    tail: str
    place: int


def prepare(definitions: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write the graph, texts with linked mentions, and rows of relations.

    Args:
      definitions: Folder of WordNet's definitions.
      output: Folder to write.
    """
    rows = _rows(Path(definitions))
    facts = _facts(rows)
    held_out = _held_out(facts)
    graph = [fact for fact in facts if fact not in held_out]
    seen = {fact.tail for fact in held_out}
    training = [fact for fact in _shuffled(graph) if fact.tail not in seen][:TRAINING_ROWS]
    kinds = [(head, "is_a", rows[head][1]) for head in dict.fromkeys(fact.head for fact in facts)]
    hidden = {fact.head for fact in held_out}
    documents = [_document(head, rows[head][0], facts) for head in rows if head not in hidden]
    documents = [document for document in documents if len(document["entities"]) > 1]
    folder = Path(output)
    _write_triples(folder / "held_out.txt", [fact[:3] for fact in held_out])
    triples = [*kinds, *(fact[:3] for fact in graph)]
    _write_triples(folder / "graph.txt", triples)
    # The order in which TransE numbers them.
    names = dict.fromkeys(_name(words) for head, _, tail in triples for words in (head, tail))
    write_text(folder / "entities.txt", "".join(f"{name}\n" for name in names))
    _write_rows(folder / "text_train.jsonl", documents[VALIDATION_TEXTS:TEXTS])
    _write_rows(folder / "text_validation.jsonl", documents[:VALIDATION_TEXTS])
    _write_rows(folder / "relations_train.jsonl", map(_relation, training))
    _write_rows(folder / "relations_validation.jsonl", map(_relation, held_out))
    write_text(folder / "LICENSE", (Path(definitions) / "LICENSE").read_text(encoding="utf-8"))


def _rows(folder: Path) -> dict[str, tuple[str, str]]:
    """Return definition and category of people and places whose word is defined once."""
    rows = []
    for split in ("train", "validation", "test"):
        with (folder / f"{split}.tsv").open(encoding="utf-8", newline="") as lines:
            rows += csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    counts = Counter(row["word"] for row in rows)
    return {
        row["word"]: (row["definition"], row["category"])
        for row in sorted(rows, key=lambda row: row["word"])
        if row["category"] in ("person", "place") and counts[row["word"]] == 1
    }


def _facts(rows: dict[str, tuple[str, str]]) -> list[Fact]:
    facts = [
        Fact(word, relation, match[1], match.start(1))
        for word, (definition, category) in rows.items()
        for relation, of_category, pattern in _PATTERNS
        if category == of_category and (match := pattern.search(definition)) and match[1] != word
    ]
    counts = Counter(fact.tail for fact in facts)
    return [fact for fact in facts if counts[fact.tail] >= MIN_TRIPLES_OF_TAIL]


def _held_out(facts: Sequence[Fact]) -> list[Fact]:
    """Return half of the triples of some tails: no row to learn has these tails, and the graph has the other half."""
    tails = [
        fact.tail for fact in shuffle_by_key({fact.tail: fact for fact in facts}.values(), _tail, seed=SEED)
    ]
    chosen = set(tails[: int(len(tails) * HELD_OUT_TAILS)])
    held_out, kept = [], Counter[str]()
    for fact in _shuffled([fact for fact in facts if fact.tail in chosen]):
        kept[fact.tail] += 1
        if kept[fact.tail] % 2 == 0:
            held_out.append(fact)
    return held_out[:HELD_OUT_ROWS]


def _shuffled(facts: Iterable[Fact]) -> list[Fact]:
    return shuffle_by_key(facts, lambda fact: " ".join(fact[:3]), seed=SEED)


def _tail(fact: Fact) -> str:
    return fact.tail


def _document(head: str, definition: str, facts: Sequence[Fact]) -> dict[str, list[object] | str]:
    shift = len(head) + 2
    places = sorted({(fact.place, fact.tail) for fact in facts if fact.head == head})
    mentions: list[object] = [[0, len(head), _name(head)]]
    mentions += [[shift + place, shift + place + len(tail), _name(tail)] for place, tail in places]
    return {"text": f"{head}: {definition}", "entities": mentions}


def _relation(fact: Fact) -> dict[str, object]:
    head, text = [0, len(fact.head)], f"{fact.head} and {fact.tail}"
    tail = [len(text) - len(fact.tail), len(text)]
    entities = [[*head, _name(fact.head)], [*tail, _name(fact.tail)]]
    return {"text": text, "head": head, "tail": tail, "entities": entities, "label": fact.relation}


def _name(words: str) -> str:
    return words.replace(" ", "_")


def _write_triples(file: Path, triples: Iterable[Sequence[str]]) -> None:
    write_text(file, "".join("\t".join(map(_name, triple)) + "\n" for triple in triples))


def _write_rows(file: Path, rows: Iterable[object]) -> None:
    write_text(file, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


if __name__ == "__main__":
    prepare_from_command_line(prepare, about=__doc__, package="folder data/wordnet_definitions")
