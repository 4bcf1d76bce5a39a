"""Code and prose use the words of machine learning: a private vocabulary stays out."""

import sys

from tests.references import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from code_structure import docstrings_that_open_with, find_phrases

# Regular expressions of whole words, each with what to write in its place.
PRIVATE_WORDS = {
    "told|tells|foretold|foretells?": "predict, report, say",
    "knobs?": "macro, setting",
    "whom": "which, name the thing",
    "gone on|goes on|went on": "continue",
    "stands": "is, is in",
    "for ever": "indefinitely",
    "commonest": "most frequent",
    "beside": "next to, compared with",
    r"what is(?: \w+){0,2} of": "name the thing",
}
MAX_PRIVATE_WORDS = 390
MAX_QUESTIONS = 247


def test_private_words_stay_out():
    found = find_phrases(ROOT, list(PRIVATE_WORDS))
    assert len(found) <= MAX_PRIVATE_WORDS, f"{len(found)} private words\n" + "\n".join(found)


def test_docstrings_say_what_a_thing_is_or_does():
    found = docstrings_that_open_with(ROOT, ["What", "How", "Which", "Whether", "Where"])
    assert len(found) <= MAX_QUESTIONS, f"{len(found)} docstrings open with a question word\n" + "\n".join(
        found
    )


def test_a_private_word_is_found_across_lines_and_comments(tmp_path):
    for name in ("t5x_like", "gin", "docs", "launch"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("A run that is gone\non.")
    (tmp_path / "gin/a.gin").write_text("# Rows that are gone\n# on with. Beside it.\n")
    (tmp_path / "t5x_like/a.py").write_text('"""What a task is."""\nBESIDES_THE_POINT = "stand-in"\n')
    assert find_phrases(tmp_path, ["gone on", "beside"]) == [
        "gin/a.gin:1: gone # on",
        "gin/a.gin:2: Beside",
        "README.md:1: gone on",
    ]
    assert docstrings_that_open_with(tmp_path, ["What"]) == ["t5x_like/a.py:1: What a task is."]
