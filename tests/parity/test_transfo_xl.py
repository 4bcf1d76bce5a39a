"""Transformer-XL against transformers: every recorded output from the same weights, and what each trait is worth."""

import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from benchmarks.references.models import ModelFolder
from benchmarks.references.segments import check_memory, names_of
from t5x_like.model import parameters
from t5x_like.model.layers.relative_attention import encode_distances
from t5x_like.model.zoo.transfo_xl import TRANSFO_XL
from t5x_like.model.zoo.weights import write_weights
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.parity.fixtures import fixture
from tests.references import read_arrays

MODELS = ("transfo_xl", "transfo_xl_proj")
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


@pytest.fixture(scope="module", params=MODELS)
def case(request, golden):
    return load(golden / "models" / request.param)


@pytest.mark.parametrize("name", MODELS)
def test_segment_after_segment(golden, name):
    folder = ModelFolder(golden / "models" / name)
    assert names_of(folder.io, "in_input_ids_") == ["a", "b", "c"]
    check_memory(folder, atol=ATOL)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_a_segment(name):
    case = fixture(name)
    ids = case.io["in_input_ids_a"]
    case.check_gradients({"input_ids": ids, "labels": ids})


def test_ignored_labels_are_not_learned(case):
    ids = case.io["in_input_ids_a"]
    labels = ids.copy()
    labels[1, 3:6] = -100
    result = case.call(input_ids=ids, labels=labels)
    chosen = np.take_along_axis(np.asarray(result["logits"])[:, :-1], ids[:, 1:, None], axis=-1)[..., 0]
    np.testing.assert_allclose(result["loss"], -chosen[labels[:, 1:] != -100].mean(), rtol=1e-5)
    assert (np.asarray(result["losses"]).reshape(-1)[-3:] == 0).all()


def test_export_writes_the_names_and_bytes_that_were_read(case):
    wanted = load_file(case.directory / "model.safetensors")
    got = dict(write_weights(TRANSFO_XL.hugging_face_weights(case.config), case.params))
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert TRANSFO_XL.from_hugging_face(TRANSFO_XL.to_hugging_face(case.config)) == case.config


def test_the_sign_of_distances_matters(golden, monkeypatch):
    monkeypatch.setattr(
        "t5x_like.model.families.recurrent.encode_distances",
        lambda distances, *rest, **named: encode_distances(-distances, *rest, **named),
    )
    assert missed(load(golden / "models" / "transfo_xl")) > 1e-3


@pytest.mark.parametrize(
    "path",
    ["stack/layers/attention/content_bias", "stack/layers/attention/distance_bias", "softmax/biases/0"],
)
def test_every_part_of_the_scores_matters(golden, path):
    case = load(golden / "models" / "transfo_xl")
    flat = parameters.flatten(case.params)
    assert missed(case, parameters.unflatten(flat | {path: jnp.zeros_like(flat[path])})) > 1e-3


@pytest.mark.parametrize(
    "change", [{"same_length": True}, {"clamp_len": 4}, {"mem_len": 9}, {"layer_norm_epsilon": 1e-3}]
)
def test_every_setting_matters(golden, tmp_path, change):
    assert missed(changed(golden / "models" / "transfo_xl", tmp_path, change)) > 1e-3


def test_which_projections_are_tied_matters(golden, tmp_path):
    change = {"tie_projs": [False, True, False]}
    with pytest.raises(ValueError, match=r"crit\.out_projs\.2 \(36, 20\) is missing"):
        changed(golden / "models" / "transfo_xl_proj", tmp_path, change)


@pytest.mark.parametrize(
    "change", [{"attn_type": 1}, {"untie_r": False}, {"sample_softmax": 5}, {"cutoffs": [60, 20]}]
)
def test_what_is_not_supported_is_refused_by_name(golden, tmp_path, change):
    with pytest.raises(ValueError, match=next(iter(change))):
        changed(golden / "models" / "transfo_xl", tmp_path, change)


def changed(directory, tmp_path, change) -> SimpleNamespace:
    """The same weights under another ``config.json``."""
    fields = json.loads((directory / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(fields))
    for name in ("model.safetensors", "io.npz"):
        (tmp_path / name).symlink_to(directory / name)
    return load(tmp_path)


def missed(case, params=None) -> float:
    result = case.call(case.params if params is None else params, input_ids=case.io["in_input_ids_a"])
    return float(np.abs(result["logits"] - case.io["out_a_logprobs"]).max())
