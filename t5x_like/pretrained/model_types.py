"""Which module of ``model/zoo/`` reads which ``model_type`` of a ``config.json``."""

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

MODULES = {
    "albert": "albert",
    "bart": "bart",
    "bert": "bert",
    "distilbert": "distilbert",
    "electra": "electra",
    "ernie": "ernie",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "glm": "glm4",
    "glm_orig": "glm_orig",
    "gpt2": "gpt2",
    "gpt_neo": "gpt_neo",
    "gpt_neox": "gpt_neox",
    "llama": "llama",
    "longt5": "longt5",
    "mistral": "mistral",
    "modernbert": "modernbert",
    "mt5": "t5",
    "openai-gpt": "openai_gpt",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "roberta": "roberta",
    "t5": "t5",
    "transfo-xl": "transfo_xl",
    "umt5": "t5",
    "xlm-roberta": "roberta",
    "xlnet": "xlnet",
}


def zoo_of(theirs: Mapping[str, Any], where: str) -> ModuleType:
    """The module of ``zoo/`` for the ``model_type`` of a ``config.json``.

    Raises:
      ValueError: there is none.
    """
    model_type = theirs.get("model_type")
    if model_type not in MODULES:
        raise ValueError(f"{where}/config.json: model_type {model_type!r} is not one of {', '.join(MODULES)}")
    return importlib.import_module(f"t5x_like.model.zoo.{MODULES[model_type]}")
