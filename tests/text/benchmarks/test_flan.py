"""FLAN's tasks: instructions by hand, how templates are chosen, scores, and the mixture."""

import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.flan import BENCHMARKS, CLUSTERS
from t5x_like.text.benchmarks.flan_templates import ENTAILS
from t5x_like.text.benchmarks.instructions import InstructionTemplate
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.tasks.mixtures import Mixture

YES_NO = "\nOPTIONS:\n- yes\n- no"
PAIR = {"premise": "Rain fell.", "hypothesis": "It was wet.", "idx": 0}


def only(name: str, template: int, row: dict[str, Any]) -> tuple[str, str]:
    """Return the wording of a row by one of a task's templates."""
    word = catalogue.benchmark(f"flan_{name}").word
    assert isinstance(word, InstructionTemplate)
    (formatted,) = replace(word, templates=word.templates[template : template + 1])(row)
    return formatted["inputs"], formatted["targets"]


def test_each_template_of_a_kind_is_a_sentence_with_the_rows_texts() -> None:
    prompts = [only("rte", index, {**PAIR, "label": 1}) for index in range(3)]
    assert prompts == [
        (
            f"Rain fell.\nFrom this alone, can we conclude that the following is true? It was wet.{YES_NO}",
            "no",
        ),
        (
            "Read the text and judge the statement.\nText: Rain fell.\nStatement: It was wet.\n"
            f"Does the statement follow?{YES_NO}",
            "no",
        ),
        (f'Suppose that "Rain fell." is right. Must "It was wet." be right, too?{YES_NO}', "no"),
    ]


@pytest.mark.parametrize(
    ("name", "row", "inputs", "targets"),
    [
        (
            "anli_r1",
            {"context": "A.", "hypothesis": "B.", "label": 1},
            "A.\nFrom this alone, can we conclude that the following is true? B.\nOPTIONS:\n- yes\n"
            "- it is not possible to tell\n- no",
            "it is not possible to tell",
        ),
        (
            "qnli",
            {"question": "Who?", "sentence": "Al did.", "label": 0, "idx": 0},
            f"Question: Who?\nSentence: Al did.\nDoes the sentence answer the question?{YES_NO}",
            "yes",
        ),
        (
            "copa",
            {"premise": "I fell.", "choice1": "I ran.", "choice2": "I sat.", "question": "cause", "label": 1, "idx": 0},
            "I fell.\nWhich of these is more likely its cause?\nOPTIONS:\n- I ran.\n- I sat.",
            "I sat.",
        ),
        (
            "hellaswag",
            {"activity_label": "X", "context": "He", "endings": ["a", "b", "c", "d"], "label": 2},
            "He\nWhich ending fits best?\nOPTIONS:\n- a\n- b\n- c\n- d",
            "c",
        ),
        (
            "winogrande",
            {"sentence": "_ won.", "option1": "Al", "option2": "Bo", "label": 0},
            "_ won.\nWhat belongs in place of the underscore?\nOPTIONS:\n- Al\n- Bo",
            "Al",
        ),
        (
            "dpr",
            {"sentence": "Al saw Bo as he left.", "pronoun": "he", "candidates": ["Al", "Bo"], "label": 1},
            'Al saw Bo as he left.\nWho or what is "he"?\nOPTIONS:\n- Al\n- Bo',
            "Bo",
        ),
        (
            "sst2",
            {"sentence": "dull", "label": 0, "idx": 0},
            "dull\nIs this review negative or positive?\nOPTIONS:\n- negative\n- positive",
            "negative",
        ),
        (
            "qqp",
            {"question1": "A?", "question2": "B?", "label": 1, "idx": 0},
            "A?\nB?\nWould one answer serve both questions?\nOPTIONS:\n- no\n- yes",
            "yes",
        ),
        (
            "stsb",
            {"sentence1": "A.", "sentence2": "B.", "label": 2.5, "idx": 0},
            "From 0 (unrelated) to 5 (equal), how close in meaning are these sentences?\nA.\nB.",
            "2.4",
        ),
        (
            "boolq",
            {"passage": "Sea.", "question": "is it wet", "label": 1, "idx": 0},
            "Sea.\nSo, is it wet?\nOPTIONS:\n- no\n- yes",
            "yes",
        ),
        (
            "record",
            {"passage": "Al won\n@highlight\nBo lost", "query": "@placeholder won", "entities": ["Al", "Bo"]}
            | {"answers": ["Al"], "idx": {"passage": 0, "query": 0}},
            "Al won\nBo lost\nWho or what is meant by @placeholder? @placeholder won\nOPTIONS:\n- Al\n- Bo",
            "Al",
        ),
        (
            "coqa",
            {"id": "s", "turn": 2, "story": "Al fell.", "history": ["Who?", "Al"], "question": "Did he?"}
            | {"answers": ["yes"]},
            "Al fell.\nQuestion: Who?\nAnswer: Al\nQuestion: Did he?\nAnswer:",
            "yes",
        ),
        (
            "wic",
            {"word": "bat", "sentence1": "A bat.", "sentence2": "To bat.", "label": 0, "idx": 0}
            | {"start1": 2, "end1": 5, "start2": 3, "end2": 6},
            'A bat.\nTo bat.\nDoes "bat" have the same sense in both?\nOPTIONS:\n- no\n- yes',
            "no",
        ),
        ("xsum", {"document": "Long.", "summary": "Short."}, "Long.\nSummarize this article.", "Short."),
        ("wmt16_enro", {"en": "Yes!", "ro": "Da!"}, "Translate into Romanian: Yes!", "Da!"),
        ("natural_questions", {"question": "who", "answer": ["Al", "him"]}, "who", "Al"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_a_task_of_each_kind_is_worded_as_by_hand(
    name: str, row: dict[str, Any], inputs: str, targets: str
) -> None:
    assert only(name, 0, row) == (inputs, targets)


def test_rows_are_divided_among_the_templates() -> None:
    word = catalogue.benchmark("flan_rte").word
    starts = Counter(
        word({**PAIR, "premise": f"{index} fell.", "label": 0})[0]["inputs"].replace(f"{index} fell.", "")[
            :12
        ]
        for index in range(300)
    )
    assert len(starts) == len(ENTAILS) == 3
    assert min(starts.values()) > 60
    assert word({**PAIR, "label": 0}) == word({**PAIR, "label": 0})


def test_answers_are_scored_as_classes_or_texts() -> None:
    read: Any = catalogue.benchmark("flan_snli").postprocess
    assert [read(text) for text in ("yes", "it is not possible to tell", "no", "No")] == [0, 1, 2, -1]
    assert catalogue.benchmark("flan_cola").labels == ("no", "yes")
    assert catalogue.benchmark("flan_copa").postprocess is None
    for benchmark in BENCHMARKS:
        assert benchmark.metrics
        assert benchmark.head is None


def test_a_row_without_a_label_has_options_and_an_unknown_target(tmp_path: Path) -> None:
    folder = tmp_path / "super_glue" / "RTE"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text(json.dumps(PAIR) + "\n")
    (row,) = catalogue.benchmark_task("flan_rte", vocabulary="bytes", data_dir=str(tmp_path)).read("test")
    assert row.inputs.endswith(YES_NO)
    assert row.targets == "<unk>"


def test_the_mixture_counts_3000_examples_of_a_task_at_most() -> None:
    rates = catalogue.mixtures()["flan_2021"].rates
    assert isinstance(rates, dict)
    assert {rates["flan_cb"], rates["flan_rte"], rates["flan_snli"]} == {250.0, 2490.0, 3000.0}
    assert [name for name, rate in rates.items() if not rate] == ["flan_story_cloze"]
    assert max(rates.values()) == 3000.0
    assert len(CLUSTERS) == 11, "structure to text has no task"
    assert set(rates) == {each.name for each in BENCHMARKS}


def test_a_cluster_can_be_left_out_of_the_mixture() -> None:
    held_out = [each.name for each in CLUSTERS["natural_language_inference"]]
    results = {
        each.name: each
        for each in catalogue.benchmark_tasks(
            "flan_2021", vocabulary="bytes", max_examples=30_000, left_out=held_out
        )
    }
    mixture = results["flan_2021"]
    assert isinstance(mixture, Mixture)
    assert set(mixture.tasks) == {each.name for each in BENCHMARKS} - set(held_out)
    task = results["flan_rte"]
    assert isinstance(task, BenchmarkTask)
    assert task.limit_of("train") == 30_000
    assert task.limit_of("validation") is None
    assert pickle.loads(pickle.dumps(task)) == task
    with pytest.raises(ValueError, match=r"left_out has \['flan_x'\]"):
        catalogue.benchmark_tasks("flan_2021", vocabulary="bytes", left_out=("flan_x",))
