"""Conversations made from definitions."""

import json

import pytest

from data.prepare.conversations import FULL, SENTENCES, SHORT, converse, prepare
from t5x_like.io.files import shipped_directory

SHIPPED = shipped_directory("data")


def test_every_definition_occurs_once_and_is_answered_in_the_requested_style():
    definitions = {f"thing number {index}": category for index, category in enumerate(SENTENCES)}
    conversations = list(converse(definitions.items()))
    assert [[message["role"] for message in messages] for messages in conversations] == [
        ["system", "user", "assistant", "user", "assistant"]
    ] * 3
    questions = set()
    for system, *turns in conversations:
        for question, answer in zip(turns[::2], turns[1::2], strict=True):
            definition = question["content"].partition(": ")[2].removesuffix("?")
            category = definitions[definition]
            wanted = {SHORT: category, FULL: SENTENCES[category]}[system["content"]]
            assert answer["content"] == wanted
            questions.add(definition)
    assert questions == set(definitions)


def test_long_definitions_are_left_out_and_an_odd_one_too():
    rows = [("a" * 71, "plant"), ("b" * 70, "plant"), ("c", "food"), ("d", "food")]
    (messages,) = converse(rows)
    assert "a" * 71 not in json.dumps(messages)


def test_the_shipped_conversations_are_made_from_the_shipped_definitions(tmp_path):
    prepare(SHIPPED / "wordnet_definitions", tmp_path)
    for name in ("train.jsonl", "validation.jsonl", "LICENSE"):
        assert (tmp_path / name).read_bytes() == (SHIPPED / "conversations" / name).read_bytes()


@pytest.mark.parametrize("system", [SHORT, FULL])
def test_half_of_the_conversations_are_in_each_style(system):
    lines = (SHIPPED / "conversations/train.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(json.loads(line)["messages"][0]["content"] == system for line in lines) == len(lines) // 2
