"""CoQA, questions without a text, and summaries after TL;DR, from files as they are published."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.metrics import coqa, coqa_f1


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pairs(name: str, folder: Path, split: str, **settings: Any) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)
    return [(row.inputs, row.targets) for row in task.read(split)]


def turns(*texts: str) -> list[dict[str, Any]]:
    return [{"input_text": text, "turn_id": number} for number, text in enumerate(texts, start=1)]


def story(**changes: Any) -> dict[str, Any]:
    results = {"source": "wikipedia", "id": "s", "filename": "f", "name": "n", "story": "Ann fell. Bo ran."}
    results |= {"questions": turns("Who fell?", "Who ran?"), "answers": turns("Ann", "Bo")}
    return results | {"additional_answers": {"0": turns("Ann did", "bo"), "1": turns("ann", "Bob")}} | changes


def conversations(folder: Path, *stories: Any) -> None:
    write(folder / "coqa" / "coqa-dev-v1.0.json", json.dumps({"version": "1.0", "data": list(stories)}))


def test_a_question_has_the_conversation_before_it(tmp_path: Path) -> None:
    conversations(tmp_path, story())
    assert pairs("coqa", tmp_path, "validation") == [
        ("coqa question: Who fell? story: Ann fell. Bo ran.", "Ann"),
        ("coqa question: Who fell? answer: Ann question: Who ran? story: Ann fell. Bo ran.", "Bo"),
    ]
    task = catalogue.benchmark_task("coqa", vocabulary="bytes", data_dir=str(tmp_path))
    assert [row.extras["answers"] for row in task.read("validation")] == [
        ["Ann", "Ann did", "ann"],
        ["Bo", "bo", "Bob"],
    ]
    line = json.dumps({"story": "S.", "history": ["Who?", "I"], "question": "Where?"})
    assert task.word_question(line) == "coqa question: Who? answer: I question: Where? story: S."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": turns("Ann")}, r"v1\.0\.json:data\[1\]: 2 questions, but 1 answers"),
        ({"questions": turns("Who fell?")[:1] * 2}, "turn_id 1 where 2 is expected"),
        ({"additional_answers": {"0": turns("Ann")}}, "2 questions, but 1 answers"),
        ({"questions": "Who?"}, "the values are not of the kinds that CoQA's have"),
        ({"story": 3}, r"data\[1\]\.questions\[0\]: column 'story' must hold text, not 3"),
    ],
)
def test_a_bad_story_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    conversations(tmp_path, story(), story(**changes))
    with pytest.raises(ValueError, match=message):
        pairs("coqa", tmp_path, "validation")
    assert len(pairs("coqa", tmp_path, "validation", on_bad_row="skip")) == 2


def test_other_json_is_no_coqa(tmp_path: Path) -> None:
    lacking = story()
    del lacking["story"]
    conversations(tmp_path, lacking)
    with pytest.raises(ValueError, match="the story or one of its turns has no 'story'"):
        pairs("coqa", tmp_path, "validation")
    for text, message in [
        ("{", r"json:1: invalid JSON"),
        ("[]", "no list 'data', which CoQA's JSON has at its top"),
    ]:
        write(tmp_path / "coqa" / "coqa-dev-v1.0.json", text)
        with pytest.raises(ValueError, match=message):
            pairs("coqa", tmp_path, "validation")


def test_the_hubs_stories_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "coqa").mkdir()
    answers = {"input_text": ["Ann", "Bo"], "answer_start": [0, 1], "answer_end": [3, 4]}
    columns = {"source": ["mctest"], "story": ["S."], "questions": [["Who?", "Then?"]], "answers": [answers]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "coqa" / "train-00000-of-00001.parquet")
    assert pairs("coqa", tmp_path, "train") == [
        ("coqa question: Who? story: S.", "Ann"),
        ("coqa question: Who? answer: Ann question: Then? story: S.", "Bo"),
    ]


def test_each_human_answer_is_left_out_in_turn() -> None:
    # Left out in turn: {b c, d} -> 1, {b, d} -> 2/3, {b, b c} -> 1.
    assert coqa([["b", "b c", "d"]], ["the B."]) == {
        "em": pytest.approx(100 * 2 / 3),
        "f1": pytest.approx(100 * (2 / 3 + 1 + 1) / 3),
    }
    assert coqa([["b"]], ["b c"]) == {"em": 0.0, "f1": pytest.approx(100 * 2 / 3)}
    assert coqa([["the"], ["b", ""]], ["a", "b"]) == {"em": 75.0, "f1": 75.0}
    assert coqa_f1([["b", "b c", "d"]], ["b"])["f1"] == 100.0


@given(st.lists(st.text("ab ", min_size=1), min_size=1, max_size=4), st.text("ab "))
def test_leaving_out_never_scores_more_than_all_answers(answers: list[str], guess: str) -> None:
    assert coqa([answers], [guess])["f1"] <= coqa_f1([answers], [guess])["f1"] + 1e-9
    doubled = [*answers, *answers]
    assert coqa([doubled], [guess])["f1"] == pytest.approx(coqa_f1([answers], [guess])["f1"])


def test_questions_without_a_text_are_worded_as_t5_words_them(tmp_path: Path) -> None:
    line = {"question": "who wrote  It", "answer": ["Ann", "Ann Lee"]}
    write(tmp_path / "nq_open" / "NQ-open.dev.jsonl", json.dumps(line) + "\n")
    assert pairs("natural_questions_open", tmp_path, "validation") == [("nq question: who wrote  It", "Ann")]
    task = catalogue.benchmark_task("natural_questions_open", vocabulary="bytes", data_dir=str(tmp_path))
    (row,) = task.read("validation")
    postprocess: Any = task.benchmark.postprocess
    target = postprocess(row.targets, example=row.extras, is_target=True)
    assert task.metric_functions[0]([target], ["the ann lee!"]) == {"em": 100.0, "f1": 100.0}
    pyarrow.parquet.write_table(
        pyarrow.table({"question": ["q"], "answer": [["a"]]}), tmp_path / "nq_open/train.parquet"
    )
    assert pairs("natural_questions_open", tmp_path, "train") == [("nq question: q", "a")]
    write(tmp_path / "nq_open" / "NQ-open.dev.jsonl", '{"question": "q", "answer": []}\n{"question": "q"}\n')
    with pytest.raises(ValueError, match=r"dev\.jsonl:1: the question has no answer"):
        pairs("natural_questions_open", tmp_path, "validation")
    assert task.word_question("who?") == "nq question: who?"


def test_trivia_is_read_from_its_json(tmp_path: Path) -> None:
    folder = tmp_path / "trivia_qa" / "triviaqa-unfiltered"
    answer = {"Value": "Old Mill", "Aliases": ["Old Mill", "The Mill"], "NormalizedAliases": []}
    question = {"Question": "Which mill?", "QuestionId": "tc_1", "Answer": answer}
    write(folder / "unfiltered-web-dev.json", json.dumps({"Data": [question]}))
    assert pairs("trivia_qa_open", tmp_path, "validation") == [
        ("trivia_qa question: Which mill?", "Old Mill")
    ]
    unanswered = {name: question[name] for name in ("Question", "QuestionId")}
    for name in ("test-without-answers", "train"):
        write(folder / f"unfiltered-web-{name}.json", json.dumps({"Data": [unanswered]}))
    assert pairs("trivia_qa_open", tmp_path, "test") == [("trivia_qa question: Which mill?", "<unk>")]
    with pytest.raises(
        ValueError, match=r"train\.json:Data\[0\]: the question or its answer has no 'Answer'"
    ):
        pairs("trivia_qa_open", tmp_path, "train")
    for text, message in [
        ("[", r"invalid JSON"),
        ("{}", "no list 'Data'"),
        ('{"Data": [3]}', "not of the kinds"),
    ]:
        write(folder / "unfiltered-web-dev.json", text)
        with pytest.raises(ValueError, match=message):
            pairs("trivia_qa_open", tmp_path, "validation")


def test_a_summary_continues_the_article_after_tldr(tmp_path: Path) -> None:
    write(tmp_path / "xsum" / "val.jsonl", '{"document": "Long.\\nText.", "summary": "Short."}\n')
    assert pairs("xsum_tldr", tmp_path, "validation") == [("Long.\nText.\nTL;DR:", "Short.")]
    benchmark = catalogue.benchmark("cnn_dailymail_tldr")
    read: Any = benchmark.postprocess
    assert read(" A ferry sank. Was it old? Yes! It was.") == "A ferry sank.\nWas it old?\nYes!"
    assert read(" One . Two . Three . Four .", is_target=True) == " One . Two . Three . Four ."
    assert benchmark.metrics == catalogue.benchmark("cnn_dailymail_v002").metrics
