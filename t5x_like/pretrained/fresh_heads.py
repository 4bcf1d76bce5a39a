"""Heads, adapters, and embeddings of added tokens and positions that fine-tuning needs and a checkpoint lacks."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import draw_adapter
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.head_classes import order_by_name

_MOST_NAMES = 8  # in a message

# Weights of heads whose outputs are classes.
_CLASS_PROJECTIONS = (
    "heads/scores/sequence_classification/projection",
    "heads/scores/token_classification/projection",
)


def with_head(
    config: CommonConfig, kind: str, num_labels: int, problem_type: str | None = None, *, where: str
) -> CommonConfig:
    """Return the same configuration with another head.

    Args:
      config: Configuration of the model.
      kind: Kind of the head, by transformers' name.
      num_labels: Number of the head's outputs.
      problem_type: Type of the labels of sequence classification; ``None`` infers it.
      where: Directory of the model, for messages.

    Raises:
      ValueError: The model can't have such a head.
    """
    if kind in HEADLESS_TASKS:
        return without_head(config, keeps_pooler=kind == "base", where=where)
    labels: dict[str, Any] = {} if kind in ("multiple_choice", "cloze") else {"num_labels": num_labels}
    if isinstance(config, CommonConfig):
        labels["problem_type"] = problem_type
    try:
        return replace(config, task=kind, **labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is a {type(config).__name__}, which has no head for {kind.replace('_', ' ')}; take another "
            "model, such as BERT or GPT-2, or let the model write its answers (without layout='encoder')"
        ) from error


def without_head(config: CommonConfig, *, keeps_pooler: bool, where: str) -> CommonConfig:
    """Return the same configuration without a head, for vectors of texts.

    Without its pooler an encoder-decoder is its encoder alone. Models that have neither keep their stack.

    Args:
      config: Configuration of the model.
      keeps_pooler: The model keeps its pooler.
      where: Directory of the model, for messages.

    Raises:
      ValueError: The model always has a head.
    """
    for task in ("base",) if keeps_pooler else ("encoding", "base"):
        changed: Any = config
        try:
            changed = replace(changed, task=task)
            parameters.abstract(changed)  # some models refuse a task only here
        except (TypeError, ValueError):
            continue
        return changed
    raise ValueError(
        f"{where} is a {type(config).__name__}, which always has a head; take another model, such as BERT or GPT-2"
    )


def missing_heads(where: str, names: Sequence[str], config: CommonConfig, own: CommonConfig) -> str:
    """Return the message on heads that a checkpoint lacks.

    Args:
      where: Directory of the checkpoint.
      names: Names of the missing weights.
      config: Configuration of the model with the head that was asked for.
      own: Configuration of the model as the checkpoint describes it.
    """
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(names[:_MOST_NAMES]) + more
    needed, described = (str(each.task).replace("_", " ") for each in (config, own))
    if config == own:
        hint = "they belong to the model that its files describe; fetch all of them, or give the task that it is for"
    else:
        hint = f"its files are of a model for {described}; train the head first, with this checkpoint as start_from"
    return f"{where} lacks {listed}, or has another shape of it, which a model for {needed} needs: {hint}"


def with_fresh_weights(
    config: CommonConfig,
    params: Parameters,
    *,
    heads: Collection[str],
    adapters: Collection[str],
    where: str,
    seed: int,
    place: Callable[..., object],
) -> Parameters:
    """Add freshly initialized heads, with a warning, and a fresh adapter to weights.

    Args:
      config: Configuration of the model that has the heads and the adapter.
      params: Weights without the heads and the adapter.
      heads: Paths of the heads' weights to draw.
      adapters: Paths of the adapter's weights to draw: all of them, or none.
      where: Directory of the checkpoint, for the warning.
      seed: Seed of freshly drawn weights.
      place: Function that puts an array where its path belongs, as ``place(path, array)``.
    """
    if heads:
        warnings.warn(
            f"{where} has no weights for {', '.join(heads)}; they are freshly drawn from seed {seed}, so train this "
            "head before you use it",
            stacklevel=4,
        )

        def draw(key: jax.Array) -> dict[str, jax.Array]:
            drawn = parameters.flatten(parameters.split(config.build(key))[1])
            return {path: drawn[path] for path in heads}

        params = _with_placed(params, jax.jit(draw)(jax.random.key(seed)), place)
    if adapters:
        params = _with_placed(params, draw_adapter(config, params, jax.random.key(seed)), place)
    return params


def _with_placed(
    params: parameters.Parameters, drawn: Mapping[str, object], place: Callable[..., object]
) -> parameters.Parameters:
    placed = {path: place(path, array) for path, array in drawn.items()}
    return parameters.unflatten(parameters.flatten(params) | placed)


def with_added_tokens(
    config: CommonConfig, params: parameters.Parameters, num_known: int, *, seed: int, mesh: Mesh | None
) -> parameters.Parameters:
    """Add freshly drawn rows for further ids to the word embeddings and the output layer.

    Args:
      config: Configuration of the model with all ids.
      params: Weights for the first ``num_known`` ids.
      num_known: Number of ids that the weights are for.
      seed: Seed of freshly drawn weights.
      mesh: Devices to place the weights on.

    Raises:
      ValueError: The model divides its vocabulary among several tables.
    """
    _, shapes, axes = parameters.abstract(config)
    leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))
    places = tables_of_words(config)

    def grow(key: jax.Array, known: dict[str, jax.Array]) -> dict[str, jax.Array]:
        drawn = parameters.flatten(parameters.split(config.build(key))[1])
        return {
            path: jnp.concatenate(
                [
                    jax.lax.slice_in_dim(known[path], 0, num_known, axis=axis),
                    jax.lax.slice_in_dim(drawn[path], num_known, None, axis=axis),
                ],
                axis,
            )
            for path, axis in places.items()
        }

    leaves_before = parameters.flatten(params)
    grown = jax.jit(grow)(jax.random.key(seed), {path: leaves_before[path] for path in places})
    placed = {path: put_on_devices(array, leaves[path].sharding) for path, array in grown.items()}
    return parameters.unflatten(leaves_before | placed)


def tables_of_words(config: CommonConfig) -> dict[str, int]:
    """Return the axis of the vocabulary in each weight that has one, by path.

    Raises:
      ValueError: The model divides its vocabulary among several tables.
    """
    axes = parameters.flatten(parameters.abstract(config)[2])
    places = {path: names.index("vocab") for path, names in axes.items() if "vocab" in names}
    if any("/tables/" in path for path in places):  # Transformer-XL's clusters
        raise ValueError(
            f"a {type(config).__name__} divides its vocabulary among several tables, to which no token can be added"
        )
    return places


def with_added_positions(
    config: Any, params: parameters.Parameters, num_known: int, *, mesh: Mesh | None
) -> parameters.Parameters:
    """Add learned positions: copies of the known ones, from the first on (Beltagy et al. 2020, §5, arXiv:2004.05150).

    Args:
      config: Configuration of the model with all positions.
      params: Weights for the first ``num_known`` positions.
      num_known: Number of positions that the weights are for.
      mesh: Devices to place the weights on.
    """
    _, shapes, axes = parameters.abstract(config)
    leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))
    path, offset = "embedding/positions/table", config.embeddings.positions.offset
    leaves_before = parameters.flatten(params)
    numbers = np.arange(leaves[path].shape[0])
    rows = np.where(numbers < offset, numbers, offset + (numbers - offset) % num_known)
    grown = jnp.take(leaves_before[path], rows, axis=0)
    return parameters.unflatten(leaves_before | {path: put_on_devices(grown, leaves[path].sharding)})


def in_class_order(
    params: parameters.Parameters, classes: Sequence[str], wanted_classes: Sequence[str], where: str
) -> tuple[parameters.Parameters, str | None]:
    """Reorder a head's outputs to a task's classes, where it has the same names; also returns a note if it matters.

    Args:
      params: Weights of the model.
      classes: Classes of the head; empty if they have no names.
      wanted_classes: Classes of the task.
      where: Directory of the checkpoint, for the note.
    """
    if not classes or len(classes) != len(wanted_classes):
        return params, None
    order = order_by_name(classes, wanted_classes)
    if order is None:
        kept = f"the head of {where}, for {', '.join(classes)}, is kept and now learns {', '.join(wanted_classes)}"
        return params, kept
    if order == tuple(range(len(wanted_classes))):
        return params, None
    flat = parameters.flatten(params)
    for path, leaf in flat.items():
        if path.startswith(_CLASS_PROJECTIONS):
            flat[path] = jax.device_put(leaf[..., np.array(order)], leaf.sharding)
    note = f"the head of {where} has its classes in another order, and is put into that of the task"
    return parameters.unflatten(flat), note
