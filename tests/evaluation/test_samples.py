"""Samples of splits: groups that metrics compare are whole, and rows have their numbers in the split."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.evaluation.questions import load_questions
from t5x_like.io.files import write_json, write_jsonl
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.decathlon_dialogues import WOZ
from t5x_like.text.benchmarks.super_glue_questions import MULTIRC, RECORD
from t5x_like.text.benchmarks.task import BenchmarkTask


def _multirc(folder: Path) -> Path:
    """Write twelve questions with two to five answers each."""
    answers = [
        [
            {"text": f"answer {index}", "idx": 10 * question + index, "label": index % 2}
            for index in range(2 + question % 4)
        ]
        for question in range(12)
    ]
    questions = [
        {"question": f"Q{index}?", "answers": each, "idx": index} for index, each in enumerate(answers)
    ]
    lines = [
        {"passage": {"text": "A text.", "questions": questions[4 * index : 4 * index + 4]}, "idx": index}
        for index in range(3)
    ]
    write_jsonl(folder / "rows.jsonl", lines)
    return folder / "rows.jsonl"


def _record(folder: Path) -> Path:
    """Write twelve queries with two answers each, which are two examples."""
    entities = [{"start": 0, "end": 2}, {"start": 8, "end": 9}]
    answers = [{"text": "Ann", "start": 0, "end": 2}, {"text": "Bo", "start": 8, "end": 9}]
    lines = [
        {
            "passage": {"text": "Ann met Bo.", "entities": entities},
            "qas": [{"query": f"@placeholder {index}", "answers": answers, "idx": index}],
            "idx": index,
        }
        for index in range(12)
    ]
    write_jsonl(folder / "rows.jsonl", lines)
    return folder / "rows.jsonl"


def _dialogues(folder: Path) -> Path:
    """Write twelve dialogues of two to five turns."""
    dialogues = [
        {
            "dialogue": [
                {"belief_state": [], "system_acts": [], "transcript": f"turn {turn}"}
                for turn in range(2 + index % 4)
            ]
        }
        for index in range(12)
    ]
    write_json(folder / "rows.json", dialogues)
    return folder / "rows.json"


def _task(benchmark: Benchmark, file: Path) -> BenchmarkTask:
    return BenchmarkTask(
        name=benchmark.name, vocabulary="bytes", benchmark=benchmark, files={"validation": str(file)}
    )


@pytest.mark.parametrize(
    ("benchmark", "write", "group"),
    [
        (MULTIRC, _multirc, "idx/question"),
        (RECORD, _record, "idx/query"),
        (WOZ, _dialogues, "dialogue"),
    ],
    ids=["questions", "queries", "dialogues"],
)
def test_groups_that_metrics_compare_are_whole(
    benchmark: Benchmark, write: Callable[[Path], Path], group: str, tmp_path: Path
) -> None:
    task = _task(benchmark, write(tmp_path))
    everything = load_questions(task, "validation").rows
    sizes = Counter(row.example[group] for row in everything)
    assert len(sizes) == 12
    sample = load_questions(task, "validation", limit=13).rows
    drawn = Counter(row.example[group] for row in sample)
    assert 8 < len(sample) <= 13
    assert drawn == {number: sizes[number] for number in drawn}
    assert sorted(drawn) != [*range(len(drawn))]  # not the first ones
    assert all(everything[row.number] == row for row in sample)


def test_a_head_reads_whole_questions_with_their_numbers(tmp_path: Path) -> None:
    task = _task(MULTIRC, _multirc(tmp_path))
    sample = read_questions(task, "validation", limit=13)
    written = load_questions(task, "validation", limit=13).rows
    assert [each.number for each in sample] == [row.number for row in written]
    assert sample == [read_questions(task, "validation")[each.number] for each in sample]


@pytest.mark.parametrize("columns", [(), ("idx/question",)], ids=["unknown", "known"])
def test_a_sample_is_the_first_rows_where_groups_are_unknown(
    columns: tuple[str, ...], tmp_path: Path
) -> None:
    task = _task(replace(MULTIRC, group_columns=columns), _multirc(tmp_path))
    sample: list[Any] = [row.number for row in load_questions(task, "validation", limit=13).rows]
    assert (sample == [*range(13)]) == (not columns)
