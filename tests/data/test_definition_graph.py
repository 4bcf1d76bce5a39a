"""The shipped graph of people and places is what its script makes, and its splits don't leak."""

import json
from pathlib import Path

import pytest

from data.prepare.definition_graph import prepare
from t5x_like.io.files import shipped_directory
from t5x_like.text.entity_names import entity_numbers, entity_spans

DATA = Path(str(shipped_directory("data")))
SHIPPED = DATA / "definition_graph"


def triples(name: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in (SHIPPED / name).read_text().splitlines()]


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (SHIPPED / name).read_text().splitlines()]


def test_the_script_makes_the_shipped_files(tmp_path):
    prepare(DATA / "wordnet_definitions", tmp_path)
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (SHIPPED / file.name).read_bytes(), file.name


def test_held_out_triples_are_not_in_the_graph_but_their_entities_are():
    graph, held_out = triples("graph.txt"), triples("held_out.txt")
    assert not set(graph) & set(held_out)
    names = [name for head, _, tail in graph for name in (head, tail)]
    assert {name for head, _, tail in held_out for name in (head, tail)} <= set(names)
    assert list(dict.fromkeys(names)) == list(entity_numbers(str(SHIPPED / "entities.txt")))


def test_rows_to_predict_have_other_tails_than_rows_to_learn():
    tails = [
        {row["entities"][1][2] for row in rows(f"relations_{split}.jsonl")}
        for split in ("train", "validation")
    ]
    assert not tails[0] & tails[1]
    heads = {row["entities"][0][2] for row in rows("relations_validation.jsonl")}
    assert not heads & {
        row["entities"][0][2] for split in ("train", "validation") for row in rows(f"text_{split}.jsonl")
    }


@pytest.mark.parametrize("name", ["text_train", "text_validation", "relations_train", "relations_validation"])
def test_mentions_are_those_of_their_entities(name):
    for row in rows(f"{name}.jsonl"):
        spans = entity_spans(row["entities"], len(row["text"]), str(SHIPPED / "entities.txt"))
        assert len(spans) == len(row["entities"])
        for start, end, entity in row["entities"]:
            assert row["text"][start:end].replace(" ", "_") == entity


def test_the_card_names_the_most_frequent_relation():
    labels = [row["label"] for row in rows("relations_validation.jsonl")]
    share = 100 * max(labels.count(label) for label in set(labels)) / len(labels)
    assert f"| {share:.1f} % |" in (SHIPPED / "README.md").read_text()
