"""SQuAD: its wording beyond the golden rows, and its JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.catalogue import benchmark
from t5x_like.text.benchmarks.squad import find_answer_words, pad_punctuation, split_words
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.metrics import span_squad, squad

CONTEXT = "Ann Lee (b. 1702) built the mill. It burned in March."


def paragraphs(*questions: dict[str, Any]) -> str:
    data = [{"title": "Mill", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]
    return json.dumps({"version": "1.1", "data": data})


def question(name: str, text: str, *answers: str, **extra: Any) -> dict[str, Any]:
    places = [{"text": answer, "answer_start": CONTEXT.find(answer)} for answer in answers]
    return {"id": name, "question": text, "answers": places, **extra}


def write(folder: Path, name: str, text: str) -> None:
    (folder / "squad").mkdir(exist_ok=True)
    (folder / "squad" / name).write_text(text, encoding="utf-8")


def task(name: str, folder: Path, **settings: Any) -> BenchmarkTask:
    return catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)


def test_version_1_is_read_and_worded(tmp_path: Path) -> None:
    write(tmp_path, "dev-v1.1.json", paragraphs(question("q0", "Who built it?", "Ann Lee", "Ann")))
    (row,) = task("squad_v010_allanswers", tmp_path).read("validation")
    assert row.inputs == (
        "question: Who built it ? context: Ann Lee ( b . 1702 ) built the mill . It burned in March . "
    )
    assert (row.targets, row.extras["answers"]) == ("Ann Lee", ["Ann Lee", "Ann"])
    (placed,) = task("squad_v010_allanswers_span", tmp_path).read("validation")
    assert placed.targets == "start: 0 end: 1"
    example = {**placed.extras}
    postprocess: Any = benchmark("squad_v010_allanswers_span").postprocess
    target = postprocess(placed.targets, example=example, is_target=True)
    assert span_squad([target], [placed.targets])["em"] == 100.0


def test_version_2_has_questions_without_an_answer(tmp_path: Path) -> None:
    impossible = question("q1", "Who sold it?", is_impossible=True, plausible_answers=[])
    write(tmp_path, "train-v2.0.json", paragraphs(question("q0", "When?", "March"), impossible))
    definition = task("squad_v2_allanswers", tmp_path)
    rows = list(definition.read("train"))
    assert [row.targets for row in rows] == ["March", "unanswerable"]
    answers = [definition.benchmark.postprocess("", example=row.extras, is_target=True) for row in rows]
    assert squad(answers, ["march", "unanswerable"]) == {"em": 100.0, "f1": 100.0}
    form = definition.benchmark.head
    start = CONTEXT.find("March")
    assert [form.read(row.row).answers for row in rows] == [((start, start + 5),), ()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"train-v1\.1\.json:1: invalid JSON"),
        ("[]", "no list 'data', which SQuAD's JSON has at its top"),
        ('{"data": [{"title": "x"}]}', "without 'paragraphs'"),
        (paragraphs({"id": "q", "question": "?"}), r"qas\[0\]: the question has no 'answers', only id, question"),
        (
            paragraphs({"id": "q", "question": "?", "answers": [{"text": "mill", "answer_start": 0}]}),
            r"data\[0\]\.paragraphs\[0\]\.qas\[0\]: the answer 'mill' is not at character 0 .* 'Ann '",
        ),
        (paragraphs(question("q", "a", "Ann"), question("q", "b", "Ann")), r"id 'q' comes twice, first in .*qas\[0\]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "train-v1.1.json", text)
    with pytest.raises(ValueError, match=message):
        list(task("squad_v010_allanswers", tmp_path).read("train"))


def test_a_bad_question_is_skipped_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "train-v1.1.json", paragraphs({"id": "q", "question": "?"}, question("r", "Who?", "Ann")))
    rows = list(task("squad_v010_allanswers", tmp_path, on_bad_row="skip").read("train"))
    assert [row.extras["id"] for row in rows] == ["r"]


def test_an_absent_split_says_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"put squad/train-v1\.1\.json into .*SQuAD-explorer/dataset/train-v1\.1\.json"
    ):
        task("squad_v010_allanswers", tmp_path).files["train"]


@given(st.text())
def test_spacing_keeps_every_sign_in_order(text: str) -> None:
    assert re.sub(r"[\t\n\f\r ]", "", pad_punctuation(text)) == re.sub(r"[\t\n\f\r ]", "", text)
    assert "  " not in pad_punctuation(text)
    assert pad_punctuation(pad_punctuation(text)).strip(" ") == pad_punctuation(text).strip(" ")


@given(st.lists(st.sampled_from(["a", "b", "é", "(", "c1", "_"]), min_size=3), st.data())
def test_a_place_holds_the_answers_words(parts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(parts) - 2))
    end = data.draw(st.integers(start + 1, len(parts) - 1))
    context, answer = " ".join(parts), " ".join(parts[start:end])
    answer_words = find_answer_words(answer, f"{context} tail")
    assert answer_words is not None
    assert split_words(f"{context} tail")[answer_words[0] : answer_words[1] + 1] == split_words(answer)


def test_an_answer_at_the_very_end_is_not_found() -> None:
    assert find_answer_words("b c", "a b c d") == (1, 2)
    assert find_answer_words("b c", "a b c") is None
    assert find_answer_words("a b c", "b c") is None
