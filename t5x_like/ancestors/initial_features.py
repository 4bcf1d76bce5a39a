"""A pretrained model whose hidden states are features of the model to train (McCann et al. 2017)."""

from dataclasses import replace
from typing import Any

from t5x_like.ancestors.families.pretrained_features import FeatureMix, FeaturesConfig
from t5x_like.config_class import changeable, config_class
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
        if not hasattr(model, "features"):
            raise ValueError(
                f"features={self.start_from!r}, and a {type(model).__name__} takes no features of another model; take "
                "a BCN or a BiLSTM, or fine-tune the pretrained model itself (start_from)"
            )
        pretrained: Any = read_config(self.start_from)
        if hasattr(pretrained, "compute_dtype"):
            pretrained = replace(pretrained, compute_dtype=model.compute_dtype)
        return replace(model, features=FeaturesConfig(model=pretrained, mix=self.mix))
