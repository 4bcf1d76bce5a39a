"""Where fine-tuning starts: another run's weights or a Hugging Face directory's, with the head that a task needs."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.layers.stack import Remat
from t5x_like.pretrained.checkpoint import open_checkpoint, read_config
from t5x_like.pretrained.fresh_heads import with_head
from t5x_like.pretrained.head_classes import order_by_name

_log = logging.getLogger(__name__)

# Weights of heads whose outputs are classes.
_CLASS_PROJECTIONS = (
    "heads/scores/sequence_classification/projection",
    "heads/scores/token_classification/projection",
)


@dataclass(frozen=True, kw_only=True)
class CheckpointModel:
    """The model of ``start_from`` itself, with the head that the tasks need which it is trained on.

    ``dropout_rate`` is the checkpoint's own where not given; of a Hugging Face directory what its ``config.json`` says.
    So is ``classifier_dropout_rate``, of what classes are told from, which some models have apart.
    """

    dropout_rate: float | None = None
    classifier_dropout_rate: float | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"

    def resolve(self, directory: PathLike | None, head: tuple[str, int] | None) -> Any:
        """The checkpoint's configuration with a head: its kind and its number of scores.

        Raises:
          ValueError: no directory, one that holds no model, or a model that can't have such a head.
        """
        if not directory:
            raise ValueError(
                "a CheckpointModel is the model of start_from: say which directory, INITIAL_CHECKPOINT='…'"
            )
        config = read_config(directory)
        given: dict[str, Any] = {
            "compute_dtype": self.compute_dtype,
            "remat": self.remat,
            "dropout_rate": self.dropout_rate,
            "classifier_dropout_rate": self.classifier_dropout_rate,
        }
        kept = {name: value for name, value in given.items() if value is not None and hasattr(config, name)}
        config = replace(config, **kept)
        return config if head is None else with_head(config, *head, where=str(directory))


def check_head(config: Any, head: tuple[str, int], *, what: str) -> None:
    """Whether a model has the head that ``what`` needs.

    Raises:
      ValueError: it has another, or none.
    """
    kind, num_labels = head
    task, has = getattr(config, "task", None), getattr(config, "num_labels", None)
    if task == kind and (has == num_labels or kind in ("multiple_choice", "question_answering")):
        return
    wanted = f"{kind.replace('_', ' ')} with {num_labels} score{'s' * (num_labels > 1)}"
    given = f"one for {str(task).replace('_', ' ')}" + (f" with {has} scores" if task == kind else "")
    raise ValueError(
        f"{what} needs a head for {wanted}; the model has {given}. Fine-tune it on such a task first"
    )


def check_length(config: Any, length: int, *, what: str) -> None:
    """Whether a model has a learned position for each token of ``what``; beyond them scores would be no numbers.

    Raises:
      ValueError: it has fewer.
    """
    learned = getattr(getattr(config, "embeddings", None), "positions", None)
    if learned is not None and length > learned.max_position_embeddings:
        raise ValueError(
            f"{what} is read with inputs_length={length}, but the model has "
            f"{learned.max_position_embeddings} positions; lower it to at most "
            f"{learned.max_position_embeddings}, INPUTS_LENGTH in recipes"
        )


def initial_params(
    directory: PathLike, config: Any, *, mesh: Mesh, seed: int, classes: Sequence[str] = ()
) -> Any:
    """Reads the weights at ``directory`` for a model of ``config``, on ``mesh``.

    A head for the same ``classes`` in another order is put into theirs, and one for as many others is kept. Heads that
    are missing, or have another shape, are drawn. All of that is logged.

    Args:
      directory: any checkpoint that ``open_checkpoint`` opens, or steps of a run without its ``model.json``.
      config: the model to train.
      mesh: the devices.
      seed: of heads to draw.
      classes: the class names of the tasks' head, in order.

    Raises:
      FileNotFoundError, ValueError: no weights, or those of another model.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        checkpoint = open_checkpoint(directory, mesh=mesh, config=config, seed=seed)
    for warning in said:
        _log.warning("%s", warning.message)
    if any("heads/scores/" in str(warning.message) for warning in said):
        return checkpoint.params
    return _in_order(checkpoint.params, checkpoint.class_names, classes, str(directory))


def _in_order(params: Any, theirs: Sequence[str], ours: Sequence[str], where: str) -> Any:
    """A head's scores in the order of our classes, where its own has the same names."""
    if not theirs or len(theirs) != len(ours):
        return params
    order = order_by_name(theirs, ours)
    if order is None:
        _log.warning(
            "the head of %s, for %s, is kept and goes on to learn %s",
            where,
            ", ".join(theirs),
            ", ".join(ours),
        )
        return params
    if order == tuple(range(len(ours))):
        return params
    _log.warning("the head of %s has its classes in another order, and is put into that of the task", where)
    flat = parameters.flatten(params)
    for path, leaf in flat.items():
        if path.startswith(_CLASS_PROJECTIONS):
            flat[path] = jax.device_put(leaf[..., np.array(order)], leaf.sharding)
    return parameters.unflatten(flat)
