"""Ids that pad, begin and end texts: those of config.json or those that transformers takes, and their effect."""

import dataclasses

import jax
import numpy as np
import pytest

from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.pretrained.transformers_api import decoder_call
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.generation import Prompts, padding_of, visible
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

LLAMA = LlamaConfig(vocab_size=9, model_dim=4, mlp_dim=4, num_heads=2, num_layers=1)
WITH_PADDING, WITHOUT_PADDING = SpecialTokenIds(pad=0, eos=1), SpecialTokenIds(eos=1)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, SpecialTokenIds(pad=0, eos=1)),
        ({"model_type": "t5"}, SpecialTokenIds(pad=0, eos=1)),
        (
            {"model_type": "t5", "pad_token_id": 3, "eos_token_id": [4, 5]},
            SpecialTokenIds(pad=3, eos=4, decoder_start=3, further_eos=(5,)),
        ),
        ({"model_type": "openai-gpt"}, SpecialTokenIds()),
        ({"model_type": "qwen2", "eos_token_id": 7}, SpecialTokenIds(eos=7)),
        ({"model_type": "llama"}, SpecialTokenIds(eos=2, bos=1)),
        ({"model_type": "llama", "eos_token_id": None}, SpecialTokenIds(bos=1)),
        ({"model_type": "gemma2"}, SpecialTokenIds(pad=0, eos=1, bos=2)),
    ],
)
def test_absent_ids_are_those_of_the_model(fields, wanted):
    assert special_ids_of(fields) == wanted


def test_without_an_id_for_padding_prompts_hold_none():
    assert padding_of(None, WITHOUT_PADDING, ()) is None
    assert padding_of(None, WITHOUT_PADDING, (5, 6)) == 5
    assert padding_of(None, WITH_PADDING, (5, 6)) == 0
    assert padding_of(3, WITH_PADDING, (5, 6)) == 3
    assert visible(np.array([[0, 4]]), pad=None, eos_ids=()).all()


@pytest.mark.parametrize(
    ("special", "mask", "ends"),
    [
        (WITH_PADDING, None, [1, 3, 0]),
        (WITH_PADDING, [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]], [1, 3, 0]),
        (WITHOUT_PADDING, None, [3, 3, 3]),
        (WITHOUT_PADDING, [[1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]], [2, 3, 2]),
    ],
)
def test_classes_are_predicted_at_the_last_id_that_is_not_padding(special, mask, ends):
    config = LlamaConfig(
        vocab_size=9, model_dim=4, mlp_dim=4, num_heads=2, num_layers=1, task="sequence_classification"
    )
    ids = np.array([[5, 6, 0, 0], [0, 0, 5, 6], [0, 0, 0, 0]])
    inputs = decoder_call.read({"input_ids": ids, "attention_mask": mask}, Context(config, special))
    assert inputs["ends"].tolist() == ends
    assert ("segment_ids" in inputs) == (mask is not None)


@pytest.mark.parametrize("ids", [{}, {"eos_token_id": 4}, {"pad_token_id": 3}])
def test_no_ids_are_written_that_were_not_read(tmp_path, ids):
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), parameters.abstract(LLAMA)[1])
    fields = {"model_type": "llama", **ids}
    write_hugging_face(LLAMA, params, tmp_path / "out", fields=fields)
    written = read_json(tmp_path / "out" / "config.json")
    assert {name: value for name, value in written.items() if name.endswith("token_id")} == ids


@pytest.mark.parametrize(
    ("prompt", "in_encoder", "positions", "number"),
    [(5, False, 2048, 20), (25, False, 2048, 20), (5, False, 16, 11), (25, True, 64, 20), (5, True, 9, 8)],
)
def test_without_a_length_as_many_tokens_are_written_as_by_transformers(
    prompt, in_encoder, positions, number
):
    ids = np.ones((1, prompt), np.int32)
    config = dataclasses.replace(LLAMA, max_position_embeddings=positions)
    prompts = Prompts(ids, np.ones_like(ids), in_encoder)
    assert prompts.num_new_tokens(config, max_new_tokens=None, max_length=None) == number
