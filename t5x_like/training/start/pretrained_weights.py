"""A run from another run's weights, or from a published model's."""

import logging
import os
from dataclasses import replace
from typing import Any

from jax.sharding import Mesh

from t5x_like.checkpoints.state_names import describe, refuse_differences
from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import config_class
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import without_adapter
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.initial_weights import initial_checkpoint
from t5x_like.pretrained.run_weights import RunWeights, steps_of
from t5x_like.pretrained.weight_sources import find_weights, new_positions, with_known_positions
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.start.start import Start, StartingWeights
from t5x_like.training.start.vocabulary_transfer import (
    RecordedTransfer,
    VocabularyTransfer,
    transferred,
    with_known_vocabulary,
)

_log = logging.getLogger(__name__)


@config_class
class PretrainedWeights(Start):
    """Starts from trained weights. Heads that they lack are freshly drawn.

    Attributes:
      start_from: A run (its newest step; not the optimizer state) or a Hugging Face directory.
      noisy_tune: Noise on these weights before the first step; ``None`` for none.
      vocabulary_transfer: Makes embeddings for the tasks' vocabulary from those of another; ``None`` where the weights
        have the tasks' vocabulary.
      new_positions: The model may have other rotary positions than the weights were trained with, such as a higher
        ``rope_theta`` or a ``rope_scaling`` for longer texts. Runs may always change them.
    """

    start_from: str
    noisy_tune: NoisyTune | None = None
    vocabulary_transfer: VocabularyTransfer | None = None
    new_positions: bool = False

    def __post_init__(self) -> None:
        if not self.start_from:
            raise ValueError(
                "start_from is empty; name a run or a Hugging Face directory, or start from FreshWeights()"
            )

    @property
    def description(self) -> str:
        """Origin of the weights, as the opening lines name it."""
        return f"from the weights of {self.start_from}"

    @property
    def _checkpoint(self) -> str:
        """Checkpoint whose model takes the place of a ``CheckpointModel``."""
        return self.start_from

    def check_weights(self, model: CommonConfig, tokenizer: Tokenizer | None) -> list[str]:
        """Check that the checkpoint is there, and that its body is this model's; heads and adapters may differ."""
        notes = _position_notes(self.start_from, model)
        if self.new_positions:
            model = with_known_positions(self.start_from, model)
        if self.vocabulary_transfer is not None:
            notes = [
                f"{self.start_from}: {self.vocabulary_transfer.sources(self.start_from, tokenizer).summary}"
            ]
            model = with_known_vocabulary(self.start_from, model)
        source = find_weights(self.start_from, config=model)
        if not isinstance(source, RunWeights):
            source.require_heads(draw_heads=True)
            return notes
        if source.step is None and not steps_of(source.directory):
            raise ValueError(f"{self.start_from} has no checkpoint; give a run that has saved one")
        if source.saved is not None:
            where = f"start_from: {self.start_from}"
            refuse_differences(_body(source.saved, model), _body(model, model), where=where)
        return notes

    def weights(
        self, model: CommonConfig, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: object
    ) -> StartingWeights:
        """Return the checkpoint's weights, with fresh ones where it lacks a head."""
        for note in _position_notes(self.start_from, model):
            _log.warning("%s", note)
        if self.new_positions:
            model = with_known_positions(self.start_from, model)
        if self.vocabulary_transfer is not None:
            recorded = RecordedTransfer(
                checkpoint=os.fspath(absolute(self.start_from)),
                from_vocabulary=self.vocabulary_transfer.from_vocabulary,
                seed=seed,
            )
            params, step = transferred(
                recorded, model, vocabulary, mesh=mesh, classes=labels.class_names, scale=labels.scale
            )
            return StartingWeights(params, {"inputs": replace(recorded, step=step)}, self.noisy_tune)
        checkpoint = initial_checkpoint(
            self.start_from,
            model,
            mesh=mesh,
            seed=seed,
            classes=labels.class_names,
            scale=labels.scale,
        )
        origin = {"start_from": os.fspath(absolute(self.start_from)), "step": checkpoint.step}
        return StartingWeights(checkpoint.params, origin, self.noisy_tune)


def _position_notes(directory: str, model: CommonConfig) -> list[str]:
    """Return lines about positions that the weights were trained with, and the model to train has otherwise."""
    return [
        f"{directory}: {name} is {there} there and {here} here, so the model learns new positions"
        for name, (there, here) in new_positions(directory, model).items()
        if name != "max_position_embeddings"  # which changes no output
    ]


def _body(saved: Any, model: CommonConfig) -> dict[str, Any]:
    """Return shapes and types of the weights that a model takes, without heads and adapter, which may differ."""
    flat = parameters.flatten(parameters.abstract(without_adapter(saved))[1])
    flat = traits_of(model).taken_from(saved, flat)
    return describe({path: leaf for path, leaf in flat.items() if not path.startswith("heads/")})
