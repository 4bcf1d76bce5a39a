"""Attributions of answers to neurons, against PyTorch's gradients, and what is made of them."""

import numpy as np
import pytest

import t5x_like
from benchmarks.references.analysis import attribution
from benchmarks.references.reference import compare_all
from t5x_like.analysis.fact_prompts import FactPrompt
from t5x_like.analysis.feed_forward_weights import Neuron
from t5x_like.analysis.knowledge_attribution import (
    FactModel,
    knowledge_attribution,
    largest_neurons,
    neuron_factors,
    shared_neurons,
)
from tests.analysis.tiny_language_models import bert
from tests.references import FIXTURES


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize(
    "name",
    [
        "bert_mlm",
        "gpt2",
        pytest.param("llama", marks=pytest.mark.slow),
        pytest.param("modernbert", marks=pytest.mark.slow),
    ],
)
def test_attributions_and_changed_probabilities_are_those_of_pytorch(name):
    assert compare_all(attribution(FIXTURES / "analysis" / f"attribution_{name}")) == 4


def test_attributions_of_a_layer_add_up_to_what_it_adds_to_the_probability(model):
    # With many steps, integrated gradients sum to the difference from a layer of zeros (Sundararajan et al. 2017).
    (ids,) = model.encode("the sky is blue .")["input_ids"]
    attributed = knowledge_attribution(model, ids, 4, 6, steps=200)
    fact_model, prompt = FactModel(model, batch_size=1), FactPrompt("", ids, 4)
    (plain,) = fact_model.answers([prompt], [6])
    for layer, own in enumerate(attributed):
        silent = neuron_factors(attributed.shape, [Neuron(layer, index) for index in range(len(own))], 0.0)
        (without,) = fact_model.answers([prompt], [6], silent)
        assert own.sum() == pytest.approx(plain.probability - without.probability, rel=0.03, abs=1e-5)


def test_neurons_are_shared_above_a_share_of_each_prompts_highest():
    attributions = [np.zeros((2, 3)) for _ in range(10)]
    for index, each in enumerate(attributions):
        each[0, 1] = 10.0 * (index + 1)  # highest
        each[1, 2] = 2.1 * (index + 1) if index < 7 else 0.0
        each[1, 0] = 2.1 * (index + 1) if index < 6 else 0.0
    assert shared_neurons(attributions) == [(0, 1), (1, 2)]
    assert shared_neurons(attributions, threshold=0.3) == [(0, 1)]
    assert shared_neurons(attributions, sharing=0.6) == [(0, 1), (1, 2), (1, 0)]


def test_a_prompt_without_positive_attributions_has_no_neurons():
    assert shared_neurons([-np.ones((2, 3))]) == []


def test_the_largest_are_in_order():
    assert largest_neurons(np.array([[0.1, 3.0], [-4.0, 2.0]]), 2) == [Neuron(0, 1), Neuron(1, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[2, 5], [2, 6]], 1, 5), r"input_ids has shape \(2, 2\)"),
        (([2, 5, 3], 3, 5), "position is 3; give one from 0 to 2"),
        (([2, 5, 3], 1, 99), "target is 99; give one from 0 to 17"),
    ],
)
def test_numbers_out_of_their_range_are_refused(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        knowledge_attribution(model, *arguments)


def test_a_model_that_predicts_no_words_is_refused():
    classifier = t5x_like.from_pretrained(FIXTURES / "models/bert_seqcls")
    with pytest.raises(
        ValueError, match="task is sequence_classification; take one with a head over the voc"
    ):
        knowledge_attribution(classifier, [1, 2, 3], 1, 2)
    t5 = t5x_like.from_pretrained(FIXTURES / "models/t5_v11")
    with pytest.raises(ValueError, match="family is encoder_decoder; take an encoder or a decoder"):
        knowledge_attribution(t5, [1, 2, 3], 1, 2)
