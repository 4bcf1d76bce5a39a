"""Checks that the configurations of all recurrent models share."""

from t5x_like.config_class import config_class
from t5x_like.model.zoo.common_config import CommonConfig


@config_class
class RNNConfig(CommonConfig):
    """Base of recurrent models: ``CommonConfig`` without what only Transformers have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention_implementation != "plain":
            raise ValueError(
                f"attention_implementation={self.attention_implementation!r}, and a recurrent model has no such "
                "attention; leave it 'plain'"
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
                "scan_layers=False, and layers of a recurrent model don't run in a loop; leave it True"
            )
        if self.float32_gradients:
            raise ValueError(
                "float32_gradients=True, and only projections of Transformers have it; leave it False"
            )
