import json

import pytest

from t5x_like.text.tasks.text_task import TextTask


def text_task(name, template):
    return TextTask(
        name=name,
        vocabulary="bytes",
        files={"train": "train.tsv"},
        input_template=template,
        target_template="{label}",
    )


def test_a_line_fills_the_only_column():
    assert (
        text_task("line_of_one_column", "gloss: {gloss}").word_question("a {large} bird")
        == "gloss: a {large} bird"
    )


def test_a_template_without_columns_has_one_text():
    assert text_task("line_of_no_column", "a poem:").word_question("ignored") == "a poem:"
    assert text_task("empty_line", "").word_question("") == ""


def test_several_columns_are_given_as_json():
    task = text_task("line_of_two_columns", "nli premise: {premise} hypothesis: {hypothesis}")
    line = json.dumps({"premise": "it rains", "hypothesis": 1})
    assert task.word_question(line) == "nli premise: it rains hypothesis: 1"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("it rains", "invalid JSON: Expecting value at column 1, before 'it rains'"),
        ('{"premise": "it rains"}', "it lacks hypothesis"),
        ("[1, 2]", "an object {…} is expected, found list"),
    ],
)
def test_a_line_without_a_column_is_refused_with_an_example(line, problem):
    task = text_task("bad_line_" + str(len(line)), "nli premise: {premise} hypothesis: {hypothesis}")
    with pytest.raises(
        ValueError, match=r'give each line as \{"premise": "…", "hypothesis": "…"\}.*' + problem
    ):
        task.word_question(line)
