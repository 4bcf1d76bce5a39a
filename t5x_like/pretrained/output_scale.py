"""Scale of a regression's outputs: standardized as in training, or in the numbers of the user's table."""

import re
from collections.abc import Mapping

import jax
import numpy as np

from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.pretrained.run_weights import was_trained_here
from t5x_like.text.heads.head_answers import UNSCALED, OutputScale

_PROJECTION = "heads/scores/sequence_classification/projection"
_FIELD = "regression_scale"  # of an export's config.json


def scales_of_run(directory: PathLike) -> dict[str, OutputScale]:
    """Return the scale of each regression that a run was trained on; empty if none is standardized."""
    if not was_trained_here(directory):
        return {}
    fields = read_json(as_path(directory) / "config.json", dict)
    scales = {}
    for name in fields:
        if match := re.fullmatch(r"(tasks\.\d+\.head)\.deviation", name):
            task = str(fields[f"{match[1].removesuffix('.head')}.name"])
            scales[task] = OutputScale(float(fields[f"{match[1]}.mean"]), float(fields[name]))
    return {} if set(scales.values()) == {UNSCALED} else scales


def scale_of_run(directory: PathLike) -> OutputScale:
    """Return the scale of the regressions that a run was trained on; that of plain numbers if they differ."""
    scales = {*scales_of_run(directory).values()}
    return scales.pop() if len(scales) == 1 else UNSCALED


def common_scale(
    scales: Mapping[str, OutputScale], config: ModelConfig, params: parameters.Parameters
) -> OutputScale | None:
    """Return the scale that a head's last layer can take over; None if it can't.

    Tasks with different scales share no layer, and a layer without a bias can't add a mean.

    Args:
      scales: Scales by task.
      config: Configuration of the model.
      params: Weights of the model.
    """
    if traits_of(config).task != "sequence_classification" or len(set(scales.values())) != 1:
        return None
    has_bias = f"{_PROJECTION}/bias" in parameters.flatten(params)
    return next(iter(scales.values())) if has_bias else None


def in_scale(
    params: parameters.Parameters, *, source: OutputScale, target: OutputScale
) -> parameters.Parameters:
    """Return the weights of a model that predicts the same numbers in another scale.

    A prediction is ``output * deviation + mean`` in both scales.

    Args:
      params: Weights with a head of one output and a bias.
      source: Scale of its outputs.
      target: Scale of the outputs of the returned weights.
    """
    flat = parameters.flatten(params)
    kernel, bias = (flat[f"{_PROJECTION}/{name}"] for name in ("kernel", "bias"))
    factor = source.deviation / target.deviation
    added = (source.mean - target.mean) / target.deviation
    # In float64, because a mean may be far larger than its deviation.
    scaled = {
        "kernel": np.asarray(kernel, np.float64) * factor,
        "bias": np.asarray(bias, np.float64) * factor + added,
    }
    for name, array in scaled.items():
        leaf, array = flat[f"{_PROJECTION}/{name}"], array.astype(np.float32)
        flat[f"{_PROJECTION}/{name}"] = (
            jax.device_put(array, leaf.sharding) if isinstance(leaf, jax.Array) else array
        )
    return parameters.unflatten(flat)


def fields_of_scale(scale: OutputScale) -> dict[str, object]:
    """Return the fields of a ``config.json`` that name the scale of the training before the export."""
    return {_FIELD: scale._asdict()}


def has_plain_numbers(fields: Mapping[str, object]) -> bool:
    """Return True for the fields of an export whose last layer has taken over the scale of its task."""
    return _FIELD in fields


def params_in_scale(
    params: parameters.Parameters, fields: Mapping[str, object], scale: OutputScale
) -> parameters.Parameters:
    """Return the weights of an exported regression in the scale of a task; other weights as they are.

    Training, and every prediction in the form of a task, need this.

    Args:
      params: Weights.
      fields: Fields of the checkpoint's ``config.json``.
      scale: Scale of the task.
    """
    if not has_plain_numbers(fields) or scale == UNSCALED:
        return params
    return in_scale(params, source=UNSCALED, target=scale)
