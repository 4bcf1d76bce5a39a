"""Options of heads in a model's configuration: refused in a recipe whose model has no such head."""

import dataclasses
from typing import Any

from t5x_like.config_class import refuse_unused
from t5x_like.model.zoo.common_config import CommonConfig

# Files of published models carry these options for any head, and a later fine-tuning reads them. Configurations
# therefore accept them, and only a recipe that gives its model's fields itself is checked.
HEAD_OPTIONS = (
    "num_labels",
    "problem_type",
    "keep_lm_head",
    "classifier",
    "classifier_activation",
    "classifier_dropout_rate",
    "classifier_pooling",
    "pieces",
    "qa_dropout_rate",
    "summary_type",
    "max_span_length",
    "span_position_dim",
)


def refuse_head_options(model: Any) -> None:
    """Refuse options of heads that a model for its task doesn't have.

    Raises:
      ValueError: An option has no effect.
    """
    if not isinstance(model, CommonConfig):
        return
    because = f"the model is for the task {model.task!r}, whose heads don't read it"
    for field in dataclasses.fields(model):
        if field.name in HEAD_OPTIONS and not _has_effect(model, field):
            refuse_unused(model, field.name, because=because)


def _has_effect(model: Any, field: dataclasses.Field[Any]) -> bool:
    if field.name == "problem_type":  # describes labels, and no part of the model
        return model.task == "sequence_classification"
    if field.name == "pieces":  # rows for heads are read in pieces
        return model.task not in ("causal_lm", "base")
    if getattr(model, field.name) == field.default:
        return True
    return dataclasses.replace(model, **{field.name: field.default}).parts != model.parts
