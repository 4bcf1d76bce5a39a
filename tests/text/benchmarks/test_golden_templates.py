"""Every benchmark's own examples, and T5's wording of the reference rows."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.references.reference import compare_all, read_rows
from benchmarks.references.tasks import benchmark_name, rows
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.split_files import SplitFiles
from tests.references import GOLDEN

FILES = sorted(path.stem for path in (GOLDEN / "tasks").glob("*.jsonl"))


def golden_rows(stem: str) -> list[dict[str, Any]]:
    return read_rows(GOLDEN / "tasks" / f"{stem}.jsonl")


def case_of(stem: str) -> Any:
    """Token ids are those of the vocabulary that seqio has for its tests."""
    has_ids = any("tokenized" in row for row in golden_rows(stem))
    return pytest.param(stem, marks=[pytest.mark.seqio] if has_ids else [], id=stem)


def name_of(stem: str) -> str:
    return benchmark_name(golden_rows(stem)[0])


@pytest.mark.parametrize("name", sorted(catalogue.benchmarks()))
def test_three_examples_of_every_benchmark_are_worded_as_it_says(name: str) -> None:
    benchmark = catalogue.benchmark(name)
    assert len(benchmark.examples) >= 3
    for example in benchmark.examples:
        assert benchmark.word(example.row) == [dict(formatted) for formatted in example.formatted]
        assert all(
            set(formatted) == {"inputs", "targets", *benchmark.extras} for formatted in example.formatted
        )


@pytest.mark.parametrize("name", sorted(catalogue.benchmarks()))
def test_every_benchmark_says_which_files_it_lacks(name: str, tmp_path: Path) -> None:
    benchmark = catalogue.benchmark(name)
    files = SplitFiles(benchmark.source, benchmark.splits, str(tmp_path))
    for split in benchmark.splits:
        with pytest.raises(ValueError, match=rf"no files of the split '{split}' below .*: (put|prepare)"):
            files.find(split)


@pytest.mark.parametrize("stem", [case_of(stem) for stem in FILES if name_of(stem) in catalogue.benchmarks()])
def test_rows_are_worded_as_t5_words_them(stem: str) -> None:
    assert compare_all(rows(GOLDEN / "tasks" / f"{stem}.jsonl")) >= 3
