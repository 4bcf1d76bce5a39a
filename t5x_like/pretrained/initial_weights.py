"""Where fine-tuning starts: another run's weights or a Hugging Face directory's, with the head that a task needs."""

import dataclasses
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.checkpoints.checkpoints import restore_params
from t5x_like.io.files import PathLike, as_path
from t5x_like.model import parameters
from t5x_like.model.layers.stack import Remat
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.pretrained.device_put import put
from t5x_like.pretrained.head_classes import classes_at, order_by_name
from t5x_like.pretrained.hugging_face import configuration_of, read_hugging_face, with_fresh_heads
from t5x_like.pretrained.model_config import load_run, read_model_config

_log = logging.getLogger(__name__)

# What may differ between weights and the model that goes on from them.
_FREE = (
    "task",
    "num_labels",
    "problem_type",
    "dropout_rate",
    "classifier_dropout_rate",
    "answers_dropout_rate",
    "compute_dtype",
    "remat",
    "pad_vocab_to_multiple_of",
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
        config = configuration_at(directory)
        given: dict[str, Any] = {
            "compute_dtype": self.compute_dtype,
            "remat": self.remat,
            "dropout_rate": self.dropout_rate,
            "classifier_dropout_rate": self.classifier_dropout_rate,
        }
        kept = {name: value for name, value in given.items() if value is not None and hasattr(config, name)}
        config = replace(config, **kept)
        return config if head is None else with_head(config, *head, where=str(directory))


def is_run(directory: PathLike) -> bool:
    """Whether it is one of our runs, and no Hugging Face directory."""
    return (as_path(directory) / "model.json").exists()


def is_hugging_face(directory: PathLike) -> bool:
    """Whether it is a directory with a ``config.json`` that is not a run's."""
    return (as_path(directory) / "config.json").exists() and not is_run(directory)


def configuration_at(directory: PathLike) -> Any:
    """Which model a run or a Hugging Face directory holds.

    Raises:
      ValueError: neither, or a model that we don't know.
    """
    if is_run(directory):
        return read_model_config(directory)
    if is_hugging_face(directory):
        return configuration_of(directory)
    raise ValueError(
        f"{directory} holds no model: give a run's directory (with model.json), or one of Hugging Face's (with "
        "config.json)"
    )


def with_head(config: Any, kind: str, num_labels: int, *, where: str) -> Any:
    """The same model with another head.

    Raises:
      ValueError: it can't have one of that kind.
    """
    if kind not in architecture_of(config).tasks or not hasattr(config, "num_labels"):
        raise ValueError(
            f"{where} is a {type(config).__name__}, which has no head for {kind.replace('_', ' ')}; take an encoder "
            "such as BERT, or let the model write its answers (without layout='encoder')"
        )
    if kind == "multiple_choice":
        return replace(config, task=kind)
    return replace(config, task=kind, num_labels=num_labels)


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


def starting_params(
    directory: PathLike, config: Any, like: Any, *, mesh: Mesh, seed: int, classes: Sequence[str] = ()
) -> Any:
    """The weights at ``directory`` for a model of ``config``, whose places and shapes ``like`` tells.

    Heads that are missing there, or have another shape, are drawn from ``seed``, which is said. One for the same
    ``classes`` in another order is put into theirs, and one for as many others is kept; which is said, too.

    Raises:
      FileNotFoundError, ValueError: no weights, or those of another model.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if is_hugging_face(directory):
            params = _of_hugging_face(directory, config, mesh, seed)
        elif is_run(directory):
            params = _of_run(directory, config, like, mesh, seed)
        else:
            params = restore_params(directory, like)
    for warning in said:
        _log.warning("%s", warning.message)
    if any("heads/scores/" in str(warning.message) for warning in said):
        return params
    return _in_order(params, classes_at(directory), classes, str(directory))


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
        if path.startswith(("heads/scores/classes/projection", "heads/scores/token_classes/projection")):
            flat[path] = jax.device_put(leaf[..., np.array(order)], leaf.sharding)
    return parameters.unflatten(flat)


def _of_hugging_face(directory: PathLike, config: Any, mesh: Mesh, seed: int) -> Any:
    _compare(configuration_of(directory), config, directory)
    asked = {name: getattr(config, name) for name in ("task", "num_labels") if hasattr(config, name)}
    return read_hugging_face(directory, mesh=mesh, seed=seed, **asked).params


def _of_run(directory: PathLike, config: Any, like: Any, mesh: Mesh, seed: int) -> Any:
    """All but heads must be there and of one shape."""
    saved = read_model_config(directory)
    if getattr(saved, "task", None) == getattr(config, "task", None) and saved == config:
        return restore_params(directory, like)
    wanted = parameters.flatten(like)
    shapes = parameters.flatten(parameters.abstract(saved)[1])
    fresh = tuple(
        path for path, leaf in wanted.items() if path not in shapes or shapes[path].shape != leaf.shape
    )
    if any(not path.startswith("heads/") for path in fresh) or not fresh:
        return restore_params(directory, like)  # it fits, or is refused with all that differs
    found = parameters.flatten(load_run(directory, mesh=mesh)[1])
    params = {path: found[path] for path in wanted if path not in fresh}

    def place(path: str, array: Any) -> jax.Array:
        return put(array, wanted[path].sharding)

    return with_fresh_heads(config, parameters.unflatten(params), fresh, str(directory), seed, place)


def _compare(theirs: Any, ours: Any, directory: PathLike) -> None:
    """Refuses weights of a model that would compute something else."""
    if type(theirs) is not type(ours):
        raise ValueError(
            f"{directory} holds a {type(theirs).__name__}, but the run's model is a {type(ours).__name__}"
        )
    lines = [
        f"{field.name}: {getattr(theirs, field.name)!r} there, {getattr(ours, field.name)!r} here"
        for field in dataclasses.fields(ours)
        if field.name not in _FREE and getattr(theirs, field.name) != getattr(ours, field.name)
    ]
    if lines:
        listed = "\n  ".join(lines)
        raise ValueError(
            f"the weights at {directory} are of another model:\n  {listed}\nWith model = @CheckpointModel() it is "
            "theirs"
        )
