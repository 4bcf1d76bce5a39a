"""Code and prose use the words of machine learning: a private vocabulary stays out."""

import sys

from tests.references import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from code_structure import (
    BRITISH_SPELLINGS,
    PRIVATE_WORDS,
    QUESTION_WORDS,
    docstrings_that_open_with,
    find_phrases,
    vague_names,
)
from docstring_entries import entries, fragments
from public_docstrings import pointers_alone, public_names, without_args, without_docstring

MAX_PRIVATE_WORDS = 6  # texts of benchmarks have some
MAX_BRITISH_SPELLINGS = 3
MAX_QUESTIONS = 3
EARLIER_NAMES = ("t5x_like/deprecated_names.py", "docs/whats_new.md")  # they list names as they were spelled


def test_private_words_stay_out():
    phrases = find_phrases(ROOT, list(PRIVATE_WORDS))
    instead = "\n".join(f"  {words}: {better}" for words, better in PRIVATE_WORDS.items())
    assert len(phrases) <= MAX_PRIVATE_WORDS, "\n".join(
        [f"{len(phrases)} private words; instead", instead, *phrases]
    )


def test_names_say_what_a_value_is():
    vague = vague_names(ROOT)
    assert not vague, "\n".join([f"{len(vague)} vague names: name the thing, or index, step, row …", *vague])


def test_spelling_is_american():
    phrases = find_phrases(ROOT, BRITISH_SPELLINGS)
    phrases = [phrase for phrase in phrases if not phrase.startswith(EARLIER_NAMES)]
    assert len(phrases) <= MAX_BRITISH_SPELLINGS, "\n".join([f"{len(phrases)} British spellings", *phrases])


def test_docstrings_say_what_a_thing_is_or_does():
    phrases = docstrings_that_open_with(ROOT, QUESTION_WORDS)
    assert len(phrases) <= MAX_QUESTIONS, "\n".join(
        [f"{len(phrases)} docstrings open with a question word", *phrases]
    )


def test_arguments_and_attributes_have_full_descriptions():
    phrases = fragments(ROOT)
    assert not phrases, "\n".join(
        [f"{len(phrases)} descriptions begin in lower case or as a fragment", *phrases]
    )


def test_public_names_have_docstrings():
    phrases = without_docstring(public_names(ROOT))
    assert not phrases, "\n".join([f"{len(phrases)} names without docstring", *phrases])


def test_public_functions_of_two_or_more_parameters_describe_them():
    phrases = without_args(public_names(ROOT))
    assert not phrases, "\n".join([f"{len(phrases)} functions without Args", *phrases])


def test_no_docstring_only_points_to_another():
    phrases = pointers_alone(public_names(ROOT))
    assert not phrases, "\n".join([f"{len(phrases)} docstrings only point; an override needs none", *phrases])


def test_missing_docstrings_and_arguments_are_found(tmp_path):
    (tmp_path / "t5x_like").mkdir()
    (tmp_path / "t5x_like/a.py").write_text(
        'def f(a, b):\n    """Add."""\n\n\ndef g(a):\n    pass\n\n\n'
        'class Rule(Protocol):\n    """Rule."""\n\n'
        '    def apply(self, a, b):\n        """Apply.\n\n        Args:\n          a: First.\n        """\n\n\n'
        'class Cut:\n    """See `Rule`."""\n\n    def apply(self, a, b):\n        pass\n\n'
        '    def add(self, *, a, **others):\n        """Implement ``Rule``."""\n\n'
        "    def _f(self, a, b):\n        pass\n"
    )
    names = public_names(tmp_path)
    assert without_args(names) == ["t5x_like/a.py:1: f", "t5x_like/a.py:26: Cut.add"]
    assert without_docstring(names) == ["t5x_like/a.py:5: g"]
    assert pointers_alone(names) == ["t5x_like/a.py:20: Cut", "t5x_like/a.py:26: Cut.add"]


def test_a_description_that_begins_as_a_fragment_is_found(tmp_path):
    (tmp_path / "t5x_like").mkdir()
    (tmp_path / "t5x_like/a.py").write_text(
        'def f(a, b, c, d):\n    """Add.\n\n    Args:\n      a: the first.\n      b: Of the\n        last: one.\n'
        '      c: int32 [B], ids.\n      *d: Others.\n\n    Returns:\n      sum: of all.\n    """\n'
    )
    assert fragments(tmp_path) == ["t5x_like/a.py:5: a: the first.", "t5x_like/a.py:6: b: Of the"]
    assert list(entries("Add.\n\nAttributes:\n  a: One.")) == [(3, "a", "One.")]


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


def test_a_vague_name_is_found_wherever_it_occurs(tmp_path):
    for name in ("t5x_like", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "t5x_like/a.py").write_text(
        "def found(given, *, taken):\n    f(asked=given.ours)\n\n\n"
        "for number, each in enumerate(x):\n    pass\nfor number, each in enumerate(x, start=1):\n    pass\n"
        "[number for number in range(3)]\n[each for number, each in rows]\n"
    )
    (tmp_path / "tests/a.py").write_text("from hypothesis import given, settings\n\ngiven(taken)\n")
    names = [each.split(":") for each in vague_names(tmp_path)]
    assert [name for file, _, name in names if file == "tests/a.py"] == [" taken"]
    assert sorted((line, name.strip()) for file, line, name in names if file == "t5x_like/a.py") == [
        *(("1", "found"), ("1", "given"), ("1", "taken"), ("2", "asked"), ("2", "given"), ("2", "ours")),
        *(("5", "number"), ("9", "number")),
    ]
