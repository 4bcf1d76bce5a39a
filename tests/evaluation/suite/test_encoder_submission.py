"""Encoders answer all of SuperGLUE by their heads, and what they answer can be handed in."""

import json

import pytest

from t5x_like.cli.submission import write_submission_of
from t5x_like.evaluation.submissions import check_submission, render
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_jsonl
from t5x_like.text.benchmarks.suites import SUPER_GLUE
from tests.evaluation.suite.test_head_suites import write_bert

FORMS = {form.task: form for form in SUPER_GLUE.submission}
CHOOSING, OF_THREE = "super_glue_copa_v102", "super_glue_cb_v102"
OF_TWO = tuple(task for task in FORMS if task not in (CHOOSING, OF_THREE))
TEXT = {
    "sentence1": "it is here",
    "sentence2": "it is here again",
    "premise": "it is here",
    "hypothesis": "it is",
}


def text(number):
    return " ".join([f"number {number % 10}", *["again"] * (number % 5), "is here"])


def unlabeled(file, number):
    """Row ``number`` of a test file without labels."""
    row = {"idx": number, **TEXT, "premise": text(number)}
    if file == "BoolQ":
        return {"idx": number, "question": "is it here", "passage": text(number)}
    if file == "COPA":
        return row | {"choice1": text(number), "choice2": "it is", "question": "cause"}
    if file == "WiC":
        return row | {"word": "is", "start1": 3, "end1": 5, "start2": 3, "end2": 5}
    if file == "WSC":
        spans = {"span1_index": 0, "span1_text": "number", "span2_index": 1, "span2_text": "is"}
        return {"idx": number, "text": f"number is here {text(number)}", "target": spans}
    return row | {"sentence1": text(number)}


def passages(file, num_rows):
    """MultiRC's have three questions of two answers, ReCoRD's up to three queries, and two to five entities."""
    number, passage = 0, 0
    while number < num_rows:
        if file == "MultiRC":
            answers = [{"idx": n, "text": text(n)} for n in range(number, min(number + 6, num_rows))]
            questions = [
                {"idx": number + part, "question": text(part), "answers": answers[part : part + 2]}
                for part in range(0, len(answers), 2)
            ]
            line = {"idx": passage, "passage": {"text": text(passage), "questions": questions}}
            number += len(answers)
        else:
            words = [str(digit) for digit in range(1, 3 + passage % 4)]
            entities = [{"start": 2 * place, "end": 2 * place} for place in range(len(words))]
            queries = [
                {"idx": n, "query": f"@placeholder is {text(n)}"}
                for n in range(number, min(number + 3, num_rows))
            ]
            passage_of = {"text": " ".join(words) + " is here", "entities": entities}
            line = {"idx": passage, "passage": passage_of, "qas": queries}
            number += len(queries)
        passage += 1
        yield line


def write_tests(folder, num_rows):
    for form in FORMS.values():
        name, rows = form.file.removesuffix(".jsonl"), num_rows(form)
        lines = (
            passages(name, rows)
            if name in ("MultiRC", "ReCoRD")
            else (unlabeled(name, index) for index in range(rows))
        )
        (folder / "super_glue" / name).mkdir(parents=True)
        file = f"{name}.jsonl" if name.startswith("AX") else "test.jsonl"
        (folder / "super_glue" / name / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def answer(tmp_path, name, tasks, *, kind="sequence_classification", num_labels=2):
    """The answers of an encoder that was fine-tuned on nothing, and the folder that has them."""
    run = SuiteEvaluation(
        checkpoint=write_bert(tmp_path / f"bert_{name}", kind, num_labels),
        tasks=tasks,
        output_dir=str(tmp_path / name),
        data_dir=str(tmp_path),
        split="test",
        batch_size=256,
        inputs_length=32,
    )
    evaluate_suite(run, shown=False)
    return {task: list(read_jsonl(tmp_path / name / task / "predictions.jsonl")) for task in tasks}


def test_entities_and_pronouns_are_written_in_the_words_of_the_server(tmp_path):
    write_tests(tmp_path, lambda _: 13)
    tasks = ("super_glue_record_v102", "super_glue_wsc_v102_simple_eval")
    result = answer(tmp_path, "two", tasks)
    entities, pronouns = result.values()
    assert [row["idx"]["query"] for row in entities] == list(range(13))
    assert entities[0]["input"] == "@placeholder is number 0 is here\n1 2 is here"
    assert all(row["target"] is None for row in entities)
    for row in entities:
        assert row["prediction"] == row["answer"]["value"]
        assert row["prediction"] in row["input"].splitlines()[1].split()
    for task in tasks:
        content, replaced = render(FORMS[task], result[task])
        lines = [json.loads(line) for line in content.decode().splitlines()]
        assert [line["idx"] for line in lines] == list(range(13))
        assert replaced == 0
    assert {row["prediction"] for row in pronouns} <= {"True", "False"}


@pytest.mark.slow  # 31,000 rows
def test_encoders_answers_make_a_file_that_the_server_takes(tmp_path):
    write_tests(tmp_path, lambda form: form.rows)
    answer(tmp_path, "two", OF_TWO)
    answer(tmp_path, "three", (OF_THREE,), num_labels=3)
    answer(tmp_path, "choice", (CHOOSING,), kind="multiple_choice")
    directories = [str(tmp_path / name) for name in ("two", "three", "choice")]
    zipped = tmp_path / "super_glue.zip"
    write_submission_of(directories, str(zipped))
    assert check_submission(zipped)[:3] == ("super_glue", (), ())
