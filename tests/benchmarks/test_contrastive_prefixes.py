"""Counts of the benchmark of contrastive prefixes, and command lines of benchmarks."""

from benchmarks.commands import command
from benchmarks.contrastive_prefixes import definitions, measure


def test_kinds_and_new_texts_are_counted() -> None:
    result = measure(
        ["a tree", "a king", "a tree", "a fern"], ["plant", "person", "plant", "plant"], {"a king"}
    )
    assert result["kinds"] == {"plant": 75.0, "person": 25.0}
    assert result["new_and_distinct"] == 50.0  # one is known, one is there twice
    assert result["examples"] == ["a tree", "a king", "a tree", "a fern"]


def test_definitions_have_six_kinds() -> None:
    rows = definitions("validation")
    assert len(rows) == 1500
    assert {kind for _, kind in rows} == {"animal", "artifact", "food", "person", "place", "plant"}


def test_macros_are_written_as_gin_reads_them() -> None:
    line = command("train", "--model_dir=run", MIXTURE="sst2", STEPS=5, RATE=None)
    assert line[1:] == [
        "train",
        "--model_dir=run",
        "--gin.MIXTURE='sst2'",
        "--gin.STEPS=5",
        "--gin.RATE=None",
    ]
