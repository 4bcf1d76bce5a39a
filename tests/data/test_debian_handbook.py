"""Preparation of parallel sentences from pages in two languages."""

import pytest

from data.prepare import debian_handbook

FOLDER = "usr/share/doc/debian-handbook/html"


def page(*paragraphs: str) -> bytes:
    body = "".join(f'<div class="para">{text}<div class="list">an aside</div></div>' for text in paragraphs)
    return f"<html><body><div>title</div>{body}</body></html>".encode()


def sentences_of(number: int) -> tuple[str, str]:
    return f"The tool number {number} is small. It has the <b>name</b> x{number}.", (
        f"Das Werkzeug Nummer {number} ist klein. Sein <b>Name</b> lautet x{number}."
    )


@pytest.fixture
def package(tmp_path, debian_package):
    files = {}
    for name in range(20):
        pairs = [sentences_of(100 * name + index) for index in range(12)]
        for place, folder in enumerate(("en-US", "de-DE")):
            files[f"{FOLDER}/{folder}/{name}.html"] = page(*(pair[place] for pair in pairs))
    files[f"{FOLDER}/en-US/odd.html"] = page("Two paragraphs here.", "One paragraph there.")
    files[f"{FOLDER}/de-DE/odd.html"] = page("Nur ein Absatz hier.")
    return debian_package(tmp_path / "handbook.deb", files)


def test_pages_become_pairs_and_whole_pages_are_held_out(package, tmp_path):
    debian_handbook.prepare(package, tmp_path / "out")
    rows = {
        split: (tmp_path / f"out/{split}.tsv").read_text().splitlines()
        for split in ("train", "validation", "test")
    }
    assert all(lines[0] == "en\tde" for lines in rows.values())
    assert {split: len(lines) - 1 for split, lines in rows.items()} == {
        "train": 144,
        "validation": 168,
        "test": 168,
    }
    assert "The tool number 305 is small.\tDas Werkzeug Nummer 305 ist klein." in {
        line for lines in rows.values() for line in lines
    }
    assert not any("aside" in line or "paragraph" in line for lines in rows.values() for line in lines)
    assert not set(rows["train"][1:]) & {*rows["validation"][1:], *rows["test"][1:]}


def test_a_paragraph_with_other_sentences_is_one_pair():
    english, german = "It is fast. It is small and free.", "Es ist schnell, klein und frei."
    assert list(debian_handbook.sentence_pairs(english, german)) == [(english, german)]


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("See the manual page of apt.", "See the manual page of apt."),
        ("Chapter 4 shows the tool in use.", "Kapitel 4 shows the tool in use."),
        ("Too short.", "Zu kurz."),
        ("The word is long.", "Dieses Wort " + "ist sehr sehr lang " * 12 + "."),
        ("word " * 61, "Wort " * 61),
    ],
    ids=["same", "untranslated", "short", "unequal", "long"],
)
def test_what_is_no_translation_is_left_out(english, german):
    assert list(debian_handbook.sentence_pairs(english, german)) == []


def test_abbreviations_do_not_end_a_sentence():
    assert debian_handbook.sentences("Use a tool, e.g. Apt. It is small.") == [
        "Use a tool, e.g. Apt.",
        "It is small.",
    ]
    assert debian_handbook.sentences("Viele, z.B. Apt, sind klein. Gut.") == [
        "Viele, z.B. Apt, sind klein.",
        "Gut.",
    ]


def test_another_package_is_named(tmp_path, debian_package):
    other = debian_package(tmp_path / "other.deb", {"usr/share/doc/other.html": b"x"})
    with pytest.raises(
        ValueError, match=r"other\.deb has no file usr/share/doc/debian-handbook/html/en-US/\*\.html"
    ):
        debian_handbook.prepare(other, tmp_path / "out")
