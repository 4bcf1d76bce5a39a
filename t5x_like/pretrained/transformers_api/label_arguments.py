"""Labels of a call, checked for the loss of the model's task."""

from collections.abc import Mapping

import numpy as np

from t5x_like.index_checks import check_indices, check_labels, check_shape
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.transformers_api.call_arguments import numbers

# The arguments that losses compare with.
LABELS = ("labels", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions")

_SPANS = ("start_positions", "end_positions")
_PAIRS = ("next_sentence_label", "sentence_order_label")
_OF_TASKS = {
    "pretraining": ("labels", *_PAIRS),
    "next_sentence": ("labels", "next_sentence_label"),
    "question_answering": _SPANS,
    **dict.fromkeys(("masked_lm", "causal_lm", "sequence_to_sequence_lm", "replaced_tokens"), ("labels",)),
    **dict.fromkeys(("sequence_classification", "multiple_choice", "token_classification"), ("labels",)),
}
_WORDS = ("masked_lm", "causal_lm", "sequence_to_sequence_lm", "pretraining")


def read_labels(
    arguments: Mapping[str, object],
    config: CommonConfig,
    shape: tuple[int, ...],
    *,
    num_choices: int = 1,
    real: np.ndarray | None = None,
    are_shifted: bool = False,
) -> dict[str, np.ndarray]:
    """Return the ``LABELS`` that are given, checked, by name.

    Args:
      arguments: Arguments of the call.
      config: Configuration of the model, with its task.
      shape: Numbers of rows and tokens that are scored, [B, L].
      num_choices: Number of an example's rows.
      real: Mask with 1 where a token is no padding, [B, L]; all are real if not given.
      are_shifted: Whether the first label of each row is never predicted.

    Raises:
      ValueError: The task has no use for the labels, or they have another shape or are out of range.
    """
    read = {name: numbers(arguments[name], name) for name in LABELS if arguments.get(name) is not None}
    known = _OF_TASKS.get(config.task, ())
    for name, labels in read.items():
        if name not in known:
            wanted = (
                f"give {' or '.join(known)}" if known else 'open it with another, such as task="masked_lm"'
            )
            raise ValueError(
                f"{name} is given, and this model's task {config.task!r} has no loss of it; {wanted}"
            )
        _check(name, labels, config, shape, num_choices=num_choices, real=real)
    if are_shifted and "labels" in read and config.task in _WORDS:
        _check_shifted(read["labels"], config)
    if config.task == "question_answering" and len(read) == 1:
        raise ValueError("a loss of answers needs start_positions and end_positions; give both")
    return read


def _check(
    name: str,
    labels: np.ndarray,
    config: CommonConfig,
    shape: tuple[int, ...],
    *,
    num_choices: int,
    real: np.ndarray | None,
) -> None:
    batch, length = shape[0] // num_choices, shape[1]
    task = config.task
    if name in _SPANS:
        _check_positions(name, labels, batch, length)
    elif name in _PAIRS or task == "next_sentence":
        check_labels(labels, name, 2, (batch,))
    elif task in _WORDS:
        check_labels(labels, name, config.vocab_size, shape)
    elif task == "token_classification":
        check_labels(labels, name, config.num_labels, shape)
    elif task == "multiple_choice":
        check_labels(labels, name, num_choices, (batch,))
    elif task == "replaced_tokens":
        check_shape(labels, name, shape)
        check_indices(
            labels if real is None else labels[real > 0], name, 2, advice="1 marks a replaced token"
        )
    else:
        _check_classes(name, labels, config, batch)


def _check_classes(name: str, labels: np.ndarray, config: CommonConfig, batch: int) -> None:
    """Check labels of sequences: a class, a number, or 0 and 1 for each class; see ``classification_loss``."""
    num_classes, kind = config.num_labels, config.problem_type
    if kind is None:
        is_whole = labels.dtype.kind in "iu"
        kind = "regression" if num_classes == 1 else "single_label" if is_whole else "multi_label"
    if kind == "single_label":
        check_labels(labels, name, num_classes, (batch,))
    elif kind == "multi_label":
        check_shape(labels, name, (batch, num_classes))
        outside = ~((labels >= 0) & (labels <= 1))  # true for NaN too
        if outside.any():
            raise ValueError(
                f"{name} holds {labels[outside][0]}; give 1 for each class of a row, 0 for the others"
            )
    else:
        if labels.shape not in ((batch,), (batch, num_classes)) or labels.size != batch * num_classes:
            raise ValueError(f"{name} has shape {labels.shape}; give a number for each row, ({batch},)")
        if not np.isfinite(labels).all():
            raise ValueError(f"{name} holds {labels[~np.isfinite(labels)][0]}; give finite numbers")


def _check_positions(name: str, positions: np.ndarray, batch: int, length: int) -> None:
    """Check ends of answers: as in transformers, one beyond the row has no loss, and a negative one means the start."""
    check_shape(positions, name, (batch,))
    if positions.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {positions.dtype}; positions are whole numbers")
    if (positions >= length).all():
        raise ValueError(
            f"{name} holds {positions[0]}; rows have {length} tokens, so that no answer lies inside of them. Give "
            f"positions from 0 to {length - 1}"
        )


def _check_shifted(labels: np.ndarray, config: CommonConfig) -> None:
    if labels.shape[1] < 2:
        raise ValueError(
            "labels has one token a row, and a decoder predicts those after the first; give two or more"
        )
    check_labels(labels[:, 1:], "labels[:, 1:]", config.vocab_size, (len(labels), labels.shape[1] - 1))
