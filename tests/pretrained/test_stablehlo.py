"""Exported forward passes compute what the models do, for any number of rows."""

import json
from dataclasses import replace

import jax.export
import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import write

LENGTH, DECODER_LENGTH = 10, 6


def inputs_of(signature, *, rows, num_token_types):
    rng = np.random.default_rng(rows)
    inputs = {
        name: rng.integers(3, 50, (rows, array["shape"][1]), dtype=np.int32)
        for name, array in signature["inputs"].items()
    }
    inputs["attention_mask"] = np.ones_like(inputs["input_ids"])
    inputs["attention_mask"][0, 7:] = 0
    inputs["input_ids"][0, 7:] = 1  # RoBERTa's padding
    if "token_type_ids" in inputs:
        inputs["token_type_ids"] %= num_token_types
    return inputs


def read(directory):
    forward = jax.export.deserialize(bytearray((directory / "forward.jax").read_bytes()))
    signature = json.loads((directory / "signature.json").read_text())
    return forward, load_file(directory / "model.safetensors"), signature


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert", marks=pytest.mark.slow),
        "roberta",
        "llama",
        pytest.param("mt5", marks=pytest.mark.slow),
    ],
)
def test_the_export_computes_what_the_model_does(tmp_path, name):
    config = TINY[name]
    pretrained = t5x_like.from_pretrained(write(config, tmp_path / "model"))
    t5x_like.export_stablehlo(
        pretrained, tmp_path / "out", length=LENGTH, decoder_length=DECODER_LENGTH if name == "mt5" else None
    )
    forward, weights, signature = read(tmp_path / "out")
    assert signature["inputs"]["input_ids"] == {"shape": ["batch", LENGTH], "dtype": "int32"}
    assert forward.platforms == ("cpu", "cuda", "tpu")
    assert (tmp_path / "out/forward.mlirbc").stat().st_size > 1000
    for rows in (2, 3):
        inputs = inputs_of(signature, rows=rows, num_token_types=1 if name == "roberta" else 2)
        expected = pretrained(**inputs)
        result = forward.call(weights, inputs)
        assert set(result) == set(signature["outputs"])
        for output, values in result.items():
            np.testing.assert_allclose(values, expected[output], rtol=2e-5, atol=2e-5, err_msg=output)


def test_the_number_of_rows_may_be_fixed(tmp_path):
    pretrained = t5x_like.from_pretrained(write(TINY["bert"], tmp_path / "model"))
    t5x_like.export_stablehlo(pretrained, tmp_path / "out", length=4, batch_size=2, platforms=("cpu",))
    forward, weights, signature = read(tmp_path / "out")
    assert signature["inputs"]["input_ids"]["shape"] == [2, 4]
    with pytest.raises(ValueError, match=r"shape|Shape"):
        forward.call(weights, {name: np.ones((3, 4), np.int32) for name in signature["inputs"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 17}, "length is 17; give a number from 1 to 16, the positions of this model"),
        ({"length": 0}, "length is 0"),
        ({"length": 4, "batch_size": 0}, "batch_size is 0; give a number from 1$"),
    ],
)
def test_sizes_that_the_model_cannot_have_are_refused(tmp_path, arguments, message):
    pretrained = t5x_like.from_pretrained(write(TINY["bert"], tmp_path / "model"))
    with pytest.raises(ValueError, match=message):
        t5x_like.export_stablehlo(pretrained, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="is not empty; nothing was written"):
        t5x_like.export_stablehlo(pretrained, tmp_path / "model", length=4)


def test_heads_that_read_places_of_the_ids_are_refused(tmp_path):
    directory = write(replace(TINY["mt5"], task="sequence_classification"), tmp_path / "model")
    pretrained = t5x_like.from_pretrained(directory)
    with pytest.raises(
        ValueError, match=r'reads up_to_end, made of the ids.*open the model with task="base"'
    ):
        t5x_like.export_stablehlo(pretrained, tmp_path / "out", length=4)
