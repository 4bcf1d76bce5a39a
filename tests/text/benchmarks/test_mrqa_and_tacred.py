"""MRQA 2019's sets and TACRED, from files as they are published."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text.benchmarks import catalogue, mrqa, tacred
from t5x_like.text.metrics import micro_f1_without


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder))
    return [(row.inputs, row.targets) for row in task.read(split)]


CONTEXT = "[DOC] Ann built it in 1702. In 1702 it rained."
QUESTION = {
    "qid": "a1",
    "question": "When?",
    "question_tokens": [["When", 0], ["?", 4]],
    "answers": ["1702", "MDCCII"],
    "detected_answers": [
        {"text": "1702", "char_spans": [[22, 25], [31, 34]], "token_spans": [[5, 5], [8, 8]]}
    ],
}


def write_mrqa(path: Path, *questions: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"header": {"dataset": "NewsQA", "split": "dev"}},
        {"id": "", "context": CONTEXT, "qas": questions},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("ending", ["jsonl.gz", "jsonl"])
def test_a_context_is_a_row_for_each_question(tmp_path: Path, ending: str) -> None:
    second = {**QUESTION, "qid": "a2", "question": "Who?", "detected_answers": []}
    second["detected_answers"] = [{"text": "Ann", "char_spans": [[6, 8]]}]
    write_mrqa(tmp_path / f"mrqa/dev/NewsQA.{ending}", QUESTION, second)
    context = "context: [ DOC ] Ann built it in 1702 . In 1702 it rained . "
    assert pairs("mrqa_newsqa", tmp_path, "validation") == [
        (f"question: When ? {context}", "1702"),
        (f"question: Who ? {context}", "Ann"),
    ]
    task = catalogue.benchmark_task("mrqa_newsqa", vocabulary="bytes", data_dir=str(tmp_path))
    rows = list(task.head_rows("validation"))
    assert [row.answers for row in rows] == [((22, 26),), ((6, 9),)]


def test_an_answer_outside_its_context_is_a_bad_row(tmp_path: Path) -> None:
    outside = {**QUESTION, "detected_answers": [{"text": "x", "char_spans": [[900, 901]]}]}
    write_mrqa(tmp_path / "mrqa/dev/NewsQA.jsonl", outside)
    with pytest.raises(
        ValueError, match=r"NewsQA\.jsonl:2: question a1: an answer is not inside its context"
    ):
        pairs("mrqa_newsqa", tmp_path, "validation")


def test_six_sets_are_to_train_on_and_six_to_test_on() -> None:
    trained = [each.name for each in mrqa.BENCHMARKS if "train" in each.splits]
    assert len(trained) == len(mrqa.BENCHMARKS) - len(trained) == 6
    for benchmark in mrqa.BENCHMARKS:
        assert benchmark.head is not None
        for example in benchmark.examples:  # checks that answers are where rows say
            assert benchmark.head.read(example.row)


SENTENCE = {
    "id": "e1",
    "relation": "per:city_of_birth",
    "token": ["Oslo", "-LRB-", "Norway", "-RRB-", "is", "where", "Ann", "Lee", "was", "born", "."],
    "subj_start": 6,
    "subj_end": 7,
    "obj_start": 0,
    "obj_end": 0,
    "subj_type": "PERSON",
    "obj_type": "CITY",
    "stanford_ner": ["O"] * 11,
}


def write_tacred(folder: Path, *sentences: dict[str, Any]) -> None:
    (folder / "tacred/data/json").mkdir(parents=True, exist_ok=True)
    (folder / "tacred/data/json/dev.json").write_text(json.dumps(sentences))


def test_entities_are_replaced_by_types_or_marked(tmp_path: Path) -> None:
    reverse = {**SENTENCE, "relation": "no_relation", "subj_start": 2, "subj_end": 2, "subj_type": "COUNTRY"}
    write_tacred(tmp_path, SENTENCE, reverse)
    assert pairs("tacred", tmp_path, "validation") == [
        ("tacred sentence: [OBJ-CITY] ( Norway ) is where [SUBJ-PERSON] was born .", "per:city_of_birth"),
        ("tacred sentence: [OBJ-CITY] ( [SUBJ-COUNTRY] ) is where Ann Lee was born .", "no_relation"),
    ]
    assert pairs("tacred_marked", tmp_path, "validation")[0] == (
        "tacred sentence: [TL] Oslo [TL] ( Norway ) is where [HD] Ann Lee [HD] was born .",
        "per:city_of_birth",
    )
    task = catalogue.benchmark_task("tacred", vocabulary="bytes", data_dir=str(tmp_path))
    (first, _) = task.head_rows("validation")
    assert first.texts == (("[OBJ-CITY] ( Norway ) is where [SUBJ-PERSON] was born .",),)
    assert first.label == tacred.RELATIONS.index("per:city_of_birth")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relation": "per:pet"}, "the relation 'per:pet' is none of TACRED's 42"),
        ({"subj_end": 11}, "subj_start 6 and subj_end 11 are no words of 11"),
        ({"token": None}, "the values are not of the kinds that TACRED's have"),
    ],
)
def test_bad_sentences_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_tacred(tmp_path, {**SENTENCE, **changes})
    with pytest.raises(ValueError, match=rf"dev\.json:\[0\]: {message}"):
        pairs("tacred", tmp_path, "validation")


def test_another_file_is_named(tmp_path: Path) -> None:
    write_tacred(tmp_path)
    (tmp_path / "tacred/data/json/dev.json").write_text("{}")
    with pytest.raises(ValueError, match="has no list at its top, which TACRED's JSON is"):
        pairs("tacred", tmp_path, "validation")


def test_f1_of_relations_leaves_out_no_relation() -> None:
    score = micro_f1_without(0)
    # 4 relations in truth, 3 predicted (one is invalid), of which 2 are right.
    assert score([1, 2, 2, 3, 0, 0], [1, 2, 0, -1, 0, 0]) == {
        "f1": pytest.approx(400 / 7),
        "precision": pytest.approx(200 / 3),
        "recall": pytest.approx(50),
    }
    assert score([0, 1], [0, 0]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
