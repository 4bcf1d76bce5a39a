"""The way to start that a recipe's macros ask for."""

from t5x_like.configuration_names import config_function
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.start.fresh_weights import FreshWeights
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.start.start import Start
from t5x_like.training.start.vocabulary_transfer import VocabularyTransfer


@config_function
def start_from(
    checkpoint: str | None = None,
    noisy_tune: NoisyTune | None = None,
    inputs: Start | None = None,
    vocabulary_transfer: VocabularyTransfer | None = None,
    new_positions: bool = False,
) -> Start:
    """Return the start from a checkpoint, or from fresh weights.

    Args:
      checkpoint: A run or a Hugging Face directory; ``None`` for fresh weights.
      noisy_tune: Noise on the checkpoint's weights; ``None`` for none.
      inputs: Start of a model with fresh weights whose inputs are pretrained; ``None`` for fresh ones.
      vocabulary_transfer: Makes embeddings for another vocabulary than the checkpoint's; ``None`` for its own.
      new_positions: The model's rotary positions may differ from the checkpoint's.

    Raises:
      ValueError: Noise, another vocabulary or other positions without a checkpoint, or a checkpoint with pretrained
        inputs of fresh weights.
    """
    inputs = inputs or FreshWeights()
    if not checkpoint:
        if noisy_tune is not None:
            raise ValueError(
                "noisy_tune adds noise to pretrained weights; say whose by start_from (INITIAL_CHECKPOINT='…'), or "
                "leave it out"
            )
        if vocabulary_transfer is not None:
            raise ValueError(
                "vocabulary_transfer makes embeddings from those of a checkpoint; name it by start_from "
                "(INITIAL_CHECKPOINT='…')"
            )
        if new_positions:
            raise ValueError(
                "new_positions is for a model that was trained with others; name it by start_from "
                "(INITIAL_CHECKPOINT='…')"
            )
        return inputs
    if inputs != FreshWeights():
        raise ValueError(
            f"{inputs} fills in fresh weights, and start_from={checkpoint!r} has trained ones; give one of the two"
        )
    return PretrainedWeights(
        start_from=checkpoint,
        noisy_tune=noisy_tune,
        vocabulary_transfer=vocabulary_transfer,
        new_positions=new_positions,
    )
