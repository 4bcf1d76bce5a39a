"""Recipes as experiments, their settings by name, and small models."""

import dataclasses
import functools
import importlib
import re
from pathlib import Path
from typing import Any

from benchmarks.recipe_names import RECIPES, file_and_row
from t5x_like.gin_config.configuration import load
from t5x_like.training.experiment import Experiment, describe

CORPUS = {
    "TRAIN_FILES": "data/king_james/train.txt",
    "VALIDATION_FILES": "data/king_james/validation.txt",
    "TRAIN_TEXTS": "data/king_james/train.txt",
    "VALIDATION_TEXTS": "data/king_james/validation.txt",
    "VOCABULARY": "bytes",
    "INITIAL_CHECKPOINT": "run",
    "MODEL_DIR": "run",
    "TEACHER": "run",
    "CHARACTERS": {"en": 9.7e12, "yo": 1.05e8},
    "WORD_LIST": "data/king_james/phrases.list",
}
PAIRS = {
    f"{split.upper()}_FILES": f"data/debian_handbook/{split}.tsv" for split in ("train", "validation", "test")
}
_SMALL_SOFTMAX = {"vocab_size": 384, "cutoffs": (40, 70, 105)}  # bytes of English are in all clusters
_SMALL_SIZES = {
    "model_dim": 64,
    "hidden_dim": 128,
    "num_samples": 64,
    "embedding_dim": 32,
    "mlp_dim": 128,
    "head_dim": 16,
    "num_heads": 4,
    "encoder_mlp_dim": 128,
    "decoder_mlp_dim": 128,
    "num_encoder_heads": 4,
    "num_decoder_heads": 4,
    "num_kv_heads": 2,
    "num_layers": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
}


@functools.cache
def built(name: str, **macros: Any) -> Experiment:
    file, row = file_and_row(name)
    text = with_included(file)
    known = CORPUS | (PAIRS if "TEST_FILES = %gin.REQUIRED" in text else {}) | macros
    values = {key: value for key, value in known.items() if f"%{key}" in text}
    flags = [f"{key}={value!r}" for key, value in values.items()]
    return load([str(file)], [*row, *flags], roots=[Experiment]).value


def with_included(file: Path) -> str:
    """Return the text of a recipe and of all files that it or a row of its table includes."""
    text = file.read_text()
    lines = re.findall(r"^(?:include|    '\w+':).*", text, re.MULTILINE)
    included = re.findall(r"'(gin/[^']*\.gin)'", "\n".join(lines))
    return "\n".join([text, *(with_included(RECIPES.parents[1] / name) for name in included)])


def small(config: Any) -> Any:
    """Return a model's configuration with small widths and few layers, nested ones too."""
    changed: dict[str, Any] = _SMALL_SOFTMAX.copy() if getattr(config, "cutoffs", ()) else {}
    if hasattr(config, "softmax"):  # of ELMo, over a vocabulary with as many words as its samples
        changed["vocab_size"] = _SMALL_SOFTMAX["vocab_size"]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            changed[field.name] = small(value)
        elif isinstance(value, int) and field.name in _SMALL_SIZES:
            changed[field.name] = min(value, _SMALL_SIZES[field.name])
    if divisor := getattr(config, "generator_divisor", None):  # ELECTRA's generator has that part of each
        changed |= {"model_dim": 16 * divisor, "mlp_dim": 32 * divisor, "num_heads": divisor}
    return (
        dataclasses.replace(config, compute_dtype="float32", **changed)
        if hasattr(config, "compute_dtype")
        else dataclasses.replace(config, **changed)
    )


def described(experiment: Experiment) -> dict[str, Any]:
    names = describe(experiment)
    return {
        name.removeprefix("tasks.0.").replace("optimizer.learning_rate.", "learning_rate."): value
        for name, value in names.items()
    }


def config_class(file: Path) -> type:
    """Return the class that a file of ``gin/models`` gives sizes to."""
    text = file.read_text()
    module, name = re.findall(r"^(\w+)\.(\w+Config):", text, flags=re.MULTILINE)[0]
    package = re.findall(rf"^from (\S+) import {module}$", text, flags=re.MULTILINE)[0]
    return getattr(importlib.import_module(f"{package}.{module}"), name)
