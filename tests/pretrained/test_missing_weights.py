"""Weights that a checkpoint lacks: an error wherever it is used, and drawn only where training adds a head."""

import ast
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.conversion import import_checkpoint
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_initial, open_unread
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.tasks.task_set import NO_LABELS
from t5x_like.training.companions import open_companions
from t5x_like.training.methods.distillation import Distillation
from tests.model.zoo.tiny_models import TINY
from tests.references import FIXTURES
from tests.slow_cases import slow_except

BERT: Any = replace(TINY["bert"], task="masked_lm")
GPT2: Any = replace(TINY["gpt2"], tie_word_embeddings=False)
ROBERTA: Any = replace(TINY["roberta"], task="masked_lm")
TAGGER: Any = replace(BERT, task="token_classification", num_labels=5)


def write(
    config: Any, directory: Path, *, without: tuple[str, ...] = (), added: dict[str, Any] | None = None
) -> Path:
    """A published model whose file lacks the tensors whose names begin so, and has others."""
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], directory)
    path = directory / "model.safetensors"
    tensors = {
        name: array for name, array in load_file(path).items() if not name.startswith(("\0", *without))
    }
    save_file(tensors | (added or {}), path, metadata={"format": "pt"})
    return directory


def as_teacher(directory: Path) -> Any:
    distillation = Distillation(teacher=str(directory))
    mesh = MeshConfig(data=1).build(jax.devices()[:1])
    sources, home = distillation.companions(BERT), str(directory.parent / "student")
    return open_companions(sources, BERT, mesh=mesh, labels=NO_LABELS, model_dir=home)["teacher"]


def open_and_close(directory: Path) -> None:
    with open_unread(directory):
        pass


USES: dict[str, Callable[[Path], Any]] = {
    "from_pretrained": t5x_like.from_pretrained,
    "open_checkpoint": open_checkpoint,
    "convert": lambda directory: import_checkpoint(directory, directory.parent / "run"),
    "average, GGUF and other files": open_and_close,
    "teacher": as_teacher,
    "training of the same head": lambda directory: open_initial(
        directory, config=read_config(directory), mesh=None
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("config", "missing"),
    [
        (BERT, "cls.predictions.transform.dense.weight"),
        (BERT, "bert.encoder.layer.0.output.dense.bias"),
        (GPT2, "lm_head.weight"),
        (TAGGER, "classifier.bias"),
    ],
    ids=["part of a head", "part of the body", "output layer", "part of a classifier"],
)
def test_a_missing_tensor_is_named(use: str, config: Any, missing: str, tmp_path: Path) -> None:
    directory = write(config, tmp_path / "model", without=(missing,))
    with pytest.raises(ValueError, match=missing.replace(".", r"\.")):
        USES[use](directory)
    assert not (tmp_path / "run" / "model.json").exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("config", "head"),
    [(BERT, "cls."), (GPT2, "lm_head."), (TAGGER, "classifier.")],
    ids=["BERT", "GPT-2", "tags"],
)
def test_a_whole_missing_head_is_named(use: str, config: Any, head: str, tmp_path: Path) -> None:
    directory = write(config, tmp_path / "model", without=(head,))
    with pytest.raises(ValueError, match=rf"lacks {head}.*they belong to the model that its files describe"):
        USES[use](directory)


@pytest.mark.parametrize("is_run", [False, True])
def test_only_training_draws_the_head_of_a_new_task(is_run: bool, tmp_path: Path) -> None:
    directory = write(BERT, tmp_path / "model")
    if is_run:
        import_checkpoint(directory, tmp_path / "run")
        directory = tmp_path / "run"
    checkpoint, notes = open_initial(directory, config=TAGGER, mesh=None)
    assert "heads/scores/token_classification/projection" in notes[0]
    assert "freshly drawn" in notes[0]
    assert checkpoint.config.num_labels == 5
    with pytest.raises(
        ValueError, match=r"which a model for token classification needs: .* train the head first"
    ):
        t5x_like.from_pretrained(directory, task="token_classification", num_labels=5)


def test_no_other_code_asks_for_drawn_heads() -> None:
    """``open_initial`` is what training opens, and ``config validate`` checks it without training."""
    (package,) = t5x_like.__path__
    askers = set()
    for path in Path(package).rglob("*.py"):
        if "draw_heads" not in (text := path.read_text()):
            continue
        keywords = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword)]
        if any(word.arg == "draw_heads" and isinstance(word.value, ast.Constant) for word in keywords):
            askers.add(path.relative_to(package).as_posix())
    assert askers == {"pretrained/open_checkpoint.py", "training/start/pretrained_weights.py"}


def test_a_head_of_another_number_of_classes_is_another_task(tmp_path: Path) -> None:
    directory = write(TAGGER, tmp_path / "model")
    _, notes = open_initial(directory, config=replace(TAGGER, num_labels=3), mesh=None)
    assert "freshly drawn" in notes[0]
    with pytest.raises(
        ValueError, match=r"lacks classifier\.weight, classifier\.bias, or has another shape of it"
    ):
        t5x_like.from_pretrained(directory, num_labels=3)


@pytest.mark.parametrize("name", ["bert", pytest.param("albert", marks=pytest.mark.slow)])
def test_an_encoder_without_pooler_has_none(name: str, tmp_path: Path) -> None:
    config = replace(TINY[name], task="base")
    whole = t5x_like.from_pretrained(write(config, tmp_path / "whole"))
    bare = t5x_like.from_pretrained(write(config, tmp_path / "bare", without=("pooler.",)))
    ids = np.array([[5, 6, 7]])
    assert "pooler_output" in whole(ids)
    assert "pooler_output" not in bare(ids)
    np.testing.assert_array_equal(bare(ids).last_hidden_state, whole(ids).last_hidden_state)
    t5x_like.export_hugging_face(bare, tmp_path / "again")
    names = [load_file(tmp_path / each / "model.safetensors").keys() for each in ("bare", "again")]
    assert names[0] == names[1]
    assert t5x_like.from_pretrained(tmp_path / "again").config == bare.config
    classifier = replace(config, task="sequence_classification")
    _, notes = open_initial(tmp_path / "bare", config=classifier, mesh=None)
    assert "freshly drawn" in notes[0]


def test_the_body_of_a_language_model_has_no_pooler(tmp_path: Path) -> None:
    directory = write(ROBERTA, tmp_path / "model")
    assert t5x_like.from_pretrained(directory, task="base").config.task == "encoding"
    electra: Any = replace(TINY["electra_discriminator"], task="base")  # which never has one
    assert read_config(write(electra, tmp_path / "electra")) == electra


def test_one_weight_under_two_spellings_is_refused(tmp_path: Path) -> None:
    name = "embeddings.word_embeddings.weight"
    directory = write(
        BERT, tmp_path / "model", added={name: np.zeros((BERT.vocab_size, BERT.model_dim), np.float32)}
    )
    with pytest.raises(ValueError, match=rf"{name} .* is not known"):
        t5x_like.from_pretrained(directory)


def test_left_over_and_wrong_tensors_are_named(tmp_path: Path) -> None:
    deeper = "bert.encoder.layer.7.output.dense.bias"
    directory = write(BERT, tmp_path / "deeper", added={deeper: np.zeros(BERT.model_dim, np.float32)})
    with pytest.raises(ValueError, match=rf"{deeper} .* is not known"):
        t5x_like.from_pretrained(directory)
    narrow = "bert.encoder.layer.0.output.dense.bias"
    directory = write(BERT, tmp_path / "narrow", added={narrow: np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=rf"{narrow} has shape \(3,\), the configuration says"):
        t5x_like.from_pretrained(directory)


# T5s without an output layer are tied ones.
FIXTURES_OF_TYPES = sorted(
    path.parent.relative_to(FIXTURES).as_posix()
    for path in (*FIXTURES.glob("models/*/model.safetensors"), *FIXTURES.glob("speech/*/model.safetensors"))
)


@pytest.mark.parametrize("name", slow_except(FIXTURES_OF_TYPES, ("models/deberta_v2_seqcls", "models/mpnet")))
def test_no_tensor_of_a_published_model_can_be_missing(name: str, tmp_path: Path) -> None:
    """One layer's tensors stand for those of all layers."""
    shutil.copytree(FIXTURES / name, directory := tmp_path / "model")
    tensors, kinds = load_file(directory / "model.safetensors"), {}
    for tensor in tensors:
        kinds.setdefault(re.sub(r"\.\d+\.", ".0.", tensor), tensor)
    if json.loads((directory / "config.json").read_text())["model_type"] in ("t5", "mt5", "umt5", "longt5"):
        kinds.pop("lm_head.weight", None)
    for missing in kinds.values():
        rest = {key: array for key, array in tensors.items() if key != missing}
        save_file(rest, directory / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ValueError, match=re.escape(missing)):
            t5x_like.from_pretrained(directory)
