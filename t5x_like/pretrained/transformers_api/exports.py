"""Models in the file formats of Hugging Face and llama.cpp."""

from typing import Any

from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.exported_tokenizer import exported_ids, exported_tokenizer
from t5x_like.pretrained.gguf_export import GgufType, write_gguf
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_card import ModelCard, card_of
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained


def export_hugging_face(
    model: Any,
    directory: PathLike,
    *,
    config: CommonConfig | None = None,
    license: str = "",
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    """Write a ``Pretrained``, or a model with its ``config``, in files that Hugging Face loads.

    A ``Pretrained`` is exported with its special ids, other fields of ``config.json`` and its vocabulary. With
    ``sentence_embedding`` it becomes a directory of sentence-transformers.

    Args:
      model: Model with its weights.
      directory: Directory to write, new or empty.
      config: Configuration of a model that is not a ``Pretrained``.
      license: Identifier of the license for ``README.md``, such as ``apache-2.0``; ``unknown`` if not given.
      max_shard_bytes: Limit for the size of each file of weights.

    Raises:
      ValueError: The directory is not empty, or ``config`` is needed and missing.
    """
    fields, ids, companions, sentences, card = {}, None, {}, None, ModelCard(license=license)
    if isinstance(model, Pretrained):
        opened = model.checkpoint
        card = card_of(opened.directory, step=opened.step, license=license)
        fields, sentences = model.fields, model.sentence_embedding
        ids, companions = exported_ids(opened), model.companions | exported_tokenizer(opened)
        model, config = model.model, model.config
    if config is None:
        raise ValueError(
            "a model alone doesn't say its sizes: export_hugging_face(model, directory, config=T5Config(…))"
        )
    write_hugging_face(
        config,
        parameters.split(model)[1],
        directory,
        fields=fields,
        special_ids=ids,
        companions=companions,
        card=card,
        json_files={} if sentences is None else sentences.files(config.model_dim),
        max_shard_bytes=max_shard_bytes,
    )


def export_gguf(pretrained: Pretrained, path: PathLike, *, dtype: GgufType = "float32") -> None:
    """Write a causal language model of Llama's kind and its tokenizer as a ``.gguf`` file.

    A tokenizer of a kind that llama.cpp lacks is left out, with a warning.

    Args:
      pretrained: Model to export: a Llama, Mistral, Qwen 2 or Qwen 3.
      path: Path of the file; it must not exist.
      dtype: Type of matrices; ``q8_0`` quantizes them to 8 bits.

    Raises:
      ValueError: The package gguf is missing, the file exists, or GGUF can't express the model; says which field.
    """
    params = parameters.split(pretrained.model)[1]
    write_gguf(
        pretrained.config,
        params,
        path,
        special_ids=pretrained.special_ids,
        tokenizer=pretrained.vocabulary,
        dtype=dtype,
    )
