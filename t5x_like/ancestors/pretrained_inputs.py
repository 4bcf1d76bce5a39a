"""A run of a fresh model whose inputs are pretrained: word vectors, or another model's hidden states."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from jax.sharding import Mesh

from t5x_like.ancestors.initial_features import CheckpointFeatures, with_features
from t5x_like.ancestors.word_vectors.initial_table import match_vectors, with_vectors
from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import config_class
from t5x_like.configuration_names import config_function
from t5x_like.io.paths import find_file
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.pretrained.frozen_weights import fresh_params, missing_source
from t5x_like.pretrained.open_checkpoint import open_unread
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.start.fresh_weights import FreshWeights
from t5x_like.training.start.start import Start, StartingWeights
from t5x_like.training.vocabulary_checks import check_same_vocabulary

log = logging.getLogger(__name__)


@config_class
class RecordedInputs:
    """Files of pretrained inputs, as ``frozen.json`` records them: an ``InitialInputs``.

    Attributes:
      word_vectors: Absolute path of the file that fresh word embeddings were replaced from; ``None`` for none.
      features: Absolute path of the checkpoint of pretrained features; ``None`` for none.
      features_step: Step of ``features``, if that is a run.
    """

    word_vectors: str | None = None
    features: str | None = None
    features_step: int | None = None

    def sources(self) -> Mapping[str, str]:
        """Return what a run began with, by the field that has its path."""
        named = {"word_vectors": f"the word vectors of {self.word_vectors}", "features": str(self.features)}
        return {field: name for field, name in named.items() if getattr(self, field) is not None}

    def weights(
        self, params: Parameters, config: Any, *, run: str, vocabulary: Callable[[], Any], mesh: Mesh | None
    ) -> Parameters:
        """Return a model's weights with the word vectors and those of the model of the features.

        Args:
          params: Fresh weights.
          config: Configuration of the model.
          run: Directory of the run, for messages.
          vocabulary: Returns the run's tokenizer.
          mesh: Devices to place the weights on.
        """
        if self.word_vectors is not None:
            try:
                params = with_vectors(params, match_vectors(config, self.word_vectors, vocabulary()))
            except (OSError, ValueError) as error:
                raise missing_source(error, "word_vectors", self.word_vectors, run=run) from error
        if self.features is not None:
            start, step = self.features, self.features_step
            try:
                params, _ = with_features(params, config, start_from=start, step=step, mesh=mesh)
            except (OSError, ValueError) as error:
                raise missing_source(error, "features", start, run=run) from error
        return params


@config_class
class PretrainedInputs(Start):
    """Starts from fresh weights, except for the model's inputs.

    Attributes:
      word_vectors: File of GloVe's or word2vec's vectors for the word embeddings to begin with. Words that it lacks
        keep fresh ones. The vocabulary must be of whole words. ``None`` for fresh embeddings.
      features: Pretrained model whose hidden states join the word embeddings (CoVe); ``None`` for none.
    """

    word_vectors: str | None = None
    features: CheckpointFeatures | None = None

    def resolve(self, model: object, head: tuple[str, int, str | None] | None) -> Any:
        """Return the configuration of the model to train, with that of the model of ``features`` in it."""
        model = super().resolve(model, head)
        return model if self.features is None else self.features.resolve(model)

    def check(self, loader: object) -> None:
        """Check that the model of the features reads the vocabulary of the tasks."""
        if self.features is None:
            return
        with open_unread(self.features.start_from, step=self.features.step) as pretrained:
            check_same_vocabulary("the model of the features", pretrained, loader)

    def check_weights(self, model: ModelConfig, tokenizer: Tokenizer | None) -> list[str]:
        """Read word vectors as a run does, and return how many words they have."""
        if self.word_vectors is None or tokenizer is None:
            return []
        return [match_vectors(model, self.word_vectors, tokenizer).note]

    def weights(
        self, model: Any, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: Any
    ) -> StartingWeights:
        """Return fresh weights with word vectors and features in them."""
        params = fresh_params(model, mesh=mesh, seed=seed)
        word_vectors = features_from = features_step = None
        if self.word_vectors is not None:
            matched = match_vectors(model, self.word_vectors, vocabulary)
            log.warning("%s", matched.note)
            params = with_vectors(params, matched)
            word_vectors = os.fspath(absolute(find_file(self.word_vectors)))
        if (features := self.features) is not None:
            params, features_step = with_features(
                params, model, start_from=features.start_from, step=features.step, mesh=mesh
            )
            features_from = os.fspath(absolute(features.start_from))
        recorded = RecordedInputs(
            word_vectors=word_vectors, features=features_from, features_step=features_step
        )
        return StartingWeights(params, {"inputs": recorded})


@config_function
def initial_inputs(word_vectors: str | None = None, features: CheckpointFeatures | None = None) -> Start:
    """Return the start from fresh weights, whose inputs may be pretrained; for ``start_from.inputs`` of recipes.

    Args:
      word_vectors: File of vectors for the word embeddings; ``None`` for none.
      features: Pretrained model whose hidden states join the word embeddings; ``None`` for none.
    """
    if word_vectors is None and features is None:
        return FreshWeights()
    return PretrainedInputs(word_vectors=word_vectors, features=features)
