"""Registry of architectures: by configuration, by name in a ``model.json``, and by Hugging Face's ``model_type``."""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from t5x_like.configuration_names import has_own_name, is_of_package, name_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.albert import ALBERT
from t5x_like.model.zoo.architecture import Architecture, unpublished
from t5x_like.model.zoo.bart import BART
from t5x_like.model.zoo.bert import BERT
from t5x_like.model.zoo.deberta_v2 import DEBERTA_V2
from t5x_like.model.zoo.deberta_v3_pretraining import DEBERTA_V3_PRETRAINING
from t5x_like.model.zoo.deepseek_v3 import DEEPSEEK_V3
from t5x_like.model.zoo.distilbert import DISTILBERT
from t5x_like.model.zoo.electra import ELECTRA
from t5x_like.model.zoo.electra_pretraining import ELECTRA_PRETRAINING
from t5x_like.model.zoo.entity_bert import ENTITY_BERT
from t5x_like.model.zoo.ernie import ERNIE
from t5x_like.model.zoo.eurobert import EUROBERT
from t5x_like.model.zoo.gemma import GEMMA
from t5x_like.model.zoo.gemma2 import GEMMA2
from t5x_like.model.zoo.gemma3 import GEMMA3
from t5x_like.model.zoo.glm4 import GLM4
from t5x_like.model.zoo.glm_orig import GLM_ORIG
from t5x_like.model.zoo.gpt2 import GPT2
from t5x_like.model.zoo.gpt3 import GPT3
from t5x_like.model.zoo.gpt_neo import GPT_NEO
from t5x_like.model.zoo.gpt_neox import GPT_NEOX
from t5x_like.model.zoo.llama import LLAMA
from t5x_like.model.zoo.longt5 import LONGT5
from t5x_like.model.zoo.m2m_100 import M2M_100
from t5x_like.model.zoo.mbart import MBART
from t5x_like.model.zoo.mistral import MISTRAL
from t5x_like.model.zoo.mixtral import MIXTRAL
from t5x_like.model.zoo.modernbert import MODERNBERT
from t5x_like.model.zoo.modernbert_decoder import MODERNBERT_DECODER
from t5x_like.model.zoo.mpnet import MPNET
from t5x_like.model.zoo.neobert import NEOBERT
from t5x_like.model.zoo.nomic_bert import NOMIC_BERT
from t5x_like.model.zoo.olmo2 import OLMO2
from t5x_like.model.zoo.olmo3 import OLMO3
from t5x_like.model.zoo.olmoe import OLMOE
from t5x_like.model.zoo.openai_gpt import OPENAI_GPT
from t5x_like.model.zoo.pegasus import PEGASUS
from t5x_like.model.zoo.qwen2 import QWEN2
from t5x_like.model.zoo.qwen3 import QWEN3
from t5x_like.model.zoo.qwen3_moe import QWEN3_MOE
from t5x_like.model.zoo.roberta import ROBERTA
from t5x_like.model.zoo.smollm3 import SMOLLM3
from t5x_like.model.zoo.spanbert import SPANBERT
from t5x_like.model.zoo.speecht5 import SPEECHT5
from t5x_like.model.zoo.switch_transformer import SWITCH_TRANSFORMER
from t5x_like.model.zoo.t5 import T5
from t5x_like.model.zoo.t5_lm import T5_LM
from t5x_like.model.zoo.t5gemma import T5GEMMA
from t5x_like.model.zoo.transfo_xl import TRANSFO_XL
from t5x_like.model.zoo.transformer import TRANSFORMER
from t5x_like.model.zoo.xlnet import XLNET

# fmt: off
ARCHITECTURES: tuple[Architecture, ...] = (
    ALBERT, BART, BERT, DEBERTA_V2, DEBERTA_V3_PRETRAINING, DEEPSEEK_V3, DISTILBERT, ELECTRA, ELECTRA_PRETRAINING,
    ENTITY_BERT, ERNIE, EUROBERT, GEMMA, GEMMA2, GEMMA3, GLM4, GLM_ORIG, GPT2, GPT3, GPT_NEO, GPT_NEOX, LLAMA, LONGT5,
    M2M_100, MBART, MISTRAL, MIXTRAL, MODERNBERT, MODERNBERT_DECODER, MPNET, NEOBERT, NOMIC_BERT, OLMO2, OLMO3, OLMOE,
    OPENAI_GPT, PEGASUS, QWEN2, QWEN3, QWEN3_MOE, ROBERTA, SMOLLM3, SPANBERT, SPEECHT5, SWITCH_TRANSFORMER, T5,
    T5GEMMA, T5_LM, TRANSFORMER, TRANSFO_XL, XLNET,
)
# fmt: on

# Modules with ``ARCHITECTURES`` of packages above this one, imported where a model is none of those here.
_FURTHER = ("t5x_like.ancestors.zoo.recurrent_architectures",)


def architecture_of(config: ModelConfig) -> Architecture:
    """Return the architecture of a configuration; that of a user's class is named by its module.

    Raises:
      ValueError: The configuration belongs to none.
    """
    for architecture in _all_architectures():
        if type(config) is architecture.config_class:
            return architecture
    if not is_of_package(type(config)) and has_own_name(type(config)):
        reason = "other libraries have no form of a model of your own"
        return unpublished(name_of(type(config)), type(config), reason)
    raise ValueError(
        f"{type(config).__name__} is not the configuration of an architecture in model/zoo, nor a class that a "
        "module of yours has under its own name"
    )


def architecture_named(name: str | None) -> Architecture | None:
    """Return the architecture of a name in a ``model.json``, if there is one."""
    if name is None:
        return None
    return next((architecture for architecture in _all_architectures() if architecture.name == name), None)


def _all_architectures() -> Iterator[Architecture]:
    """Yield all architectures; modules of further ones are imported after those here."""
    yield from ARCHITECTURES
    for module in _FURTHER:
        yield from importlib.import_module(module).ARCHITECTURES


@functools.cache
def by_model_type() -> Mapping[str, Architecture]:
    """Return architectures by ``model_type`` of a Hugging Face ``config.json``, in alphabetical order."""
    named = {name: architecture for architecture in ARCHITECTURES for name in architecture.model_types}
    return dict(sorted(named.items()))


def architecture_for(fields: Mapping[str, Any], where: str) -> Architecture:
    """Return the architecture for the ``model_type`` of a ``config.json``.

    Args:
      fields: Fields of the file.
      where: Its directory, for the message.

    Raises:
      ValueError: No architecture has this ``model_type``.
    """
    model_type, known = fields.get("model_type"), by_model_type()
    if model_type is None or model_type not in known:
        raise ValueError(f"{where}/config.json: model_type {model_type!r} is not one of {', '.join(known)}")
    return known[model_type]
