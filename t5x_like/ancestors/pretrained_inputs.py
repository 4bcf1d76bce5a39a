"""A run of a fresh model whose inputs are pretrained: word vectors, or another model's hidden states."""

import logging
import os
from typing import Any

from jax.sharding import Mesh

from t5x_like.ancestors.initial_features import CheckpointFeatures
from t5x_like.ancestors.word_vectors.initial_table import match_vectors, with_vectors
from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import config_class
from t5x_like.io.paths import find_file
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.open_checkpoint import open_unread, with_features
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.start.start import Start, StartingWeights
from t5x_like.training.vocabulary_checks import check_same_vocabulary

log = logging.getLogger(__name__)


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

    def resolve(self, model: Any, head: tuple[str, int, str | None] | None) -> Any:
        """Return the configuration of the model to train, with that of the model of ``features`` in it."""
        model = super().resolve(model, head)
        return model if self.features is None else self.features.resolve(model)

    def check(self, loader: Any) -> None:
        """Check that the model of the features reads the vocabulary of the tasks."""
        if self.features is None:
            return
        with open_unread(self.features.start_from, step=self.features.step) as pretrained:
            check_same_vocabulary("the model of the features", pretrained, loader)

    def check_weights(self, model: Any, tokenizer: Tokenizer | None) -> list[str]:
        """Read word vectors as a run does, and return how many words they have."""
        if self.word_vectors is None or tokenizer is None:
            return []
        return [match_vectors(model, self.word_vectors, tokenizer).note]

    def weights(
        self, model: Any, *, mesh: Mesh, seed: int, train: LoaderConfig, vocabulary: Any
    ) -> StartingWeights:
        """Return fresh weights with word vectors and features in them."""
        params, origin = fresh_params(model, mesh=mesh, seed=seed), dict[str, Any]()
        if self.word_vectors is not None:
            matched = match_vectors(model, self.word_vectors, vocabulary)
            log.warning("%s", matched.note)
            params = with_vectors(params, matched)
            origin["word_vectors"] = os.fspath(absolute(find_file(self.word_vectors)))
        if (features := self.features) is not None:
            params, step = with_features(
                params, model, start_from=features.start_from, step=features.step, mesh=mesh
            )
            origin |= {"features": os.fspath(absolute(features.start_from)), "features_step": step}
        return StartingWeights(params, origin)
