"""Anisotropy of a model's vectors, from Python and from the command line."""

import json

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.analysis import rows_of
from t5x_like.analysis.anisotropy import Anisotropy
from t5x_like.analysis.text_activations import hidden_states_name, map_texts
from t5x_like.analysis.vectors import mean_cosine
from t5x_like.cli.main import main
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write

TEXTS = ["in the beginning", "the", "the begin in in the begin", "begin the beginning in the beginning"]
SCORED = [
    {"a": TEXTS[0], "b": TEXTS[1], "score": "1.5"},
    {"a": TEXTS[2], "b": TEXTS[3], "score": "4"},
    {"a": TEXTS[1], "b": TEXTS[1], "score": "5"},
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write(TINY["bert"], tmp_path_factory.mktemp("bert"))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(bert):
    return t5x_like.from_pretrained(bert)


def test_texts_of_a_batch_have_the_activations_that_each_has_alone(model):
    name = hidden_states_name(model)
    alone = [model.activations(text, [name])[name][:, 0] for text in TEXTS]
    together = map_texts(model, TEXTS, name, lambda text: text.activations[name], batch_size=3)
    for expected, states in zip(alone, together, strict=True):
        np.testing.assert_allclose(states, expected, atol=2e-5)


def test_attention_weights_come_without_padding(model):
    name = "encoder/self_attention/probabilities"
    for weights in map_texts(model, TEXTS, name, lambda text: text.activations[name]):
        assert weights.shape[-1] == weights.shape[-2]
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5, atol=1e-5)


def test_cosines_of_texts_are_those_of_their_mean_states_by_layer(model):
    name = hidden_states_name(model)
    means = map_texts(model, TEXTS, name, lambda text: text.activations[name].mean(axis=1))
    layers = Anisotropy().run(model, rows_of(TEXTS)).values["layers"]
    expected = [mean_cosine(np.stack([each[layer] for each in means])) for layer in range(len(layers))]
    np.testing.assert_allclose(
        [each["mean_cosine_of_texts"] for each in layers], expected, rtol=1e-5, atol=1e-5
    )


def test_a_token_is_compared_with_itself_in_other_texts_only(model):
    texts = ["the the the the", "in in in in"]
    without_specials = Anisotropy(tokens_per_text=1, seed=3).run(model, rows_of(texts)).values["layers"]
    assert without_specials[0]["self_similarity"] is None  # two tokens were drawn, which are different


def test_similar_texts_are_correlated_with_scores_before_and_after_cures(model):
    analysis = Anisotropy(text="a", second_text="b", score="score", removed_components=(1,))
    result = analysis.run(model, SCORED)
    (last,) = result.values["similarity"][-1:]
    assert set(last["spearman"]) == {"unchanged", "without 1 component", "whitened"}
    assert last["alignment"] == pytest.approx(
        0, abs=1e-9
    )  # the pair with the highest score is one text twice
    assert all(-100 <= value <= 100 for value in last["spearman"].values())


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({}, [], "no texts"),
        ({}, rows_of(["the", "the"]), "at least two different"),
        ({}, [{"body": "the"}], "no column 'text'; it has 'body'"),
        ({}, rows_of(["the", " "]), "row 2 has an empty cell"),
        ({"text": "a", "second_text": "b", "score": "a"}, SCORED, "'in the beginning' in the column 'a'"),
    ],
)
def test_rows_without_what_is_compared_are_refused(model, options, rows, message):
    with pytest.raises(ValueError, match=message):
        Anisotropy(**options).run(model, rows)


def test_a_score_needs_a_second_text():
    with pytest.raises(ValueError, match="second_text is '' and score is 'score'"):
        Anisotropy(score="score")


def test_the_verb_writes_a_page_and_its_numbers(bert, tmp_path, capsys):
    texts, output = tmp_path / "texts.txt", tmp_path / "looked"
    texts.write_text("\n".join(TEXTS) + "\n\n")
    arguments = [str(bert), str(texts), "--what", "anisotropy", "--option", "tokens_per_text=2"]
    assert main(["analyze", *arguments, "--output_dir", str(output)]) == 0
    written = json.loads((output / "analysis.json").read_text())
    assert written["options"]["tokens_per_text"] == 2
    assert written["layers"][-1]["mean_cosine"] == pytest.approx(
        Anisotropy(tokens_per_text=2)
        .run(t5x_like.from_pretrained(bert), rows_of(TEXTS))
        .headlines["mean cosine, last layer"]
    )
    page = (output / "analysis.html").read_text()
    assert page.count("<svg") == 2
    assert "4 rows of" in page
    assert "Cosines by layer" in page
    assert "Layers" in capsys.readouterr().out


def test_the_verb_lists_the_options_of_an_analysis(bert, capsys):
    assert main(["analyze", str(bert), "--what", "anisotropy", "--options"]) == 0
    assert "removed_components" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--what", "anisotropi"], "there is no analysis 'anisotropi'"),
        (["--what", "no_such_module.Mine"], "there is no analysis 'no_such_module.Mine'"),
        (["--what", "anisotropy", "--option", "scores=1"], "did you mean 'score'"),
        (["--what", "anisotropy", "--option", "score"], "--option NAME=VALUE"),
        (["--what", "anisotropy", "--option", "seed=x"], "Anisotropy.seed needs an int"),
        (["--what", "anisotropy"], "say which texts"),
        (["none.txt", "--what", "anisotropy"], "none.txt: there is no such file"),
    ],
)
def test_the_verb_says_what_is_wrong(bert, arguments, message, capsys):
    assert main(["analyze", str(bert), *arguments]) == 2
    assert message in capsys.readouterr().err
