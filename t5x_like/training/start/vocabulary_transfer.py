"""A run from pretrained weights with another vocabulary (Gee et al. 2022)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax.sharding import Mesh

from t5x_like.config_class import changeable, config_class
from t5x_like.io.files import PathLike
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.frozen_weights import missing_source
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.open_checkpoint import open_initial
from t5x_like.pretrained.output_scale import scale_of_run
from t5x_like.pretrained.vocabulary_rows import old_tokenizer, with_vocabulary
from t5x_like.pretrained.weight_sources import known_sizes, with_known_positions
from t5x_like.text.heads.head_answers import OutputScale
from t5x_like.text.vocabularies.piece_sources import PieceSources, piece_sources
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


@config_class
class VocabularyTransfer:
    """Embeddings of the tasks' vocabulary, made from those of the checkpoint's (Gee et al. 2022).

    A piece that both have keeps its vector, in the output layer, too. Another begins with the mean of those of the old
    pieces that its text is cut into, and one that can't be cut with the mean of all. All other weights stay.

    Attributes:
      from_vocabulary: Path of the checkpoint's vocabulary; ``None`` for the one next to its weights.
    """

    from_vocabulary: str | None = changeable(default=None)

    def sources(self, directory: PathLike, tokenizer: object) -> PieceSources:
        """Return the old ids that each new one begins with.

        Args:
          directory: The checkpoint.
          tokenizer: Tokenizer of the tasks, or a vocabulary that has one.

        Raises:
          ValueError: One of the two vocabularies has no tokenizer here.
        """
        new = getattr(tokenizer, "core", tokenizer)
        if not isinstance(new, Tokenizer):
            raise ValueError(
                "vocabulary_transfer compares the pieces of two vocabularies, and that of the tasks is of another "
                "library; give the tasks a vocabulary by its path"
            )
        return piece_sources(old_tokenizer(directory, self.from_vocabulary), new)


@config_class
class RecordedTransfer:
    """A checkpoint whose weights a run began with, as ``frozen.json`` records it: an ``InitialInputs``.

    Attributes:
      checkpoint: Absolute path of the checkpoint.
      step: Step of it, if it is a run.
      from_vocabulary: Path of its vocabulary; ``None`` for the one next to its weights.
      seed: Seed of what is freshly drawn.
    """

    checkpoint: str
    step: int | None = None
    from_vocabulary: str | None = None
    seed: int = 0

    def sources(self) -> Mapping[str, str]:
        """Return what the run began with, by the field that has its path."""
        return {"checkpoint": f"those of {self.checkpoint} for another vocabulary"}

    def weights(
        self, params: Parameters, config: Any, *, run: str, vocabulary: Callable[[], Any], mesh: Mesh | None
    ) -> Parameters:
        """Return the checkpoint's weights for the run's vocabulary.

        Args:
          params: Fresh weights, which aren't needed.
          config: Configuration of the model.
          run: Directory of the run.
          vocabulary: Returns the run's tokenizer.
          mesh: Devices to place the weights on.
        """
        del params
        tokenizer = vocabulary()
        try:
            config = with_known_positions(self.checkpoint, config)
            return transferred(
                self, config, tokenizer, mesh=mesh, classes=classes_at(run), scale=scale_of_run(run)
            )[0]
        except (OSError, ValueError) as error:
            raise missing_source(error, "checkpoint", self.checkpoint, run=run) from error


def transferred(
    recorded: RecordedTransfer,
    model: CommonConfig,
    tokenizer: object,
    *,
    mesh: Mesh | None,
    classes: Sequence[str],
    scale: OutputScale,
) -> tuple[Parameters, int | None]:
    """Return a checkpoint's weights for another vocabulary, and the step that they are of; log what was changed.

    Args:
      recorded: The checkpoint.
      model: Configuration of the model to train.
      tokenizer: Tokenizer of the tasks, or a vocabulary that has one.
      mesh: Devices to place the weights on.
      classes: Class names of the tasks' head, in order.
      scale: Scale in which the tasks' head predicts numbers.

    Raises:
      ValueError: A file is missing, or the weights are another model's.
    """
    sources = VocabularyTransfer(from_vocabulary=recorded.from_vocabulary).sources(
        recorded.checkpoint, tokenizer
    )
    old = with_known_vocabulary(recorded.checkpoint, model)
    checkpoint, notes = open_initial(
        recorded.checkpoint,
        config=old,
        mesh=mesh,
        step=recorded.step,
        seed=recorded.seed,
        classes=classes,
        scale=scale,
    )
    for note in (*notes, f"{recorded.checkpoint}: {sources.summary}"):
        _log.warning("%s", note)
    return with_vocabulary(checkpoint.params, model, sources, seed=recorded.seed, mesh=mesh), checkpoint.step


def with_known_vocabulary(directory: PathLike, model: CommonConfig) -> CommonConfig:
    """Return a model's configuration with as many ids as a checkpoint has embeddings for.

    Args:
      directory: The checkpoint.
      model: Configuration of the model to train.

    Raises:
      ValueError: The checkpoint has no configuration.
    """
    sizes = known_sizes(directory)
    if "vocab_size" not in sizes:
        raise ValueError(
            f"{directory} has no model.json or config.json, so the size of its vocabulary is unknown; give the run's "
            "own directory"
        )
    return replace(model, vocab_size=sizes["vocab_size"])
