"""decaNLP's wording of rows that other tasks have."""

import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.decathlon import BENCHMARKS


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder))
    return [(row.inputs, row.targets) for row in task.read(split)]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_files_of_the_other_tasks_are_read(tmp_path: Path) -> None:
    write(tmp_path / "glue/SST-2/dev.tsv", "sentence\tlabel\na quiet joy\t1\n")
    assert pairs("decanlp_sst", tmp_path, "validation") == [
        ("question: Is this review negative or positive? context: a quiet joy", "positive")
    ]
    header = "index\tsentence1\tsentence2\tgold_label\n"
    for name, split in (("dev_matched", "validation_matched"), ("dev_mismatched", "validation_mismatched")):
        write(tmp_path / f"glue/MNLI/{name}.tsv", f"{header}0\tTwo row.\tOne rows.\tneutral\n")
        question = 'question: Hypothesis: "One rows." -- entailment, neutral, or contradiction?'
        expected = [(f'{question} context: Premise: "Two row."', "neutral")]
        assert pairs("decanlp_mnli", tmp_path, split) == expected
        assert pairs(f"decanlp_mnli_{split.removeprefix('validation_')}", tmp_path, "validation") == expected
    question = {"id": "q", "question": "Who?", "answers": [{"text": "Al", "answer_start": 0}]}
    paragraph = {"context": "Al fell.", "qas": [question]}
    write(tmp_path / "squad/dev-v1.1.json", json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]}))
    assert pairs("decanlp_squad", tmp_path, "validation") == [("question: Who? context: Al fell.", "Al")]


def test_answers_are_scored_as_those_of_the_other_tasks() -> None:
    for benchmark in BENCHMARKS:
        other = catalogue.benchmark(
            {"decanlp_wmt14_ende": "wmt14_ende_v003", "decanlp_cnn_dailymail": "cnn_dailymail_v002"}.get(
                benchmark.name, benchmark.head_task
            )
        )
        assert (benchmark.metrics, benchmark.source) == (other.metrics, other.source)
    read: Any = catalogue.benchmark("decanlp_squad").postprocess
    assert read("Al", example={"answers": [b"Al", b"Al B."]}, is_target=True) == ["Al", "Al B."]
    read = catalogue.benchmark("decanlp_mnli").postprocess
    assert [read(text) for text in ("entailment", "neutral", "contradiction", "Neutral")] == [0, 1, 2, -1]


def test_each_task_has_an_equal_share_of_the_mixture() -> None:
    rates = catalogue.mixtures()["decanlp"].rates
    assert isinstance(rates, dict)
    assert [name for name, rate in rates.items() if not rate] == [
        "decanlp_mnli_matched",
        "decanlp_mnli_mismatched",
    ]
    assert set(rates.values()) == {0.0, 1.0}
    assert [catalogue.benchmark(name).training_task for name in rates if not rates[name]] == [
        "decanlp_mnli"
    ] * 2


def test_a_question_is_worded_from_a_line() -> None:
    task = catalogue.benchmark_task("decanlp_sst", vocabulary="bytes")
    assert task.word_question("fine") == "question: Is this review negative or positive? context: fine"
    task = catalogue.benchmark_task("decanlp_squad", vocabulary="bytes")
    line = json.dumps({"question": "Who?", "context": "Al."})
    assert task.word_question(line) == "question: Who? context: Al."
    with pytest.raises(ValueError, match="it lacks context"):
        task.word_question('{"question": "Who?"}')
