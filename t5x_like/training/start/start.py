"""A way to start a run: the model's configuration and the weights before the first step."""

import dataclasses
from typing import Any, NamedTuple

from jax.sharding import Mesh

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.noisy_tune import NoisyTune

# Files of published models carry these options for any head, and a later fine-tuning reads them. Configurations
# therefore accept them, and only a recipe that gives its model's fields itself is checked.
HEAD_OPTIONS = (
    "num_labels",
    "problem_type",
    "keep_lm_head",
    "has_value_head",
    "has_ctc_head",
    "classifier",
    "classifier_activation",
    "classifier_dropout_rate",
    "classifier_pooling",
    "pieces",
    "pooler_activation",
    "pooler_dropout_rate",
    "qa_dropout_rate",
    "summary_type",
    "max_span_length",
    "span_position_dim",
)


class StartingWeights(NamedTuple):
    """Weights before the first step.

    Attributes:
      params: The model's whole weights, on the mesh.
      origin: Where they come from, as ``frozen.json`` records it.
      noise: Noise that trained weights get before the first step; ``None`` for none.
    """

    params: Parameters
    origin: dict[str, Any]
    noise: NoisyTune | None = None


@config_class
class Start:
    """Base of the ways to start. A subclass makes weights that are not all fresh."""

    @property
    def description(self) -> str:
        """Origin of the weights, as the opening lines name it."""
        return "from fresh weights"

    @property
    def _checkpoint(self) -> str | None:
        """Checkpoint whose model takes the place of a ``CheckpointModel``; ``None`` for none."""
        return None

    def resolve(self, model: object, head: tuple[str, int, str | None] | None) -> Any:
        """Return the configuration of the model to train.

        Args:
          model: That of the experiment.
          head: Head that the tasks need, as ``CheckpointModel.resolve`` takes it.

        Raises:
          ValueError: There is no model here, or an option is for a head that it lacks.
        """
        if isinstance(model, CheckpointModel):
            return model.resolve(self._checkpoint, head)
        refuse_head_options(model)
        return model

    def check(self, loader: object) -> None:
        """Check that what the run starts from reads the data's vocabulary; no weights are read.

        Args:
          loader: Loader of the training data.

        Raises:
          ValueError: It reads another.
        """

    def check_weights(self, model: object, tokenizer: Tokenizer | None) -> list[str]:
        """Check that the weights are there and those of this model, and return notes; they are not read.

        Args:
          model: Resolved configuration of the model.
          tokenizer: Tokenizer of the tasks; ``None`` for that of another library.

        Raises:
          ValueError: They are missing, or another model's.
        """
        return []

    def weights(
        self, model: CommonConfig, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: object
    ) -> StartingWeights | None:
        """Return the weights before the first step; ``None`` for fresh ones.

        Args:
          model: Resolved configuration of the model.
          mesh: Devices.
          seed: Seed of what is freshly drawn.
          labels: Meaning of the head's outputs: classes and a scale.
          vocabulary: Vocabulary of the training data.

        Raises:
          ValueError: Files are missing, or don't fit the model.
        """
        return None


def refuse_head_options(model: object) -> None:
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


def _has_effect(model: CommonConfig, field: dataclasses.Field[object]) -> bool:
    if field.name == "problem_type":  # describes labels, and no part of the model
        return model.task == "sequence_classification"
    if field.name == "pieces":  # rows for heads are read in pieces
        return model.task not in ("causal_lm", "base")
    if getattr(model, field.name) == field.default:
        return True
    return dataclasses.replace(model, **{field.name: field.default}).parts != model.parts
