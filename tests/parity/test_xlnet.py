"""XLNet against transformers: every recorded output from the same weights, and what each trait is worth."""

import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from benchmarks.references.models import ModelFolder
from benchmarks.references.segments import check_permutations, segment_of, targets_of
from t5x_like.model import parameters
from t5x_like.model.layers.relative_attention import encode_distances
from t5x_like.model.zoo.weights import write_weights
from t5x_like.model.zoo.xlnet import XLNET
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.parity.fixtures import fixture
from tests.references import read_arrays
from tests.slow_cases import slow_except

LANGUAGE_MODELS = ("xlnet", "xlnet_variants")
CLASSIFIERS = ("xlnet_seqcls", "eps_xlnet")
ATOL = 2e-5


def load(directory) -> SimpleNamespace:
    """A directory's model, to be called by Hugging Face's names, beside what transformers computed."""
    pretrained = t5x_like.from_pretrained(directory)
    graphdef, own_params = parameters.split(pretrained.model)

    def call(params=None, **arguments):
        if params is None:
            return pretrained(**arguments, output_hidden_states=True)
        changed = Pretrained(
            Checkpoint.in_memory(parameters.merge(graphdef, params), pretrained.config, pretrained.fields)
        )
        return changed(**arguments)

    return SimpleNamespace(
        directory=directory,
        config=pretrained.config,
        params=own_params,
        fields=pretrained.fields,
        call=call,
        io=read_arrays(directory / "io.npz"),
    )


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_segments_memory_padding_and_targets(golden, name):
    check_permutations(ModelFolder(golden / "models" / name), atol=ATOL)


@pytest.mark.parametrize("name", slow_except(LANGUAGE_MODELS, LANGUAGE_MODELS[:1]))
def test_hidden_states_of_queries_follow_those_of_contents(golden, name):
    case = load(golden / "models" / name)
    predicted = case.call(**segment_of(case.io, "a"), **targets_of(case.io))
    assert len(predicted["hidden_states"]) == 2 * (case.config.num_layers + 1)


@pytest.mark.parametrize("name", slow_except(LANGUAGE_MODELS, LANGUAGE_MODELS[:1]))
def test_gradients_of_a_permutation(name):
    case = fixture(name)
    case.check_gradients(segment_of(case.io, "a") | targets_of(case.io) | {"labels": case.io["in_labels"]})


@pytest.mark.parametrize("name", slow_except(CLASSIFIERS, CLASSIFIERS[:1]))
def test_gradients_of_a_classifier(name):
    case = fixture(name)
    case.check_gradients(case.inputs)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_of_sequences(golden, name):
    ModelFolder(golden / "models" / name).check_outputs(atol=ATOL)


@pytest.mark.parametrize("name", [*LANGUAGE_MODELS, *CLASSIFIERS])
def test_export_writes_the_names_and_bytes_that_were_read(golden, name):
    case = load(golden / "models" / name)
    wanted = load_file(case.directory / "model.safetensors")
    got = dict(write_weights(XLNET.hugging_face_weights(case.config), case.params))
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[hf_name], wanted[hf_name]) for hf_name in wanted)
    assert XLNET.from_hugging_face(XLNET.to_hugging_face(case.config)) == case.config


def test_the_sign_of_distances_matters(golden, monkeypatch):
    monkeypatch.setattr(
        "t5x_like.model.families.two_stream.encode_distances",
        lambda distances, *rest, **named: encode_distances(-distances, *rest, **named),
    )
    case = load(golden / "models" / "xlnet")
    assert missed(case, case.call(**segment_of(case.io, "a"))) > 1e-3


@pytest.mark.parametrize("weight", ["segment_keys", "segment_bias", "distance_bias", "content_bias"])
def test_every_part_of_the_score_matters(golden, weight):
    case = load(golden / "models" / "xlnet")
    flat = parameters.flatten(case.params)
    path = f"stack/layers/attention/{weight}"
    without = parameters.unflatten(flat | {path: jnp.zeros_like(flat[path])})
    assert missed(case, case.call(without, **segment_of(case.io, "a"))) > 1e-3


@pytest.mark.parametrize(
    "change",
    [{"clamp_len": -1}, {"clamp_len": 7}, {"attn_type": "uni"}, {"attn_type": "uni", "same_length": True}],
)
def test_every_setting_of_distances_matters(golden, tmp_path, change):
    case = changed(golden / "models" / "xlnet_variants", tmp_path, change)
    assert missed(case, case.call(**segment_of(case.io, "a"))) > 1e-3


@pytest.mark.parametrize("change", [{"mem_len": 8}, {"reuse_len": 9}])
def test_every_setting_of_the_memory_matters(golden, tmp_path, change):
    case = changed(golden / "models" / "xlnet_variants", tmp_path, change)
    result = case.call(**segment_of(case.io, "a"))["mems"]
    assert np.shape(result) != case.io["out_seg1_mems"].shape or (
        np.abs(np.stack(result) - case.io["out_seg1_mems"]).max() > 1e-3
    )


@pytest.mark.parametrize(
    "change",
    [{"bi_data": True}, {"tie_word_embeddings": False}, {"attn_type": "other"}, {"ff_activation": "mish"}],
)
def test_what_is_not_supported_is_refused_by_name(golden, tmp_path, change):
    with pytest.raises(ValueError, match=next(iter(change))):
        changed(golden / "models" / "xlnet", tmp_path, change)


@pytest.mark.parametrize("change", [{"summary_type": "attn"}, {"summary_use_proj": False}])
def test_other_summaries_are_refused_by_name(golden, tmp_path, change):
    with pytest.raises(ValueError, match=next(iter(change))):
        changed(golden / "models" / "xlnet_seqcls", tmp_path, change)


def changed(directory, tmp_path, change) -> SimpleNamespace:
    """The same weights under another ``config.json``."""
    fields = json.loads((directory / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(fields))
    for name in ("model.safetensors", "io.npz"):
        (tmp_path / name).symlink_to(directory / name)
    return load(tmp_path)


def missed(case, result) -> float:
    return float(np.abs(result["logits"] - case.io["out_plain_logits"]).max())
