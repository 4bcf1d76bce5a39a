"""T5 beside its common parity tests: exported in shards, and under T5X's names."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import t5x_weights
from t5x_like.model.zoo.weights import read_weights, source_of, write_weights
from tests.parity.fixtures import fixture
from tests.references import read_arrays


@pytest.mark.parametrize("name", ["t5_v10", "t5_v11", "mt5"])
def test_shards_hold_the_names_and_bytes_that_were_read(golden, tmp_path, name):
    case = fixture(name)
    t5x_like.export_hugging_face(case.pretrained, tmp_path / "out", max_shard_bytes=40_000)
    wanted = load_file(case.directory / "model.safetensors")
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert len(files) > 1
    got = {name: array for file in files for name, array in load_file(file).items()}
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert t5x_like.from_pretrained(tmp_path / "out").config == case.pretrained.config


@pytest.mark.slow
def test_a_padded_batch_generates_as_its_rows_alone(golden):
    case = fixture("t5_v11")
    prompts, eos = case.io["gen_prompt_ids"], case.meta["eos_picked"]
    mask = (prompts != -1).astype(np.int32)
    for beams in (1, 4):
        options = {"max_new_tokens": 12, "num_beams": beams, "eos_token_id": eos}
        together = case.pretrained.generate(prompts * mask, mask, **options)
        for row, prompt in zip(together, prompts, strict=True):
            own = prompt[prompt != -1][None]
            alone = case.pretrained.generate(own, np.ones_like(own), **options)[0]
            np.testing.assert_array_equal(row[: len(alone)], alone)


def test_t5x_names_cover_every_weight_once(golden):
    reference = read_arrays(golden / "training" / "t5x_small.npz")
    expected = {name.removeprefix("init/"): reference[name] for name in reference if name.startswith("init/")}
    from tests.parity.test_training_t5x import MODEL

    table = t5x_weights(MODEL)
    shapes = parameters.abstract(MODEL)[1]
    actual = read_weights(table, shapes, source_of(expected, "T5X"), place=lambda _, array: np.asarray(array))
    back = dict(write_weights(table, actual))
    assert back.keys() == expected.keys()
    assert all(np.array_equal(back[name], expected[name]) for name in expected)
