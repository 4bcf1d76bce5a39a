"""Runs that begin with a pretrained decoder: T5Gemma's cross-attention trains first, and an encoder from LLaMA."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.eurobert import EuroBertConfig
from t5x_like.model.zoo.gemma2 import Gemma2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5gemma import T5GemmaConfig
from t5x_like.model.zoo.t5gemma_stack import T5GemmaStackConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.training.start.pretrained_decoder import PretrainedDecoder
from t5x_like.training.train import train
from tests.integration import tiny_run

SIZES = {"model_dim": 32, "mlp_dim": 64, "num_heads": 2, "num_kv_heads": 1, "num_layers": 2, "head_dim": 16}
DECODER = Gemma2Config(vocab_size=384, **SIZES)
MODEL = T5GemmaConfig(
    vocab_size=384,
    encoder=T5GemmaStackConfig(**SIZES),
    decoder=T5GemmaStackConfig(**SIZES),
    decoder_start_token_id=0,
)


@pytest.fixture(scope="module")
def folder(directory):
    """The decoder and the runs, next to the data that all modules share."""
    path = directory / "from_decoder"
    path.mkdir()
    write_hugging_face(DECODER, parameters.split(DECODER.build(jax.random.key(1)))[1], path / "gemma")
    return path


def experiment(folder, name, steps, **changes):
    settings = {
        "model": MODEL,
        "start": PretrainedDecoder(decoder=str(folder / "gemma")),
        "trainable": ("decoder/layers/*/cross_attention*",),
        "evaluations": (),
        "validations": (),
    }
    return tiny_run.experiment(
        folder.parent, model_dir=str(folder / name), total_steps=steps, **settings | changes
    )


@pytest.fixture(scope="module")
def run(folder):
    train(experiment(folder, "first", 3))
    return folder / "first"


def weights(run):
    return {path: np.asarray(each) for path, each in parameters.flatten(open_checkpoint(run).params).items()}


def test_cross_attention_trains_while_the_rest_stays_the_decoder(folder, run):
    own, decoder = weights(run), weights(folder / "gemma")
    for path, array in own.items():
        if "cross_attention" in path:
            read = decoder[path.replace("cross_attention", "self_attention")]
            assert not np.array_equal(array, read) or path.endswith("scale")
        else:
            stack = path.replace("encoder/", "decoder/", 1) if path.startswith("encoder/") else path
            np.testing.assert_array_equal(array, decoder[stack.replace("decoder_embedding", "embedding")])
    assert read_json(run / "frozen.json")["inputs"] == {
        "is": "t5x_like.training.start.pretrained_decoder:RecordedDecoder",
        "decoder": str(folder / "gemma"),
        "decoder_step": None,
        "encoder": None,
        "encoder_step": None,
        "cross_attention": "self_attention",
    }


def test_an_encoder_begins_with_the_layers_of_a_decoder_and_learns_masked_tokens(folder):
    """The decoder lacks rows for sentinels, one of which is the mask."""
    sizes = {"model_dim": 32, "mlp_dim": 64, "num_heads": 2, "num_layers": 2, "norm_epsilon": 1e-5}
    llama = LlamaConfig(vocab_size=259, **sizes)
    params = parameters.split(llama.build(jax.random.key(2)))[1]
    write_hugging_face(llama, params, folder / "llama")
    run = tiny_run.experiment(
        folder.parent,
        model_dir=str(folder / "encoder"),
        total_steps=2,
        model=EuroBertConfig(vocab_size=384, **sizes),
        start=PretrainedDecoder(decoder=str(folder / "llama")),
        trainable=("heads/*",),
        tasks=(
            PretrainingTask(
                name="masked_counting",
                vocabulary="bytes",
                files={"train": str(folder.parent / "corpus.txt")},
                objective=MaskedLM(predicted_from="previous"),
            ),
        ),
        train=LoaderConfig(
            mixture="masked_counting", batch_size=8, inputs_length=64, targets_length=64, seed=3
        ),
        evaluations=(),
        validations=(),
    )
    train(run)
    own, decoder = weights(folder / "encoder"), weights(folder / "llama")
    layers = [path for path in own if path.startswith("encoder/")]
    assert len(layers) > 8
    for path in layers:
        np.testing.assert_array_equal(own[path], decoder[path.replace("encoder/", "decoder/", 1)])
    assert not np.array_equal(
        own["heads/lm_head/projection/kernel"], decoder["heads/lm_head/projection/kernel"]
    )


def test_a_decoder_that_has_gone_is_named(folder, run):
    shutil.copytree(run, folder / "moved")
    record = read_json(folder / "moved/frozen.json")
    record["inputs"]["decoder"] = str(folder / "nowhere")
    (folder / "moved/frozen.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"nowhere, which can't be opened.*the path of a copy as decoder in"):
        open_checkpoint(folder / "moved")


@pytest.mark.parametrize(
    ("changes", "start", "message"),
    [
        (
            {"encoder": T5GemmaStackConfig(**SIZES | {"mlp_dim": 32})},
            {},
            "mlp_dim is 64 there and 32 in the encoder",
        ),
        ({}, {"encoder_step": 3}, "encoder_step=3 has no effect: encoder names no other decoder"),
        ({}, {"decoder": ""}, "decoder is empty; name a run or a Hugging Face directory of a decoder"),
    ],
)
def test_a_decoder_that_does_not_fit_stops_a_run_before_it_begins(folder, changes, start, message):
    with pytest.raises(ValueError, match=message):
        train(
            experiment(
                folder,
                "never",
                3,
                model=replace(MODEL, **changes),
                start=PretrainedDecoder(**{"decoder": str(folder / "gemma"), **start}),
            )
        )
    assert not (folder / "never").exists()
