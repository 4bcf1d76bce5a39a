"""decaNLP's wording of rows that other tasks have."""

import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.decathlon import BENCHMARKS
from t5x_like.text.benchmarks.decathlon_dialogues import WOZ
from t5x_like.text.benchmarks.decathlon_queries import WIKI_SQL
from t5x_like.text.benchmarks.decathlon_texts import (
    PRONOUNS,
    RELATIONS,
    SEMANTIC_ROLES,
    without_treebank_marks,
)

OWN = (SEMANTIC_ROLES, RELATIONS, WOZ, WIKI_SQL, PRONOUNS)


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
    for benchmark in (each for each in BENCHMARKS if each not in OWN):
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
    assert sum(rates.values()) == 10, "decaNLP has ten tasks"
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


QA_SRL = """WIKI1_0\t2
The mill -LRB- 1702 -RRB- was sold in March , and burned .
4\tsold\t2
what\twas\t_\tsold\t_\t_\t_\t?\tThe mill ### mill -LRB- 1702 -RRB-
when\twas\tsomething\tsold\t_\t_\t_\t?\tin March
9\tburned\t1
what\t_\t_\tburned\t_\t_\t_\t?\tThe mill

WIKI1_1\t0
3 men rowed home .
"""


def test_questions_about_a_verb_are_read_with_all_answers(tmp_path: Path) -> None:
    write(tmp_path / "qasrl/wiki1.dev.qa", QA_SRL)
    context = "The mill (1702) was sold in March, and burned."
    assert pairs("decanlp_qa_srl", tmp_path, "validation") == [
        (f"question: what was sold? context: {context}", "The mill"),
        (f"question: when was something sold? context: {context}", "in March"),
        (f"question: what burned? context: {context}", "The mill"),
    ]
    task = catalogue.benchmark_task("decanlp_qa_srl", vocabulary="bytes", data_dir=str(tmp_path))
    row = next(iter(task.read("validation")))
    read: Any = SEMANTIC_ROLES.postprocess
    assert read(row.targets, example=row.extras, is_target=True) == ["The mill", "mill (1702)"]
    assert (
        without_treebank_marks("He paid $ 5 -- `` a lot '' -- for it .") == "He paid $5 -- a lot -- for it."
    )
    write(tmp_path / "qasrl/wiki1.dev.qa", QA_SRL.replace("\tin March", ""))
    with pytest.raises(ValueError, match=r"wiki1\.dev\.qa:5: no question with '\?' and answers after it"):
        pairs("decanlp_qa_srl", tmp_path, "validation")


def test_a_relation_is_a_question_that_may_have_no_answer(tmp_path: Path) -> None:
    lines = "built by\tWho built XXX?\tthe mill\tAnn and Bo built it.\tAnn\tBo\n"
    lines += "built by\tWho built XXX?\tthe mill\tIt burned.\n"
    write(tmp_path / "relation_splits/dev.0", lines)
    assert pairs("decanlp_qa_zre", tmp_path, "validation") == [
        ("question: Who built the mill? context: Ann and Bo built it.", "Ann, Bo"),
        ("question: Who built the mill? context: It burned.", "unanswerable"),
    ]
    write(tmp_path / "relation_splits/dev.0", "built by\tWho?\n")
    with pytest.raises(ValueError, match=r"dev\.0:1: 2 cells, where relation, question, entity and sentence"):
        pairs("decanlp_qa_zre", tmp_path, "validation")


def test_a_schema_is_two_rows_and_splits_are_by_position(tmp_path: Path) -> None:
    schema = "It [fell/rose] [here/there].\nWhat [fell/rose]?\nstone/kite\n\n"
    write(tmp_path / "decanlp/schema.txt", schema * 92 + schema.strip())
    rows = {split: pairs("decanlp_mwsc", tmp_path, split) for split in ("train", "validation", "test")}
    assert {split: len(result) for split, result in rows.items()} == {
        "train": 80,
        "validation": 4,
        "test": 100,
    }
    assert rows["train"][:2] == [
        ("question: What fell? stone or kite? context: It fell here.", "stone"),
        ("question: What rose? stone or kite? context: It rose there.", "kite"),
    ]
    write(tmp_path / "decanlp/schema.txt", "It fell.\nstone/kite\n\n")
    with pytest.raises(ValueError, match=r"schema\.txt:1: 2 lines, where a text, a question and two answers"):
        pairs("decanlp_mwsc", tmp_path, "train")


def belief(act: str, *slot: str) -> dict[str, Any]:
    return {"act": act, "slots": [list(slot)]}


def test_the_state_of_a_dialogue_changes_turn_by_turn(tmp_path: Path) -> None:
    thai, north = belief("inform", "food", "thai"), belief("inform", "area", "north")
    turns = [
        {"system_acts": [], "transcript": "Thai food", "belief_state": [thai]},
        {
            "system_acts": ["area", ["price range", "cheap"]],
            "transcript": "North.  The phone?",
            "belief_state": [thai, north, belief("request", "slot", "phone")],
        },
        {
            "system_acts": [],
            "transcript": "Chinese",
            "belief_state": [north, belief("inform", "food", "chinese")],
        },
        {
            "system_acts": [],
            "transcript": "Bye",
            "belief_state": [north, belief("inform", "food", "chinese")],
        },
    ]
    write(tmp_path / "woz/woz_validate_en.json", json.dumps([{"dialogue": turns}, {"dialogue": turns[:1]}]))
    question = "question: What is the change in state? context: "
    assert pairs("decanlp_woz", tmp_path, "validation") == [
        (f"{question}Thai food", "food: thai;"),
        (f"{question}area, price range: cheap -- North. The phone?", "area: north; phone"),
        (f"{question}Chinese", "food: chinese;"),
        (f"{question}Bye", "None"),
        (f"{question}Thai food", "food: thai;"),
    ]
    task = catalogue.benchmark_task("decanlp_woz", vocabulary="bytes", data_dir=str(tmp_path))
    read: Any = WOZ.postprocess
    targets = [read(row.targets, example=row.extras, is_target=True) for row in task.read("validation")]
    assert [(target["dialogue"], target["turn"]) for target in targets] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
    ]
    write(tmp_path / "woz/woz_validate_en.json", "{}")
    with pytest.raises(ValueError, match="has no list at its top, which WOZ's JSON is"):
        pairs("decanlp_woz", tmp_path, "validation")
    write(tmp_path / "woz/woz_validate_en.json", '[{"dialogue": [{"transcript": "x"}]}]')
    with pytest.raises(
        ValueError, match=r"json:\[0\]: the dialogue or one of its turns has no 'belief_state'"
    ):
        pairs("decanlp_woz", tmp_path, "validation")


def test_a_question_about_a_table_becomes_a_query(tmp_path: Path) -> None:
    sql = {"sel": 0, "agg": 3, "conds": [[1, 1, 100], [0, 0, "Old  Mill"]]}
    question = {"table_id": "1-1", "question": "How many?", "sql": sql}
    write(tmp_path / "wikisql/data/dev.jsonl", json.dumps(question) + "\n")
    with pytest.raises(
        ValueError, match=r"no file .*dev\.tables\.jsonl, which has the columns of the tables"
    ):
        pairs("decanlp_wikisql", tmp_path, "validation")
    write(
        tmp_path / "wikisql/data/dev.tables.jsonl",
        json.dumps({"id": "1-1", "header": ["Name", "Age"]}) + "\n",
    )
    ((inputs, targets),) = pairs("decanlp_wikisql", tmp_path, "validation")
    assert inputs.startswith(
        "question: What is the translation from English to SQL? context: The table has columns Name, Age and key words "
        "MAX, MIN, COUNT, SUM, AVG, =, >, <, OP, SELECT, "
    )
    assert inputs.endswith(", CONDOPS-- How many?")
    assert targets == "SELECT COUNT Name FROM table WHERE Age > 100 AND Name = Old Mill"
    write(tmp_path / "wikisql/data/test.jsonl", json.dumps({**question, "table_id": "1-2"}) + "\n")
    write(tmp_path / "wikisql/data/test.tables.jsonl", json.dumps({"id": "1-2", "header": ["Name"]}) + "\n")
    with pytest.raises(ValueError, match=r"test\.jsonl:1: its sql doesn't fit the table's 1 columns"):
        pairs("decanlp_wikisql", tmp_path, "test")
