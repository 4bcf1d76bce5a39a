"""Fields and checks that the configurations of recurrent models share."""

from collections.abc import Collection, Mapping

import numpy as np

from t5x_like.ancestors.families.pretrained_features import FEATURES_MODEL, FeaturesConfig
from t5x_like.config_class import config_class
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.common_config import CommonConfig


@config_class
class RNNConfig(CommonConfig):
    """Base of recurrent models: ``CommonConfig`` without what only Transformers have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention_implementation not in ("auto", "plain"):
            raise ValueError(
                f"attention_implementation={self.attention_implementation!r}, and a recurrent model has no such "
                "attention; leave it 'auto'"
            )
        if self.adapter is not None:
            raise ValueError(
                f"adapter={type(self.adapter).__name__}, and adapters have no place in a recurrent model; leave it None"
            )
        if self.quantization is not None:
            raise ValueError(
                f"quantization={self.quantization!r}, and products of a recurrent model aren't computed in 8 bits; "
                "leave it None"
            )
        if self.remat != "none":
            raise ValueError(f"remat={self.remat!r}, and recurrent layers keep all activations; set 'none'")
        if not self.scan_layers:
            raise ValueError(
                "scan_layers=False, and layers of a recurrent model don't run in a loop; leave it 'auto'"
            )
        if self.float32_gradients:
            raise ValueError(
                "float32_gradients=True, and only projections of Transformers have it; leave it False"
            )


@config_class
class RNNWithFeaturesConfig(RNNConfig):
    """Base of recurrent models that may read features of a pretrained model.

    Attributes:
      features: Features next to word embeddings; ``None`` for none. ``PretrainedInputs.features`` sets them.
    """

    features: FeaturesConfig | None = None

    @property
    def vocabulary_weights(self) -> tuple[str, ...]:
        """Paths of constant weights of the pretrained model."""
        if self.features is None:
            return ()
        return tuple(f"{FEATURES_MODEL}/{path}" for path in traits_of(self.features.model).vocabulary_weights)

    def weights_of_vocabulary(self, vocabulary: object) -> Mapping[str, np.ndarray]:
        """Return the constant weights of the pretrained model."""
        if self.features is None:
            return {}
        weights = traits_of(self.features.model).weights_of_vocabulary(vocabulary)
        return {f"{FEATURES_MODEL}/{path}": array for path, array in weights.items()}

    def trained_by_default(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return patterns of all weights but those of the pretrained model."""
        if self.features is None:
            return ("*",)
        own = {path.split("/")[0] for path in paths if not path.startswith("features/")}
        mixes = {"features/mixes"} if any(path.startswith("features/mixes/") for path in paths) else set()
        return tuple(f"{folder}/*" for folder in sorted(own | mixes))
