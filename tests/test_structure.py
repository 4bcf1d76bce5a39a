"""The structure that docs/architecture.md describes, checked over every import, function-level ones included."""

import functools
import sys

import pytest

from tests.references import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from code_structure import CodeStructure, cycles, measure

# File names that occur twice because they mean the same thing in both places: a command and what it runs.
SAME_MEANING = {"checkpoint.py", "evaluate.py", "perplexity.py", "scores.py", "train.py"}


@pytest.fixture(scope="module")
def structure() -> CodeStructure:
    return _measured()


@functools.cache
def _measured() -> CodeStructure:
    return measure(ROOT)


def test_no_modules_import_each_other_in_a_circle(structure):
    assert cycles(structure.imports) == []


def test_imports_inside_functions_are_few_and_each_says_why(structure):
    deferred = structure.deferred_imports
    assert len(deferred) <= 33, "\n".join(f"{place} {line}" for place, line in deferred.items())
    unexplained = [place for place in deferred if not _has_reason(place)]
    assert unexplained == [], "say in a comment which heavy library the import waits for"


def test_tasks_and_heads_answer_themselves(structure):
    assert structure.num_task_and_head_tests <= 15


def test_a_name_means_one_thing(structure):
    assert set(structure.files_by_name) <= SAME_MEANING
    assert structure.classes_by_name == {}


def _has_reason(place: str) -> bool:
    """Whether the import has a comment beside or above it."""
    path, _, number = place.rpartition(":")
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    line = int(number) - 1
    while lines[line - 1].lstrip().startswith(("import ", "from ")):  # one comment for a block
        line -= 1
    return "#" in lines[int(number) - 1] or lines[line - 1].lstrip().startswith("#")
