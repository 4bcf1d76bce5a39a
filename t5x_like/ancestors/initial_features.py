"""A pretrained model whose hidden states are features of the model to train (McCann et al. 2017)."""

from dataclasses import replace
from typing import Any

from jax.sharding import Mesh

from t5x_like.ancestors.families.pretrained_features import FEATURES_MODEL, FeatureMix, FeaturesConfig
from t5x_like.ancestors.zoo.rnn_config import RNNWithFeaturesConfig
from t5x_like.config_class import changeable, config_class
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.weight_sources import read_config


@config_class
class CheckpointFeatures:
    """Adds the hidden states of a pretrained model to the word embeddings of the model to train.

    It reads the same tokens, and its weights are frozen unless ``Experiment.trainable`` names them.

    Attributes:
      start_from: A run, a Hugging Face directory, or any other checkpoint.
      step: Step of a run; its newest if not given.
      mix: Mixture of all layers, as of ELMo; ``None`` for the last layer's outputs, as of CoVe.
    """

    start_from: str = changeable()
    step: int | None = None
    mix: FeatureMix | None = None

    def resolve(self, model: Any) -> Any:
        """Return the configuration of a model with these features.

        Raises:
          ValueError: The model takes no features, or there is no checkpoint.
        """
        if not isinstance(model, RNNWithFeaturesConfig):
            raise ValueError(
                f"features={self.start_from!r}, and a {type(model).__name__} takes no features of another model; take "
                "a BCN or a BiLSTM, or fine-tune the pretrained model itself (start_from)"
            )
        pretrained = read_config(self.start_from)
        if "compute_dtype" in vars(pretrained):
            pretrained = replace(pretrained, compute_dtype=model.compute_dtype)
        return replace(model, features=FeaturesConfig(model=pretrained, mix=self.mix))


def with_features(
    params: parameters.Parameters,
    config: Any,
    *,
    start_from: PathLike,
    step: int | None,
    mesh: Mesh | None,
) -> tuple[parameters.Parameters, int | None]:
    """Return a model's weights with those of the model that its features come from, and the step they are of.

    Args:
      params: Weights of the model.
      config: Configuration of the model.
      start_from: Checkpoint of the pretrained model.
      step: Step of a run; its newest if not given.
      mesh: Devices to place the weights on.

    Raises:
      FileNotFoundError, ValueError: There are no weights, or those of another model.
    """
    checkpoint = open_checkpoint(start_from, mesh=mesh, step=step, config=config.features.model)
    pretrained = {
        f"{FEATURES_MODEL}/{path}": weight for path, weight in parameters.flatten(checkpoint.params).items()
    }
    return parameters.unflatten(parameters.flatten(params) | pretrained), checkpoint.step
