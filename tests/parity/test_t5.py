"""T5 against transformers: scores, losses, gradients and generated ids from the same weights."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from t5x_like.batch import Batch
from t5x_like.checkpoints.arguments import shift_right
from t5x_like.checkpoints.pretrained import _mean_cross_entropy
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import hugging_face_weights
from t5x_like.model.zoo.t5x import t5x_weights
from t5x_like.model.zoo.weights import read_weights, source_of, write_weights

WHOLE = ("t5_v10", "t5_v11", "mt5")
ALL = (*WHOLE, "eps_t5", "variants/t5_v11_f16")


@pytest.fixture(scope="module", params=ALL)
def case(request, golden):
    """A directory's model beside what transformers computed."""
    directory = golden / "models" / request.param
    return SimpleNamespace(
        name=request.param,
        directory=directory,
        pretrained=t5x_like.from_pretrained(directory),
        io=np.load(directory / "io.npz"),
        meta=json.loads((directory / "meta.json").read_text()),
    )


def test_scores_hidden_states_and_loss(case):
    io = case.io
    asked = {"input_ids": io["in_input_ids"], "attention_mask": io["in_attention_mask"]}
    if "in_decoder_input_ids" in io.files:
        asked["decoder_input_ids"] = io["in_decoder_input_ids"]
    if "in_labels" in io.files:
        asked["labels"] = io["in_labels"]
    outputs = case.pretrained(**asked, output_hidden_states=True)
    np.testing.assert_allclose(outputs.logits, io["out_logits"], atol=2e-5)
    real = io["in_attention_mask"] == 1
    if "out_loss" in io.files:
        np.testing.assert_allclose(outputs.loss, io["out_loss"], rtol=1e-5)
    for name in ("encoder_last_hidden_state", "decoder_last_hidden_state"):
        if f"out_{name}" in io.files:
            rows = real if name.startswith("encoder") else ...
            np.testing.assert_allclose(outputs[name][rows], io[f"out_{name}"][rows], atol=5e-5)
    for name in ("encoder_hidden_states", "decoder_hidden_states"):
        if f"out_{name}" in io.files:
            stacked = np.stack(outputs[name])
            rows = (slice(None), real) if name.startswith("encoder") else ...
            np.testing.assert_allclose(stacked[rows], io[f"out_{name}"][rows], atol=5e-5)


def test_gradients(case):
    if "grad_global_norm" not in case.io.files:
        pytest.skip(f"{case.name} records no gradients")
    graphdef, params = parameters.split(case.pretrained.model)
    batch = Batch(
        encoder_input_tokens=case.io["in_input_ids"],
        encoder_segment_ids=case.io["in_attention_mask"],
        decoder_input_tokens=shift_right(case.io["in_labels"], start=0, pad=0),
    )

    @jax.jit
    @jax.grad
    def gradient(params, batch):
        logits = parameters.merge(graphdef, params)(batch).logits
        return _mean_cross_entropy(logits, jax.numpy.asarray(case.io["in_labels"]))

    gradients = gradient(params, batch)
    norm = np.sqrt(sum(float(np.sum(np.square(np.float64(g)))) for g in jax.tree.leaves(gradients)))
    np.testing.assert_allclose(norm, case.io["grad_global_norm"], rtol=1e-5)
    theirs = dict(write_weights(hugging_face_weights(case.pretrained.config), gradients))
    for name in case.meta["grads"]:
        np.testing.assert_allclose(theirs[name], case.io[f"grad__{name}"], atol=1e-5 * norm)


def test_generated_ids(case):
    if "gen_prompt_ids" not in case.io.files:
        pytest.skip(f"{case.name} records no generation")
    recheck = case.meta.get("recheck_with_5.23.0") or {}
    newer = recheck.get("v5_result") or {}
    prompts = case.io["gen_prompt_ids"]
    mask = (prompts != -1).astype(np.int32)
    for run, options in case.meta["generation"].items():
        options = {name: value for name, value in options.items() if name != "pad_token_id"}
        answers = case.pretrained.generate(prompts * mask, mask, **options, return_dict_in_generate=True)
        got = [without_padding(row, options["eos_token_id"]) for row in answers.sequences]
        wanted = [row[row != -1].tolist() for row in case.io[f"gen_{run}"]]
        scores = case.io.get(f"gen_{run}_scores")
        if got != wanted and f"gen_{run}" in newer:
            wanted = [[token for token in row if token != -1] for row in newer[f"gen_{run}"]]
            scores = newer[f"gen_{run}_scores"]
        assert got == wanted, run
        if scores is not None:
            np.testing.assert_allclose(answers.sequences_scores, scores, rtol=1e-5, err_msg=run)


def test_a_padded_batch_generates_as_its_rows_alone(case):
    if "gen_batch_input_ids" not in case.io.files:
        pytest.skip(f"{case.name} records no batched generation")
    ids, mask = case.io["gen_batch_input_ids"], case.io["gen_batch_attention_mask"]
    for run, beams in (("gen_batch_greedy", 1), ("gen_batch_beam4", 4)):
        eos = case.meta["eos_picked"]
        got = case.pretrained.generate(ids, mask, max_new_tokens=12, num_beams=beams, eos_token_id=eos)
        assert [without_padding(row, eos) for row in got] == [row[row != -1].tolist() for row in case.io[run]]


def without_padding(row: np.ndarray, eos: int) -> list[int]:
    """The start token and what was written, up to the first end of sequence."""
    tokens = row.tolist()
    end = tokens.index(eos, 1) + 1 if eos in tokens[1:] else len(tokens)
    return tokens[:end]


@pytest.mark.parametrize("max_shard_bytes", [10**9, 40_000])
def test_export_writes_the_names_and_bytes_that_were_read(case, tmp_path, max_shard_bytes):
    if case.name.startswith("variants"):
        pytest.skip("stored in half precision, written in float32")
    t5x_like.export_hugging_face(case.pretrained, tmp_path / "out", max_shard_bytes=max_shard_bytes)
    wanted = load_file(case.directory / "model.safetensors")
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert (len(files) > 1) == (max_shard_bytes < 10**9)
    got = {name: array for file in files for name, array in load_file(file).items()}
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    again = t5x_like.from_pretrained(tmp_path / "out")
    assert again.config == case.pretrained.config


def test_pickled_weights_are_refused(golden):
    with pytest.raises(ValueError, match="pickled"):
        t5x_like.from_pretrained(golden / "models" / "variants" / "t5_v10_bin")


def test_t5x_names_cover_every_weight_once(golden):
    reference = np.load(golden / "training" / "t5x_small.npz")
    theirs = {
        name.removeprefix("init/"): reference[name] for name in reference.files if name.startswith("init/")
    }
    from tests.parity.test_training_t5x import MODEL

    table = t5x_weights(MODEL)
    shapes = parameters.abstract(MODEL)[1]
    ours = read_weights(table, shapes, source_of(theirs, "T5X"), place=lambda _, array: array)
    back = dict(write_weights(table, ours))
    assert back.keys() == theirs.keys()
    assert all(np.array_equal(back[name], theirs[name]) for name in theirs)
