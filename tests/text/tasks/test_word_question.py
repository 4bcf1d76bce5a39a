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
    assert text_task("asked_one", "gloss: {gloss}").word_question("a {large} bird") == "gloss: a {large} bird"


def test_several_columns_are_given_as_json():
    task = text_task("asked_two", "nli premise: {premise} hypothesis: {hypothesis}")
    line = json.dumps({"premise": "it rains", "hypothesis": 1})
    assert task.word_question(line) == "nli premise: it rains hypothesis: 1"


@pytest.mark.parametrize("line", ["it rains", '{"premise": "it rains"}', "[1, 2]"])
def test_what_lacks_a_column_is_refused_with_an_example(line):
    task = text_task("asked_badly_" + str(len(line)), "nli premise: {premise} hypothesis: {hypothesis}")
    with pytest.raises(ValueError, match=r'give each line as \{"premise": "…", "hypothesis": "…"\}'):
        task.word_question(line)
