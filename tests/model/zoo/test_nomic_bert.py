"""Nomic BERT: its traits matter, Nomic's own files are read, and no field of a config.json is overlooked."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.layers.rotary import LinearScaling
from t5x_like.model.zoo.nomic_bert import NOMIC_BERT, NomicBertConfig
from tests.model.zoo.golden_encoders import with_epsilon, with_words, worst_difference
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
    with_rotation,
)
from tests.references import FIXTURES

# The fields that Nomic publishes with its own code, for the sizes of the recorded model.
OWN_FIELDS: dict[str, Any] = {
    "activation_function": "swiglu",
    "architectures": ["NomicBertForPreTraining"],
    "attn_pdrop": 0.0,
    "auto_map": {"AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig"},
    "causal": False,
    "embd_pdrop": 0.0,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 24,
    "n_head": 4,
    "n_inner": 32,
    "n_layer": 2,
    "n_positions": 8192,
    "pad_vocab_size_multiple": 64,
    "prenorm": False,
    "qkv_proj_bias": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 50,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "summary_type": "cls_index",
    "type_vocab_size": 2,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "vocab_size": 61,
}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FIXTURES / "models/nomic_bert", NOMIC_BERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_rotation(family, rope_theta=1000.0),
        lambda family: with_rotation(family, rope_scaling=LinearScaling(factor=2.0)),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_words(family, activation="gelu"),
        lambda family: with_epsilon(family, 0.01),
    ],
    ids=["theta", "scaling", "scale", "GELU", "words by a GELU", "epsilon"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_files_of_nomics_own_code_are_read(tmp_path: Path) -> None:
    """They have other fields and another prefix, and no biases of the output layer."""
    weights = load_file(FIXTURES / "models/nomic_bert/model.safetensors")
    biases = {"cls.predictions.bias", "cls.predictions.transform.dense.bias"}
    own = {
        name.replace("nomic_bert.", "bert.", 1): each for name, each in weights.items() if name not in biases
    }
    own["cls.predictions.decoder.weight"] = own["bert.embeddings.word_embeddings.weight"]
    (tmp_path / "own").mkdir()
    save_file(own, tmp_path / "own/model.safetensors")
    (tmp_path / "own/config.json").write_text(json.dumps(OWN_FIELDS | {"head_dim": 8}))
    (tmp_path / "zeros").mkdir()
    zeros = {name: 0 * each if name in biases else each for name, each in weights.items()}
    save_file(zeros, tmp_path / "zeros/model.safetensors")
    fields = fields_of(FIXTURES / "models/nomic_bert")
    (tmp_path / "zeros/config.json").write_text(json.dumps(fields))
    ids = np.array([[5, 6, 7, 8]])
    wanted = t5x_like.from_pretrained(tmp_path / "zeros")(input_ids=ids).logits
    read = t5x_like.from_pretrained(tmp_path / "own")
    np.testing.assert_allclose(read(input_ids=ids).logits, wanted, rtol=1e-5, atol=1e-5)
    t5x_like.export_hugging_face(read, tmp_path / "out")
    assert fields_of(tmp_path / "out")["architectures"] == ["NomicBertForMaskedLM"]
    assert t5x_like.from_pretrained(tmp_path / "out").config == read.config


def test_fields_of_both_forms_may_stand_together() -> None:
    newer = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 32}
    newer |= {"rope_parameters": {"rope_theta": 50.0, "rope_type": "default"}, "hidden_act": "silu"}
    assert NOMIC_BERT.from_hugging_face(OWN_FIELDS | newer) == NOMIC_BERT.from_hugging_face(OWN_FIELDS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"activation_function": "gelu"}, "activation_function is 'gelu'; swiglu, geglu are supported"),
        ({"qkv_proj_bias": True}, "qkv_proj_bias is True"),
        ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5"),
        ({"rotary_scaling_factor": 2.0}, "rotary_scaling_factor is 2.0"),
        ({"num_experts": 8}, "num_experts = 8 is not known"),
    ],
)
def test_what_nomics_code_does_otherwise_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NOMIC_BERT.from_hugging_face(OWN_FIELDS | changed)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    size: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}
    assert NOMIC_BERT.from_hugging_face(SMALL_FIELDS) == NomicBertConfig(**size, task="base")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
        ({"position_embedding_type": "absolute"}, "position_embedding_type = 'absolute' is not known"),
        ({"architectures": ["NomicBertForQuestionAnswering"]}, "no head for NomicBertForQuestionAnswering"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NOMIC_BERT.from_hugging_face(SMALL_FIELDS | changed)


@pytest.mark.parametrize("task", sorted(set(NOMIC_BERT.classes.values())))
@pytest.mark.parametrize("changed", [{}, {"lm_head_bias": False}, {"tie_word_embeddings": False}])
def test_every_task_has_a_name_for_every_weight(task: Any, changed: dict[str, Any]) -> None:
    config = replace(NOMIC_BERT.from_hugging_face(SMALL_FIELDS | {"head_dim": 6}), task=task)
    assert NOMIC_BERT.from_hugging_face(NOMIC_BERT.to_hugging_face(config)) == config
    config = replace(config, **changed)
    named = {path for row in NOMIC_BERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
