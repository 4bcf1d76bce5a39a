"""A model as a directory in Hugging Face's layout: ``config.json`` and safetensors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from t5x_like.io.bucket_copies import new_folder
from t5x_like.io.files import PathLike, write_json, write_text
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import merge_adapter
from t5x_like.model.model_traits import learned_positions, traits_of
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS, ModelTask, classes_for
from t5x_like.model.zoo.weights import Weight, published_shapes, write_weights
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.head_classes import fields_of_classes
from t5x_like.pretrained.model_card import ModelCard
from t5x_like.pretrained.output_scale import common_scale, fields_of_scale, in_scale
from t5x_like.pretrained.safetensors_files import StoredDtype, write_safetensors
from t5x_like.pretrained.tokenizer_files import SPECIAL_ID_FIELDS
from t5x_like.text.heads.head_answers import UNSCALED

# Newer or derived fields for what we write in the older form, which all versions read.
_OTHER_FORMS = ("dtype", "scale_decoder_outputs", "rope_parameters", "layer_types", "attention_layers")

_POSITIONS = "embedding/positions/table"


def write_hugging_face(
    config: CommonConfig,
    params: Parameters,
    directory: PathLike,
    *,
    fields: Mapping[str, object] | None = None,
    special_ids: Mapping[str, int | None] | None = None,
    classes: Sequence[str] = (),
    companions: Mapping[str, bytes] | None = None,
    card: ModelCard | None = None,
    json_files: Mapping[str, object] | None = None,
    dtype: StoredDtype = "float32",
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    """Write ``config.json``, safetensors and ``companions``, whole or not at all.

    An adapter is merged into the weights. The last layer of a regression takes over its scale, so that outputs are the
    task's own numbers. In 16 bits they would be too coarse, and without a bias it can't; the card names the scale.

    Args:
      config: Configuration of the model.
      params: Weights of the model. Of weights that stay on disk, only one at a time is in memory.
      directory: Directory to write, new or empty.
      fields: Fields of the model's ``config.json``. Those on the model and its storage are replaced.
      special_ids: Special ids of the tokenizer by role, such as ``pad``, where ``fields`` are not those of its file.
      classes: Names of the head's classes, in the order of its scores.
      companions: Contents of other files by name, such as the tokenizer's.
      json_files: Further files by their paths in the directory.
      card: Facts for ``README.md``, which is left out if not given.
      dtype: Type of the stored weights.
      max_shard_bytes: Limit for the size of each file of weights.

    Raises:
      ValueError: ``directory`` is there and not empty, or the model has an adapter that can't be merged.
    """
    config, params = _padded_by((special_ids or {}).get("pad"), *merge_adapter(config, params))
    params = parameters.unflatten(dict(traits_of(config).remaining_weights(parameters.flatten(params))))
    config = _started_by((special_ids or {}).get("decoder_start"), config)
    scale = common_scale(card.scales, config, params) if card is not None and dtype == "float32" else None
    if card is not None and scale is not None:
        card, params = replace(card, scales={}), in_scale(params, source=scale, target=UNSCALED)
    architecture = architecture_of(config)
    table = _table_to_write(architecture, config)
    shapes = published_shapes(table, params)
    with new_folder(directory) as temporary:
        weights = write_weights(table, params)
        write_safetensors(temporary, weights, shapes, dtype=dtype, max_shard_bytes=max_shard_bytes)
        merged = _merged_fields(architecture, config, fields or {}, special_ids) | {"torch_dtype": dtype}
        if classes:
            merged |= fields_of_classes(classes)
        if scale is not None:
            merged |= fields_of_scale(scale)
        write_json(temporary / "config.json", merged)
        if card is not None:
            num_parameters = sum(map(math.prod, shapes.values()))
            write_text(temporary / "README.md", card.render(config, merged, num_parameters))
        for name, content in (json_files or {}).items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            write_json(temporary / name, content)
        for name, content in (companions or {}).items():
            (temporary / name).write_bytes(content)


def _started_by(start: int | None, config: Any) -> Any:
    """Return a configuration whose decoder begins with the id that it was trained with, if it names one."""
    if start is None or "decoder_start_token_id" not in vars(config):
        return config
    return replace(config, decoder_start_token_id=start)


def _padded_by(pad: int | None, config: Any, params: Parameters) -> tuple[Any, Any]:
    """Return a model whose table of positions begins after ``pad``, where it depends on the id of padding.

    transformers counts positions of the tokens that are not padding. With another id, real tokens would be left out.

    Args:
      pad: Id of padding of the tokenizer; ``None`` where it has none.
      config: Configuration of the model.
      params: Weights of the model.
    """
    if pad is None or traits_of(config).pad_token_id in (None, pad) or learned_positions(config) is None:
        return config, params
    moved, flat = replace(config, pad_token_id=pad), parameters.flatten(params)
    table = np.asarray(flat[_POSITIONS])[config.embeddings.positions.offset :]
    unused = np.zeros((moved.embeddings.positions.offset, table.shape[1]), table.dtype)
    return moved, parameters.unflatten({**flat, _POSITIONS: np.concatenate([unused, table])})


def _table_to_write(architecture: Architecture, config: CommonConfig) -> tuple[Weight, ...]:
    """Remove the prefix from names, as files of models without a head have them.

    transformers' classes have no output layer over the vocabulary next to another head, but for that of choices.
    """
    if traits_of(config).keep_lm_head and config.task not in ("causal_lm", "multiple_choice"):
        config = replace(config, keep_lm_head=False)
    table = architecture.hugging_face_weights(config)
    if config.task not in HEADLESS_TASKS:
        return table
    return tuple(row._replace(hf_name=row.hf_name.removeprefix(architecture.prefix)) for row in table)


def _merged_fields(
    architecture: Architecture,
    config: CommonConfig,
    source_fields: Mapping[str, Any],
    special_ids: Mapping[str, int | None] | None,
) -> dict[str, object]:
    fields = architecture.to_hugging_face(config)
    if special_ids is not None:
        ids = {f"{role}_token_id": token_id for role, token_id in special_ids.items()}
        kept: dict[str, Any] = {
            name: token_id for name, token_id in ids.items() if name in fields or name in SPECIAL_ID_FIELDS
        }
    elif source_fields:
        fields = {name: value for name, value in fields.items() if not name.endswith("_token_id")}
        kept = {name: value for name, value in source_fields.items() if name.endswith("_token_id")}
    else:
        kept = _ids_above(architecture, fields)
    # An id on which the model itself depends is that of its configuration.
    kept |= {name: token_id for name, token_id in vars(config).items() if name in kept}
    classes = source_fields.get("architectures") or ()
    keeps_type = _is_same_model(architecture, fields, source_fields.get("model_type"))
    if keeps_type:
        kept["model_type"] = source_fields["model_type"]
    if classes and keeps_type:
        kept["architectures"] = [_class_like(classes[0], config.task, architecture.classes)]
    others = {name: value for name, value in source_fields.items() if name not in _OTHER_FORMS}
    if config.task == "question_answering":
        fields["num_labels"] = 2  # some of transformers' classes take the number of ends from there
    if len(source_fields.get("id2label") or ()) != fields.get("num_labels"):
        others = {name: value for name, value in others.items() if name not in ("id2label", "label2id")}
    return {**others, **fields, **kept}


def _ids_above(architecture: Architecture, fields: Mapping[str, Any]) -> dict[str, object]:
    """Return null for the usual special ids of an architecture that lie above the vocabulary.

    Args:
      architecture: Architecture of the model.
      fields: Fields of its ``config.json``.
    """
    usual = {
        **architecture.special_ids,
        **{name: fields[name] for name in SPECIAL_ID_FIELDS if name in fields},
    }
    return {
        name: None
        for name, ids in usual.items()
        if any(token_id >= fields["vocab_size"] for token_id in one_or_several(ids))
    }


def _is_same_model(architecture: Architecture, fields: Mapping[str, Any], model_type: str | None) -> bool:
    """Return whether the fields of a model mean the same under another ``model_type``."""
    if model_type is None:
        return False
    try:
        other = architecture.from_hugging_face({**fields, "model_type": model_type})
    except ValueError:
        return False
    return other == architecture.from_hugging_face(fields)


def _class_like(class_name: str, task: ModelTask, classes: Mapping[str, ModelTask]) -> str:
    """Return the class for ``task`` of the same model as the class ``class_name``: MT5's for an MT5 class, not T5's."""
    able = classes_for(task, classes)
    if class_name in able:
        return class_name
    model = class_name.partition("For")[0].removesuffix("Model")
    return next((name for name in able if name.startswith(model)), able[0])
