"""Texts and words of neurons, compared with those of plain loops over all tokens."""

from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.analysis import rows_of
from t5x_like.analysis.feed_forward_memories import FeedForwardMemories
from t5x_like.analysis.feed_forward_weights import key_vectors, output_embeddings, value_vectors
from tests.analysis.tiny_language_models import TEXTS, bert, gpt2
from tests.references import FIXTURES

NAME = "decoder/feed_forward/activations"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


def test_prefixes_are_those_of_the_highest_activations(decoder):
    result = FeedForwardMemories(neurons=((1, 3),), num_triggers=3, batch_size=2).run(decoder, rows_of(TEXTS))
    (key,) = result.values["keys"]
    ends = []
    for index, text in enumerate(TEXTS):
        activations = decoder.activations(text, [NAME])[NAME][1, 0, :, 3]
        ends += [(-float(each), index, position) for position, each in enumerate(activations)]
    expected = sorted(ends)[:3]
    assert [(each["text"], each["position"]) for each in key["triggers"]] == [end[1:] for end in expected]
    np.testing.assert_allclose(
        [each["activation"] for each in key["triggers"]], [-end[0] for end in expected], atol=1e-5
    )
    first = key["triggers"][0]
    assert TEXTS[first["text"]].startswith(first["prefix"])


def test_words_have_the_largest_products_with_the_value(decoder):
    (key,) = FeedForwardMemories(neurons=((0, 5),), num_words=2).run(decoder, rows_of(TEXTS)).values["keys"]
    scores = output_embeddings(decoder) @ value_vectors(decoder)[0][5]
    assert [each["score"] for each in key["words"]] == pytest.approx(np.sort(scores)[::-1][:2].tolist())
    assert key["words"][0]["word"] == decoder.vocabulary.piece(int(scores.argmax()))


def test_the_final_norm_changes_what_values_write(decoder):
    rows, options = rows_of(TEXTS), {"neurons": ((0, 5),), "num_words": 1}
    plain, normed = (
        FeedForwardMemories(**options, final_norm=norm)
        .run(decoder, rows)
        .values["keys"][0]["words"][0]["score"]
        for norm in (False, True)
    )
    value = value_vectors(decoder)[0][5]
    scores = output_embeddings(decoder) @ ((value - value.mean()) / np.sqrt(value.var() + 1e-5))
    assert normed == pytest.approx(scores.max(), rel=1e-4) != plain


def test_agreement_is_the_share_of_values_that_write_the_next_token(decoder):
    layers = FeedForwardMemories().run(decoder, rows_of(TEXTS)).values["layers"]
    ids = [decoder.encode(text)["input_ids"][0] for text in TEXTS]
    hidden = [decoder.activations(text, [NAME])[NAME][:, 0] for text in TEXTS]
    for layer, values in enumerate(value_vectors(decoder)):
        words = (values @ output_embeddings(decoder).T).argmax(axis=1)
        followed = np.concatenate([each[layer, :-1] for each in hidden])
        following = np.concatenate([each[1:] for each in ids])
        expected = np.mean(words == following[followed.argmax(axis=0)])
        assert layers[layer]["agreement"] == pytest.approx(expected)


def test_an_encoder_has_keys_and_words_and_no_next_token(encoder):
    result = FeedForwardMemories(num_keys=2).run(encoder, rows_of(TEXTS))
    assert result.values["layers"] == []
    assert [key["layer"] for key in result.values["keys"]] == [0, 0, 1, 1]
    ends = [each["position"] for key in result.values["keys"] for each in key["triggers"]]
    assert min(ends) > 0  # [CLS] ends no prefix


def test_keys_of_gated_layers_are_the_gates():
    llama = t5x_like.from_pretrained(FIXTURES / "models/llama")
    gate = llama.model.decoder.layers["0"].feed_forward.gate.kernel[...]
    np.testing.assert_array_equal(key_vectors(llama)[0], gate[0].T)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"neurons": ((2, 0),)},
            "no neuron 0 in layer 2; there are 2 layers of 16 neurons, each counted from 0",
        ),
        ({"final_norm": True}, "no norm at the end of its stack; leave out final_norm"),
    ],
)
def test_what_the_model_does_not_have_is_refused(encoder, options, message):
    with pytest.raises(ValueError, match=message):
        FeedForwardMemories(**options).run(encoder, rows_of(TEXTS))


@pytest.mark.parametrize("name", ["num_keys", "num_triggers", "num_words"])
def test_no_number_is_below_one(name):
    with pytest.raises(ValueError, match=f"{name} is 0; give at least 1"):
        FeedForwardMemories(**dict[str, Any]({name: 0}))
