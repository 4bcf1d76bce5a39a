"""The way to start that a recipe's macros ask for."""

from t5x_like.ancestors.initial_features import CheckpointFeatures
from t5x_like.ancestors.pretrained_inputs import PretrainedInputs
from t5x_like.configuration_names import config_function
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.start.fresh_weights import FreshWeights
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.start.start import Start


@config_function
def start_from(
    checkpoint: str | None = None,
    noisy_tune: NoisyTune | None = None,
    word_vectors: str | None = None,
    features: CheckpointFeatures | None = None,
) -> Start:
    """Return the start from a checkpoint, or from fresh weights, whose inputs may be pretrained.

    Args:
      checkpoint: A run or a Hugging Face directory; ``None`` for fresh weights.
      noisy_tune: Noise on the checkpoint's weights; ``None`` for none.
      word_vectors: File of vectors for fresh word embeddings; ``None`` for none.
      features: Pretrained model whose hidden states join fresh word embeddings; ``None`` for none.

    Raises:
      ValueError: Noise without a checkpoint, or a checkpoint with pretrained inputs of fresh weights.
    """
    if not checkpoint:
        if noisy_tune is not None:
            raise ValueError(
                "noisy_tune adds noise to pretrained weights; say whose by start_from (INITIAL_CHECKPOINT='…'), or "
                "leave it out"
            )
        if word_vectors is None and features is None:
            return FreshWeights()
        return PretrainedInputs(word_vectors=word_vectors, features=features)
    if word_vectors is not None:
        raise ValueError(
            f"word_vectors={word_vectors!r} replaces fresh word embeddings, and start_from={checkpoint!r} has trained "
            "ones; give one of the two"
        )
    if features is not None:
        raise ValueError(
            f"features={features.start_from!r} are of a fresh model, and start_from={checkpoint!r} has its own; give "
            "one of the two"
        )
    return PretrainedWeights(start_from=checkpoint, noisy_tune=noisy_tune)
