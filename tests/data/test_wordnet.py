"""Preparation of definitions from a small file in the format of WordNet."""

from data.prepare import wordnet
from data.prepare.preparation import describe_files


def noun_line(offset: int, lexicographer_file: int, word: str, gloss: str) -> str:
    return f"{offset:08} {lexicographer_file:02} n 01 {word} 0 001 @ 00001740 n 0000 | {gloss}  "


def wordnet_text(num_per_category: int = 520) -> str:
    lines = ["  1 Permission is granted  ", "  2   ", "  3 WordNet 3.0 Copyright 2006  "]
    for number, category in wordnet.CATEGORIES.items():
        for row in range(num_per_category):
            lines.append(noun_line(row, number, f"w_{row}", f'a {category} called {row}; "an example"'))
    lines.append(noun_line(1, 5, "twin", "means both"))
    lines.append(noun_line(2, 20, "twin", "Means both!"))
    lines.append(noun_line(3, 5, "copy", "A animal, called 7"))
    lines.append(noun_line(4, 28, "hour", "not one of ours"))
    return "\n".join(lines) + "\n"


def test_wordnet_splits_are_balanced_clean_and_without_leaks(tmp_path, debian_package):
    package = debian_package(
        tmp_path / "wordnet.deb", {"usr/share/wordnet/data.noun": wordnet_text().encode()}
    )
    wordnet.prepare(package, tmp_path / "out")
    splits = {
        name: [row.split("\t") for row in (tmp_path / f"out/{name}.tsv").read_text().splitlines()[1:]]
        for name in ("train", "validation", "test")
    }
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 6 * 20,
        "validation": 1500,
        "test": 1500,
    }
    definitions = [row[1] for rows in splits.values() for row in rows]
    assert len({definition.lower() for definition in definitions}) == len(definitions)
    assert not any("example" in definition or "oth" in definition for definition in definitions)
    assert (tmp_path / "out/LICENSE").read_text() == "Permission is granted\n\nWordNet 3.0 Copyright 2006\n"


def test_preparing_twice_gives_the_same_bytes(tmp_path, debian_package):
    package = debian_package(
        tmp_path / "wordnet.deb", {"usr/share/wordnet/data.noun": wordnet_text().encode()}
    )
    for folder in ("first", "second"):
        wordnet.prepare(package, tmp_path / folder)
    assert describe_files(tmp_path / "first") == describe_files(tmp_path / "second")


def test_definitions_of_insults_are_left_out():
    insult = noun_line(1, 18, "word", "(ethnic slur) an offensive name")
    kept = noun_line(2, 18, "baker", "someone who bakes, without whoredom or slurry")
    assert [row.word for row in wordnet.read_definitions(f"{insult}\n{kept}\n")] == ["baker"]
