"""States of words of several tokens, and the division of texts."""

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.text_activations import hidden_states_name
from t5x_like.analysis.words import encode_texts_of_words, split_texts, states_of_words, words_in
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write

TEXTS = [("in", "beginning", "the"), ("the",)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write(TINY["bert"], tmp_path_factory.mktemp("bert"))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return t5x_like.from_pretrained(folder)


def test_a_word_is_its_first_token_or_the_mean_of_all(model):
    name = hidden_states_name(model)
    states = model.activations("in beginning the", [name])[name][:, 0]  # [CLS] in begin ##ning the [SEP]
    encoded = encode_texts_of_words(model, TEXTS, None)
    firsts, _ = states_of_words(model, encoded, "first")
    np.testing.assert_allclose(firsts, states[:, [1, 2, 4]], atol=2e-5)
    means, _ = states_of_words(model, encoded, "mean", (1,))
    expected = [states[1, 1], states[1, 2:4].mean(axis=0), states[1, 4]]
    np.testing.assert_allclose(means, np.stack(expected)[None], atol=2e-5)


def test_words_that_do_not_fit_as_a_whole_are_cut_off(model):
    first, second = encode_texts_of_words(model, TEXTS, 4)  # has room for 2 tokens, one of "beginning"
    assert [WORDS[token_id] for token_id in first.ids] == ["[CLS]", "in", "[SEP]"]
    assert (first.starts.tolist(), first.ends.tolist()) == ([1], [2])
    assert second.starts.tolist() == [1]
    with pytest.raises(ValueError, match="first word of row 1 does not fit into 2 tokens"):
        encode_texts_of_words(model, TEXTS, 2)


def test_a_layer_that_is_not_there_is_refused(model):
    with pytest.raises(ValueError, match=r"there is no layer 7; layers are 0.* to 2"):
        states_of_words(model, encode_texts_of_words(model, TEXTS, None), "first", (0, 7))


def test_equal_texts_are_on_one_side():
    keys = [index % 10 for index in range(50)]
    split = split_texts(keys, 0.3, 0, seed=1)
    sides = [{keys[index] for index in side} for side in split]
    assert [len(side) for side in sides] == [7, 3]
    assert not sides[0] & sides[1]
    assert sorted([*split.train, *split.test]) == list(range(50))


def test_a_split_draws_as_many_texts_as_were_asked_for_and_depends_on_the_seed():
    splits = [split_texts(range(100), 0.2, 40, seed) for seed in (0, 0, 1)]
    assert [(len(each.train), len(each.test)) for each in splits] == [(32, 8)] * 3
    assert splits[0].test.tolist() == splits[1].test.tolist() != splits[2].test.tolist()


def test_one_text_alone_can_not_be_divided():
    with pytest.raises(ValueError, match="at least two different texts"):
        split_texts(["a", "a"], 0.2, 0, seed=0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no texts"),
        ([{"words": "a"}, {"tags": "B"}], "row 2: no column 'words'; the columns are tags"),
        ([{"words": []}], "row 1 has no words"),
    ],
)
def test_rows_without_words_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        words_in(rows, "words")
