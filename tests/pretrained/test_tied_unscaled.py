"""T5s whose output layer is the table of the embeddings, unscaled, in all forms that their files have."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.weight_sources import read_config
from tests.references import FIXTURES

MODELS = FIXTURES / "models"
NAMES = ("t5_tied_unscaled", "mt5_tied_unscaled", "longt5_tied_unscaled")


def with_fields(name: str, directory: Path, **changed: Any) -> Path:
    """A model with other fields in its ``config.json``; ``None`` takes a field out."""
    shutil.copytree(MODELS / name, directory)
    fields = json.loads((directory / "config.json").read_text()) | changed
    fields = {name: value for name, value in fields.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(fields))
    return directory


def recorded(name: str) -> dict[str, np.ndarray]:
    with np.load(MODELS / name / "io.npz") as opened:
        return dict(opened)


def worst_difference(directory: Path, name: str, factor: float = 1.0) -> float:
    io = recorded(name)
    inputs: dict[str, Any] = {key[3:]: io[key] for key in io if key.startswith("in_") and "labels" not in key}
    logits = t5x_like.from_pretrained(directory)(**inputs).logits
    return float(np.abs(logits - factor * io["out_logits"]).max())


@pytest.mark.parametrize("name", NAMES)
def test_greedy_ids_are_those_of_transformers(name: str) -> None:
    io = recorded(name)
    pretrained = t5x_like.from_pretrained(MODELS / name)
    never_written = min(set(range(pretrained.config.vocab_size)) - set(io["gen_ids"].flat))
    written = pretrained.generate(
        io["in_input_ids"],
        io["in_attention_mask"],
        max_new_tokens=8,
        eos_token_id=never_written,
    )
    assert np.asarray(written).tolist() == io["gen_ids"].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_false_and_no_output_layer_means_the_table_too(name: str, tmp_path: Path) -> None:
    """Google's LongT5 says so."""
    changed = {"tie_word_embeddings": False, "scale_decoder_outputs": None, "transformers_version": "4.40.2"}
    directory = with_fields(name, tmp_path / "model", **changed)
    assert worst_difference(directory, name) < 3e-5
    config: Any = read_config(directory)
    assert (config.tie_word_embeddings, config.scales_decoder_outputs) == (True, False)


@pytest.mark.parametrize("name", ["t5_v11", "mt5", "umt5", "longt5_tglobal"])
def test_an_output_layer_of_its_own_is_read_from_files_that_say_tied(name: str, tmp_path: Path) -> None:
    """transformers 5 writes ``tie_word_embeddings = true`` for all of them, and no scale for mT5."""
    scale = None if name == "mt5" else False
    changed = {"tie_word_embeddings": True, "scale_decoder_outputs": scale, "transformers_version": "5.24.0"}
    directory = with_fields(name, tmp_path / "model", **changed)
    assert worst_difference(directory, name) < 3e-5
    assert read_config(directory) == read_config(MODELS / name)


@pytest.mark.parametrize("name", NAMES)
def test_an_export_says_unscaled_to_every_version(name: str, tmp_path: Path) -> None:
    t5x_like.export_hugging_face(t5x_like.from_pretrained(MODELS / name), tmp_path / "out")
    fields = json.loads((tmp_path / "out/config.json").read_text())
    assert (fields["tie_word_embeddings"], fields["scale_decoder_outputs"]) == (False, False)
    assert fields["model_type"] == name.partition("_")[0]
    assert worst_difference(tmp_path / "out", name) < 3e-5


def test_a_tied_mt5_of_transformers_4_is_scaled_and_written_as_a_t5(tmp_path: Path) -> None:
    """transformers 5 would not scale it as an mT5."""
    name = "mt5_tied_unscaled"
    directory = with_fields(name, tmp_path / "model", transformers_version="4.57.6")
    assert worst_difference(directory, name, factor=32**-0.5) < 3e-5
    t5x_like.export_hugging_face(t5x_like.from_pretrained(directory), tmp_path / "out")
    fields = json.loads((tmp_path / "out/config.json").read_text())
    assert (fields["model_type"], fields["architectures"]) == ("t5", ["T5ForConditionalGeneration"])
    assert (fields["tie_word_embeddings"], fields["scale_decoder_outputs"]) == (True, True)
    assert worst_difference(tmp_path / "out", name, factor=32**-0.5) < 3e-5
    with pytest.raises(ValueError, match="scale_decoder_outputs is True; only False"):
        t5x_like.from_pretrained(with_fields(name, tmp_path / "wrong", scale_decoder_outputs=True))


def test_fields_that_say_the_same_are_equal() -> None:
    sizes: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 12, "num_heads": 2, "head_dim": 4}
    sizes |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    for tied in (True, False):
        said = T5Config(**sizes, tie_word_embeddings=tied, scale_decoder_outputs=tied)
        assert said == T5Config(**sizes, tie_word_embeddings=tied)
    tied_unscaled = T5Config(**sizes, tie_word_embeddings=True, scale_decoder_outputs=False)
    assert tied_unscaled.lm_head.scale == 1.0
