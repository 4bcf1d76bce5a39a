"""Multiple choice, entailment and reviews, from files as they are published."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.choice_template import ChoiceTemplate
from t5x_like.text.benchmarks.task import BenchmarkTask


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def parquet(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def table(path: Path, *rows: dict[str, Any]) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return write(path, text.getvalue())


def task(name: str, folder: Path, **settings: Any) -> BenchmarkTask:
    return catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    return [(row.inputs, row.targets) for row in task(name, folder).read(split)]


def heads(name: str, folder: Path, split: str) -> list[Any]:
    definition = task(name, folder)
    return [definition.benchmark.head.read(row.values) for row in definition.raw_rows(split)]  # pyright: ignore


SWAG = {
    "": "0", "video-id": "v", "fold-ind": "1", "startphrase": "A. He", "sent1": 'He said "go", then', "sent2": "He",
    "gold-source": "gold", "ending0": "went.", "ending1": "sat.", "ending2": "sang.", "ending3": "slept.", "label": "2",
}  # fmt: skip


def test_swag_is_read_from_its_tables(tmp_path: Path) -> None:
    table(tmp_path / "swag" / "val.csv", SWAG)
    table(tmp_path / "swag" / "test.csv", {name: cell for name, cell in SWAG.items() if name != "label"})
    inputs = 'swag sentence: He said "go", then start: He choice1: went. choice2: sat. choice3: sang. choice4: slept.'
    assert pairs("swag", tmp_path, "validation") == [(inputs, "choice3")]
    assert pairs("swag", tmp_path, "test") == [(inputs, "<unk>")]
    (row,) = heads("swag", tmp_path, "validation")
    assert (row.label, row.texts[2]) == (2, ('He said "go", then', "He sang."))
    table(tmp_path / "swag" / "train.csv", SWAG, {**SWAG, "label": "4"})
    with pytest.raises(ValueError, match=r"train\.csv:3: the label '4' is outside the set: 0, 1, 2, 3"):
        pairs("swag", tmp_path, "train")
    table(tmp_path / "swag" / "train.csv", {name: cell for name, cell in SWAG.items() if name != "sent2"})
    with pytest.raises(
        ValueError, match=r"train\.csv:2: no column 'sent2'; the columns are Unnamed: 0, video-id"
    ):
        pairs("swag", tmp_path, "train")


def test_hellaswag_is_read_from_its_lines_and_from_the_hub(tmp_path: Path) -> None:
    row = {
        "ind": 4,
        "activity_label": "Rowing",
        "ctx_a": "A boat.",
        "ctx_b": "it",
        "ctx": "A boat. it",
        "label": 1,
    }
    row["endings"] = ["sinks.", "floats.", "flies.", "sings."]
    jsonl(tmp_path / "hellaswag" / "hellaswag_train.jsonl", row)
    parquet(
        tmp_path / "hellaswag" / "test-00000-of-00001.parquet",
        **{name: [cell] for name, cell in {**row, "label": ""}.items()},
    )
    inputs = (
        "hellaswag activity: Rowing context: A boat. it choice1: sinks. choice2: floats. choice3: flies. "
        "choice4: sings."
    )
    assert pairs("hellaswag", tmp_path, "train") == [(inputs, "choice2")]
    assert pairs("hellaswag", tmp_path, "test") == [(inputs, "<unk>")]
    assert heads("hellaswag", tmp_path, "train")[0].texts[0] == ("A boat. it", "sinks.")
    jsonl(tmp_path / "hellaswag" / "hellaswag_val.jsonl", {**row, "label": ""})
    with pytest.raises(ValueError, match=r"val\.jsonl:1: no label; only rows of a test split may lack it"):
        pairs("hellaswag", tmp_path, "validation")
    jsonl(tmp_path / "hellaswag" / "hellaswag_val.jsonl", {**row, "endings": ["a", "b"]})
    with pytest.raises(ValueError, match=r"val\.jsonl:1: 2 choices where 4 are expected"):
        pairs("hellaswag", tmp_path, "validation")


def test_race_has_a_file_for_each_text(tmp_path: Path) -> None:
    text = {"article": "Tom flies.", "id": "high1.txt", "answers": ["B", "D"]}
    text |= {
        "questions": ["Who flies?", "Tom _ ."],
        "options": [["Al", "Tom", "Bo", "Cy"], ["a", "b", "c", "flies"]],
    }
    write(tmp_path / "RACE" / "dev" / "high" / "1.txt", json.dumps(text))
    write(tmp_path / "RACE" / "dev" / "middle" / "2.txt", json.dumps({**text, "answers": ["A", "C"]}))
    assert [targets for _, targets in pairs("race", tmp_path, "validation")] == [
        "choice2", "choice4", "choice1", "choice3",
    ]  # fmt: skip
    assert pairs("race_high", tmp_path, "validation")[0][0] == (
        "race question: Who flies? article: Tom flies. choice1: Al choice2: Tom choice3: Bo choice4: Cy"
    )
    assert heads("race_middle", tmp_path, "validation")[1].texts[3] == ("Tom flies.", "Tom _ . flies")
    for wrong, message in [
        ({"answers": ["B"]}, "unequally many questions, options and answers: 2, 2, 1"),
        ({"answers": ["B", "E"]}, "the label 'E' is outside the set: A, B, C, D"),
        ({"options": [["a"], ["b"]]}, "1 options to 'Who flies[?]' where 4 are expected"),
    ]:
        write(tmp_path / "RACE" / "train" / "high" / "3.txt", json.dumps({**text, **wrong}))
        with pytest.raises(ValueError, match=rf"3\.txt:1: {message}"):
            pairs("race_high", tmp_path, "train")


def test_race_comes_a_question_a_row_from_the_hub(tmp_path: Path) -> None:
    parquet(
        tmp_path / "race" / "middle" / "test-00000-of-00001.parquet",
        article=["T"], question=["Q"], options=[["a", "b", "c", "d"]], answer=["C"], example_id=["m"],
    )  # fmt: skip
    assert [targets for _, targets in pairs("race_middle", tmp_path, "test")] == ["choice3"]


def test_story_cloze_has_two_endings(tmp_path: Path) -> None:
    row = {"InputStoryid": "1", **{f"InputSentence{index}": f"S{index}." for index in range(1, 5)}}
    row |= {"RandomFifthSentenceQuiz1": "Good.", "RandomFifthSentenceQuiz2": "Bad.", "AnswerRightEnding": "1"}
    name = "cloze_test_val__spring2016 - cloze_test_ALL_val.csv"
    table(tmp_path / "story_cloze" / name, row)
    expected = [("story_cloze context: S1. S2. S3. S4. choice1: Good. choice2: Bad.", "choice1")]
    assert pairs("story_cloze", tmp_path, "validation") == expected
    table(tmp_path / "story_cloze" / name, {**row, "AnswerRightEnding": "0"})
    with pytest.raises(ValueError, match=r"ALL_val\.csv:2: the label '0' is outside the set: 1, 2"):
        pairs("story_cloze", tmp_path, "validation")


def test_winogrande_has_a_blank(tmp_path: Path) -> None:
    row = {"qID": "q", "sentence": "Al saw Bo as _ left.", "option1": "Al", "option2": "Bo", "answer": "2"}
    jsonl(tmp_path / "winogrande" / "winogrande_1.1" / "dev.jsonl", row)
    expected = [("winogrande sentence: Al saw Bo as _ left. choice1: Al choice2: Bo", "choice2")]
    assert pairs("winogrande", tmp_path, "validation") == expected


def test_choices_are_named_in_order_and_counted() -> None:
    chosen = ChoiceTemplate(word="w", columns={"x": "x"}, choices=("a", "b"), count=2)
    assert chosen({"x": "X", "a": "A", "b": "B", "label": 1}) == [
        {"inputs": "w x: X choice1: A choice2: B", "targets": "choice2"}
    ]
    with pytest.raises(ValueError, match="the label 2 is outside the set: 0 choice1, 1 choice2"):
        chosen({"x": "X", "a": "A", "b": "B", "label": 2})


SNLI = {"sentence1": "A dog.", "sentence2": "An animal.", "annotator_labels": ["entailment"]}


def test_snli_leaves_out_rows_on_which_judges_split(tmp_path: Path) -> None:
    jsonl(
        tmp_path / "snli" / "snli_1.0" / "snli_1.0_train.jsonl",
        {**SNLI, "gold_label": "-"},
        {**SNLI, "gold_label": "entailment"},
    )
    cells = 'gold_label\tsentence1\tsentence2\nneutral\tA "dog\tIt runs.\n-\tA\tB\n'
    write(tmp_path / "snli" / "snli_1.0" / "snli_1.0_dev.txt", cells)
    assert pairs("snli", tmp_path, "train") == [("snli hypothesis: An animal. premise: A dog.", "entailment")]
    assert [row.label for row in heads("snli", tmp_path, "train")] == [-1, 0]
    assert pairs("snli", tmp_path, "validation") == [('snli hypothesis: It runs. premise: A "dog', "neutral")]
    jsonl(tmp_path / "snli" / "snli_1.0" / "snli_1.0_test.jsonl", {**SNLI, "gold_label": "maybe"})
    with pytest.raises(
        ValueError, match=r"test\.jsonl:1: the label 'maybe' is outside the set: entailment, neutral"
    ):
        pairs("snli", tmp_path, "test")


def test_scitail_has_no_header_and_no_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "scitail" / "SciTailV1.1" / "tsv_format"
    write(folder / "scitail_1.0_dev.tsv", 'Heat "melts\tIce melts.\tentails\nHeat\tIce\tneutral\n')
    assert pairs("scitail", tmp_path, "validation") == [
        ('scitail hypothesis: Ice melts. premise: Heat "melts', "entails"),
        ("scitail hypothesis: Ice premise: Heat", "neutral"),
    ]
    write(folder / "scitail_1.0_train.tsv", "Heat\tIce\n")
    with pytest.raises(
        ValueError, match=r"train\.tsv:1: 2 columns, where 3 are expected \(premise, hypothesis, label\)"
    ):
        pairs("scitail", tmp_path, "train")


def test_anli_has_letters_for_labels_and_its_rounds_on_the_hub(tmp_path: Path) -> None:
    row = {"uid": "u", "context": "It rained.", "hypothesis": "It was dry.", "label": "c", "reason": ""}
    jsonl(tmp_path / "anli" / "anli_v1.0" / "R2" / "dev.jsonl", row)
    expected = [("anli hypothesis: It was dry. premise: It rained.", "contradiction")]
    assert pairs("anli_r2", tmp_path, "validation") == expected
    parquet(
        tmp_path / "anli" / "test_r3-00000-of-00001.parquet",
        premise=["P"],
        hypothesis=["H"],
        label=[1],
        uid=["u"],
    )
    assert pairs("anli_r3", tmp_path, "test") == [("anli hypothesis: H premise: P", "neutral")]


def test_imdb_has_a_file_for_each_review(tmp_path: Path) -> None:
    folder = tmp_path / "aclImdb" / "train"
    write(folder / "urls_neg.txt", "http://a\n")
    urls = write(folder / "urls_pos.txt", "http://b\nhttp://c\n")
    write(folder / "urls_unsup.txt", "http://d\n")
    write(folder / "neg" / "0_1.txt", "Dull.")
    write(folder / "pos" / "10_8.txt", "Fine.")
    write(folder / "pos" / "9_10.txt", "Great.<br />")
    expected = [("imdb review: Dull.", "negative"), ("imdb review: Great.<br />", "positive")]
    assert pairs("imdb", tmp_path, "train") == [*expected, ("imdb review: Fine.", "positive")]
    write(urls, "http://b\n")
    with pytest.raises(
        ValueError, match=r"urls_pos\.txt lists 1 reviews, but .*pos has 2; unpack the whole archive"
    ):
        pairs("imdb", tmp_path, "train")
