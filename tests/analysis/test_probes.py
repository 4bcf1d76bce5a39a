"""Probes of a tiny encoder: labels that its inputs determine, baselines, and refusals."""

import json

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.fresh_model import fresh_model
from t5x_like.analysis.probes import Probes, control_task
from t5x_like.cli.main import main
from t5x_like.model import parameters
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write

TAGS = {"in": "PREPOSITION", "the": "ARTICLE", "begin": "VERB", "beginning": "NOUN"}


def sentences(count):
    generator = np.random.default_rng(0)
    texts = [generator.choice(list(TAGS), generator.integers(2, 8)).tolist() for _ in range(count)]
    return [
        {"words": words, "tags": [TAGS[word] for word in words], "text": " ".join(words)} for words in texts
    ]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write(TINY["bert"], tmp_path_factory.mktemp("bert"))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(bert):
    return t5x_like.from_pretrained(bert)


@pytest.fixture(scope="module")
def result(model):
    return Probes(words="words", l2=0.1, layers=(0, 2), pooling="mean").run(model, sentences(60))


def test_a_tag_that_each_word_determines_is_read_from_the_input_layer(result):
    first = result.values["layers"][0]
    assert first["accuracy"] > 95
    assert first["compression"] > 2
    assert result.values["majority"] < 50


def test_the_control_task_is_as_easy_where_all_word_types_are_known(result):
    first = result.values["layers"][0]
    assert first["control"] > 95
    assert first["selectivity"] == pytest.approx(first["accuracy"] - first["control"])
    assert result.values["unseen_types"] == 0


def test_fresh_weights_of_the_same_shape_are_probed_too(model, result):
    assert [layer["layer"] for layer in result.values["layers"]] == [0, 2]
    assert all(layer["random_model"] > result.values["majority"] for layer in result.values["layers"])
    before, after = (
        parameters.flatten(parameters.split(each.model)[1]) for each in (model, fresh_model(model, 5))
    )
    assert {path: leaf.shape for path, leaf in before.items()} == {
        path: leaf.shape for path, leaf in after.items()
    }
    name = next(path for path in before if path.endswith("query/kernel"))
    assert np.abs(np.asarray(before[name]) - np.asarray(after[name])).max() > 0.01


def test_words_without_a_tag_are_left_out(model):
    rows = [{**row, "tags": [*row["tags"][:-1], None]} for row in sentences(30)]
    options = {"words": "words", "layers": (0,), "random_model": False, "codelength": False}
    examples = Probes(**options).run(model, rows).values["examples"]
    assert sum(examples.values()) == sum(len(row["words"]) - 1 for row in rows)


def test_a_class_of_texts_has_no_control_task(model):
    rows = [{"text": row["text"], "label": str("the" in row["words"])} for row in sentences(80)]
    result = Probes(layers=(0,), random_model=False, codelength=False, l2=0.1, test_share=0.4).run(
        model, rows
    )
    (layer,) = result.values["layers"]
    assert set(layer) == {"layer", "accuracy"}
    assert layer["accuracy"] > result.values["majority"]
    assert result.values["classes"] == ["False", "True"]


def test_a_word_type_has_one_random_class_as_often_as_labels_have_it():
    types = np.array([f"w{index}" for index in range(2000)])
    labels = np.array([0, 0, 0, 1] * 500)
    task, again = (control_task(types, labels, seed=3) for _ in range(2))
    classes = [task(each) for each in types]
    assert classes == [again(each) for each in types]
    assert np.mean(classes) == pytest.approx(0.25, abs=0.03)
    assert task("unseen") == task("unseen")


def test_the_verb_probes_a_table_of_words_and_tags(bert, tmp_path, capsys):
    table = tmp_path / "tagged.tsv"
    lines = ["\t".join([row["text"], " ".join(row["tags"])]) for row in sentences(40)]
    table.write_text("\n".join(["words\ttags", *lines]) + "\n")
    arguments = ["--what", "probes", "--option", "words=words", "--option", "layers=(1,)", "--option", "l2=1"]
    assert main(["analyze", str(bert), str(table), *arguments, "--output_dir", str(tmp_path / "out")]) == 0
    written = json.loads((tmp_path / "out/analysis.json").read_text())
    assert [layer["layer"] for layer in written["layers"]] == [1]
    page = (tmp_path / "out/analysis.html").read_text()
    assert page.count("<svg") == 2
    assert "selectivity, layer 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({}, [{"text": "the"}], "row 1 has no column 'label'; it has 'text'"),
        (
            {},
            [{"text": "the", "label": "A"}, {"text": "in", "label": "A"}],
            "'label' has 1 class; a probe needs",
        ),
        (
            {"words": "words"},
            [{"words": "the in", "tags": "A"}],
            "row 1 has 2 words and 1 values in the column 'tags'",
        ),
        ({"words": "words"}, [{"words": "the in"}], "row 1: no column 'tags'"),
        ({"words": "words", "layers": (9,)}, sentences(5), "there is no layer 9"),
        (
            {"layers": (-1,)},
            [{"text": "the", "label": "A"}, {"text": "in", "label": "B"}],
            "there is no layer -1",
        ),
        (
            {"layers": (0,)},
            [{"text": text, "label": text} for text in ("the", "in", "begin")],
            "fewer than the 11 portions of the online code; give more texts, or codelength=False",
        ),
    ],
)
def test_rows_that_can_not_be_probed_are_refused(model, options, rows, message):
    with pytest.raises(ValueError, match=message):
        Probes(**options).run(model, rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_share": 1.0}, "test_share is 1.0; give a share above 0 and below 1"),
        ({"l2": 0.0}, "l2 is 0.0"),
        ({"num_texts": -1}, "num_texts is -1"),
        ({"pooling": "last"}, "pooling needs"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Probes(**options)
