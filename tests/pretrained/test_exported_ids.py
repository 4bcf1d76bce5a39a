"""Special ids in the ``config.json`` of an export: those of the run's tokenizer, and none above the vocabulary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.checkpoint import Checkpoint, mesh_or_one_device
from t5x_like.pretrained.exported_tokenizer import exported_ids
from t5x_like.pretrained.hugging_face import find_hugging_face
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.transformers_api import encoder_call, encoder_decoder_call
from t5x_like.pretrained.transformers_api.call import Context
from tests.model.zoo.tiny_models import TINY

PIECES = ["a", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{index}" for index in range(60))]
# transformers ties the widths of these models to one another.
MODELS = TINY | {name: replace(TINY[name], mlp_dim=128) for name in ("gpt", "glm_orig")}
POSITIONS = "embedding/positions/table"
ROLES = ("pad", "bos", "eos")


def is_exported(config: Any) -> bool:
    architecture = architecture_of(config)
    try:
        return bool(architecture.hugging_face_weights(config))
    except ValueError:
        return False


# Without a head that transformers' files have no place for, as a warning says.
pytestmark = pytest.mark.filterwarnings("ignore:written as BertForMaskedLM")
EXPORTED = sorted(name for name, config in MODELS.items() if is_exported(config))


@pytest.fixture(scope="module", params=["bytes", "pieces"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was trained here, without its weights."""
    folder = tmp_path_factory.mktemp(request.param)
    described = {"tasks.0.num_sentinels": 0, "train.mixture": "x"}
    if request.param == "pieces":
        (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    else:
        described["tasks.0.vocabulary"] = "bytes"
    write_json(folder / "model.json", {})
    write_json(folder / "config.json", described)
    return folder


def opened(directory: Path, config: Any) -> Checkpoint:
    """Return a checkpoint whose weights are zeros."""
    graphdef, shapes, _ = parameters.abstract(config)
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return Checkpoint(
        directory=str(directory),
        step=None,
        config=config,
        graphdef=graphdef,
        params=params,
        mesh=mesh_or_one_device(None),
        fields={},
        class_names=(),
    )


def written(checkpoint: Checkpoint, directory: Path) -> dict[str, Any]:
    """Return the ``config.json`` of an export, whose ids lie in the vocabulary."""
    ids = exported_ids(checkpoint)
    write_hugging_face(checkpoint.config, checkpoint.params, directory, special_ids=ids)
    fields = read_json(directory / "config.json", dict)
    for name, ids in fields.items():
        if name.endswith("_token_id"):
            assert all(token_id < fields["vocab_size"] for token_id in one_or_several(ids)), name
    return fields


@pytest.mark.parametrize("name", EXPORTED)
def test_a_run_is_exported_with_the_special_ids_of_its_tokenizer(
    name: str, run: Path, tmp_path: Path
) -> None:
    size = 259 if "bytes" in run.name else len(PIECES)
    checkpoint = opened(run, replace(MODELS[name], vocab_size=size))
    special = checkpoint.tokenizer.special
    if name == "mpnet" and special.pad != 1:
        with pytest.raises(ValueError, match="padding has id 0 can't be written"):
            written(checkpoint, tmp_path / "export")
        return
    fields = written(checkpoint, tmp_path / "export")
    expected = {role: getattr(special, role) for role in ROLES}
    if checkpoint.family == "decoder":
        expected["bos"] = checkpoint.prompt_encoder.prefix_ids[0]  # what the run's texts begin with
    assert {role: fields[f"{role}_token_id"] for role in ROLES} == expected
    if checkpoint.family == "encoder_decoder":
        assert fields["decoder_start_token_id"] == checkpoint.special_ids.decoder_start
    if "cls_token_id" in fields and special.cls is not None:
        assert (fields["cls_token_id"], fields["sep_token_id"]) == (special.cls, special.sep)


@pytest.mark.parametrize("name", EXPORTED)
def test_a_model_without_a_tokenizer_is_exported_without_ids_above_its_vocabulary(
    name: str, tmp_path: Path
) -> None:
    written(opened(tmp_path / "nowhere", MODELS[name]), tmp_path / "export")


def test_a_head_that_reads_the_input_again_keeps_its_first_id(run: Path, tmp_path: Path) -> None:
    size = 259 if "bytes" in run.name else len(PIECES)
    config = replace(TINY["bart"], vocab_size=size, task="sequence_classification")
    checkpoint = opened(run, config)
    assert written(checkpoint, tmp_path / "export")["decoder_start_token_id"] == 2
    special = checkpoint.special_ids
    ids = {"input_ids": np.array([[5, special.eos]])}
    read = encoder_decoder_call.read(ids, Context(config, special))["decoder_input_ids"]
    assert read.tolist() == [[2, 5]]  # as in training, where the decoder reads the input after this id


def test_positions_follow_the_padding_of_the_runs_tokenizer(run: Path, tmp_path: Path) -> None:
    size = 259 if "bytes" in run.name else len(PIECES)
    for usual in (1, 4):
        checkpoint = opened(run, replace(MODELS["roberta"], vocab_size=size, pad_token_id=usual))
        flat = parameters.flatten(checkpoint.params)
        rows = np.random.default_rng(0).normal(size=flat[POSITIONS].shape).astype(np.float32)
        params = parameters.unflatten({**flat, POSITIONS: rows})
        written(replace(checkpoint, params=params), tmp_path / str(usual))
        read = find_hugging_face(tmp_path / str(usual))
        pad = checkpoint.tokenizer.special.pad
        assert pad is not None
        assert read.config == replace(checkpoint.config, pad_token_id=pad)
        result = np.asarray(parameters.flatten(read.read())[POSITIONS])
        np.testing.assert_array_equal(result[pad + 1 :], rows[usual + 1 :])


def test_a_run_counts_positions_by_the_padding_of_its_tokenizer(run: Path) -> None:
    size = 259 if "bytes" in run.name else len(PIECES)
    config = replace(MODELS["roberta"], vocab_size=size, pad_token_id=4)
    checkpoint = opened(run, config)
    pad = checkpoint.special_ids.pad
    ids = np.array([[5, 4, 6, pad]])
    inputs = encoder_call.read({"input_ids": ids}, Context(config, checkpoint.special_ids))
    assert inputs["position_ids"].tolist() == [[0, 1, 2, -1]]
