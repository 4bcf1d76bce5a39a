"""What a transformers user expects of a loaded model beyond its numbers."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.transformers_api.generation import Prompts, frame, visible
from tests.model.zoo.tiny_models import TINY

CONFIG = T5Config(
    vocab_size=32,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=6,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
IDS = np.array([[5, 6, 7, 8, 1], [9, 10, 1, 0, 0]])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A model without opinions: all logits are equal, so greedy decoding writes id 0, again and again."""
    graphdef, _, _ = parameters.abstract(CONFIG)
    params = jax.jit(lambda key: parameters.split(CONFIG.build(key))[1])(jax.random.key(0))
    lm_head = params["heads"]["lm_head"]["projection"]
    lm_head["kernel"] = jnp.zeros_like(lm_head["kernel"])
    directory = tmp_path_factory.mktemp("exported") / "model"
    t5x_like.export_hugging_face(parameters.merge(graphdef, params), directory, config=CONFIG)
    return directory


@pytest.fixture(scope="module")
def pretrained(directory):
    return t5x_like.from_pretrained(directory)


def test_what_was_not_asked_for_is_none(pretrained):
    outputs = pretrained(input_ids=IDS, attention_mask=IDS != 0, decoder_input_ids=IDS)
    assert outputs.loss is None
    assert outputs.encoder_hidden_states is None
    assert "loss" not in outputs
    with pytest.raises(AttributeError, match="no 'logit' here; there are"):
        _ = outputs.logit


def test_labels_are_shifted_into_the_decoder_and_minus_100_is_not_learned(pretrained):
    labels = np.where(IDS == 0, -100, IDS)
    from_labels = pretrained(input_ids=IDS, labels=labels)
    shifted = np.array([[0, 5, 6, 7, 8], [0, 9, 10, 1, 0]])
    with_decoder_inputs = pretrained(input_ids=IDS, decoder_input_ids=shifted, labels=labels)
    np.testing.assert_array_equal(from_labels.logits, with_decoder_inputs.logits)
    np.testing.assert_allclose(from_labels.loss, np.log(32), rtol=1e-6)


def test_a_row_that_never_ends_keeps_the_padding_ids_it_wrote(pretrained):
    assert pretrained.generate(IDS[:, :3], max_new_tokens=4).tolist() == [[0] * 5] * 2


def test_twenty_new_tokens_follow_the_start_token_by_default(pretrained):
    assert pretrained.generate(IDS[:, :3]).shape == (2, 21)  # as transformers 5.24


def test_sampling_follows_its_seed_and_0_keeps_all_tokens(pretrained):
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 6, "num_return_sequences": 20}
    first = pretrained.generate(IDS, **settings, eos_token_id=1, seed=3)
    assert first.shape[0] == 40
    np.testing.assert_array_equal(first, pretrained.generate(IDS, **settings, eos_token_id=1, seed=3))
    assert len(np.unique(first)) > 25


def test_bfloat16_is_what_the_configuration_then_says(directory):
    pretrained = t5x_like.from_pretrained(directory, dtype="bfloat16")
    assert pretrained.config.compute_dtype == "bfloat16"
    assert pretrained(input_ids=IDS, decoder_input_ids=IDS).logits.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"input_ids": IDS, "attention_mask": IDS[:, :2]},
            r"mask of shape \(2, 2\) for ids of shape \(2, 5\)",
        ),
        ({"input_ids": IDS[0]}, "give rows of token ids"),
        ({"input_ids": IDS + 30}, "the model has the ids 0 … 31"),
        ({"input_ids": IDS, "num_return_sequences": 2}, "greedy decoding writes one sequence a row"),
        ({"input_ids": IDS, "max_new_tokens": 0}, "max_new_tokens is 0"),
    ],
)
def test_requests_that_make_no_sense_are_refused(pretrained, arguments, message):
    with pytest.raises(ValueError, match=message):
        pretrained.generate(**arguments)


def test_an_unknown_argument_gets_its_neighbour_named(pretrained):
    with pytest.raises(TypeError, match="did you mean 'max_new_tokens'"):
        pretrained.generate(IDS, max_new_token=3)


def edited(directory, tmp_path, **fields):
    """The same directory with other fields in ``config.json``."""
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((directory / "config.json").read_text()) | fields
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_decoder": True}, "is_decoder"),
        ({"window": 5}, "window"),
        ({"feed_forward_proj": "gated-silu", "dense_act_fn": "silu"}, "gated-silu"),
        ({"d_model": None}, "lacks d_model"),
        ({"num_layers": 2}, "encoder.block.1.layer.0.SelfAttention.q.weight .* is missing"),
        ({"d_ff": 20}, "DenseReluDense.wi_0.weight has shape"),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": True}, "lm_head.weight differs"),
        ({"architectures": ["T5ForMultipleChoice"]}, "no head for T5ForMultipleChoice"),
        ({"model_type": "xlm"}, "model_type 'xlm'"),
    ],
)
def test_a_configuration_that_means_another_model_is_refused(directory, tmp_path, fields, message):
    with pytest.raises(ValueError, match=message):
        t5x_like.from_pretrained(edited(directory, tmp_path, **fields))


def test_fields_of_published_configurations_are_understood(directory, tmp_path):
    fields = {"n_positions": 512, "output_past": True, "task_specific_params": {"x": {"prefix": "to x: "}}}
    assert t5x_like.from_pretrained(edited(directory, tmp_path, **fields)).config == CONFIG


def test_columns_after_the_last_end_are_cut_off():
    written = np.array([[4, 0, 5, 0], [7, 2, 0, 0]], np.int32)
    assert frame(written[1:], start=9, eos_ids=(2, 3)).tolist() == [[9, 7, 2]]
    assert frame(written, start=9, eos_ids=(2, 3)).tolist() == [[9, 4, 0, 5, 0], [9, 7, 2, 0, 0]]


def test_inputs_are_widened_with_columns_that_are_not_seen():
    for in_encoder in (False, True):
        ids, mask = Prompts(IDS, visible(IDS, pad=0, eos_ids=(1,)), in_encoder).widened(CONFIG)
        assert ids.shape == mask.shape == (2, 32)
        assert mask.sum(axis=1).tolist() == [5, 3]
        assert mask[0, 0] == in_encoder
    assert visible(IDS, pad=0, eos_ids=(0,)).all()


def test_exported_weights_can_be_read_by_those_who_can_read_the_configuration(directory):
    modes = {file.name: file.stat().st_mode for file in directory.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


def test_layers_that_repeat_in_another_pattern_keep_their_weights(tmp_path):
    config = replace(TINY["gpt_neo"], num_layers=4)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    fields |= {"attention_types": [[["global"], 4]], "attention_layers": ["global"] * 4}
    alternating = t5x_like.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(fields))
    alike = t5x_like.from_pretrained(tmp_path)
    by_slot = parameters.flatten(parameters.split(alternating.model)[1])
    stacked = parameters.flatten(parameters.split(alike.model)[1])
    name = "self_attention/query/kernel"
    assert by_slot[f"decoder/layers/1/{name}"].shape[0] == 2
    both = stacked[f"decoder/layers/0/{name}"]
    assert both.shape[0] == 4
    for slot in (0, 1):
        np.testing.assert_array_equal(both[slot::2], by_slot[f"decoder/layers/{slot}/{name}"])
