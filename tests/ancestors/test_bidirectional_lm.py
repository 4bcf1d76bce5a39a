"""Rows of language models of both directions."""

from dataclasses import replace

import numpy as np
import pytest

from t5x_like.ancestors.bidirectional_lm import BidirectionalLM
from t5x_like.text.objectives.objective import Lengths, Objective
from tests.text.objectives.encoder_rows import CLS, FIRST_WORD, IDS, SEP, examples_of, window_of


def test_a_text_is_its_own_target_and_its_ends_count_half():
    window = window_of([[3], [1]])
    _, examples = examples_of(BidirectionalLM(), window, 12)
    assert [example.inputs.tolist() for example in examples] == [
        [CLS, FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2, SEP],
        [CLS, FIRST_WORD + 3, SEP],
    ]
    for example in examples:
        np.testing.assert_array_equal(example.targets, example.inputs)
        assert example.weights.tolist() == [0.5, *[1.0] * (len(example.inputs) - 2), 0.5]
        # Each direction predicts every token but the one that it begins with.
        assert example.weights.sum() == len(example.inputs) - 1


def test_the_input_format_divides_documents():
    window = window_of([[3], [4]], eos=SEP)
    _, runs = examples_of(BidirectionalLM(input_format="runs"), window, 20)
    _, documents = examples_of(BidirectionalLM(), window_of([[3], [4]]), 20)
    assert [len(each.inputs) for each in runs] == [3 + 1 + 4 + 1 + 2]  # each document has its end
    assert sorted(len(each.inputs) for each in documents) == [5, 6]
    assert isinstance(BidirectionalLM(), Objective)
    assert BidirectionalLM(input_format="runs").spec.ends_documents
    assert not BidirectionalLM().spec.fills_rows


def test_what_it_needs_is_said():
    with pytest.raises(ValueError, match="the vocabulary has no id for sep; raise num_sentinels"):
        BidirectionalLM().check(Lengths(10, 2), replace_ids(sep=None))
    BidirectionalLM().check(Lengths(3, 2), replace_ids(mask=None))
    with pytest.raises(
        ValueError, match="inputs_length of 2 holds the special ids of a text alone; set it to 3"
    ):
        BidirectionalLM().check(Lengths(2, 2), IDS)
    with pytest.raises(ValueError, match="input_format must be one of"):
        BidirectionalLM(input_format="lines")  # pyright: ignore[reportArgumentType]
    assert replace(BidirectionalLM(), input_format="runs") == BidirectionalLM(input_format="runs")


def replace_ids(**changes):
    return replace(IDS, **changes)
