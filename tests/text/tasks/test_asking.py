import json

import pytest
import seqio

from t5x_like.text import registry
from t5x_like.text.registry import word_question
from t5x_like.text.tasks.text_task import TextTask


def text_task(name, template):
    task = TextTask(
        name=name,
        vocabulary="bytes",
        files={"train": "train.tsv"},
        input_template=template,
        target_template="{label}",
    )
    registry.register([task])
    return name


def test_a_line_fills_the_only_column():
    assert (
        word_question(text_task("asked_one", "gloss: {gloss}"), "a {large} bird") == "gloss: a {large} bird"
    )


def test_several_columns_are_given_as_json():
    name = text_task("asked_two", "nli premise: {premise} hypothesis: {hypothesis}")
    line = json.dumps({"premise": "it rains", "hypothesis": 1})
    assert word_question(name, line) == "nli premise: it rains hypothesis: 1"


@pytest.mark.parametrize("line", ["it rains", '{"premise": "it rains"}', "[1, 2]"])
def test_what_lacks_a_column_is_refused_with_an_example(line):
    name = text_task("asked_badly_" + str(len(line)), "nli premise: {premise} hypothesis: {hypothesis}")
    with pytest.raises(ValueError, match=r'give each line as \{"premise": "…", "hypothesis": "…"\}'):
        word_question(name, line)


def test_tasks_of_users_modules_take_the_line_as_it_is():
    seqio.TaskRegistry.add(
        "asked_of_user",
        seqio.FunctionDataSource(lambda split, shuffle_files: None, ["train"]),  # noqa: ARG005
        output_features={"targets": seqio.Feature(seqio.ByteVocabulary())},
    )
    assert word_question("asked_of_user", "nli: {premise}") == "nli: {premise}"
