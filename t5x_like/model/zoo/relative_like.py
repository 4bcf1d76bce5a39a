"""The configuration that Transformer-XL and XLNet share."""

from t5x_like.config_class import config_class
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.relative_attention import RelativeAttentionConfig
from t5x_like.model.layers.relative_stack import RelativeStackConfig
from t5x_like.model.layers.residual import NormSlot
from t5x_like.model.model_traits import CarriedMemory
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import WeightTransform


@config_class
class RelativeLikeConfig(CommonConfig):
    """Blocks with attention by relative distance and a memory of earlier segments, of any size.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer.
      head_dim: Width of a head.
      num_layers: Number of blocks.
      max_distance: Larger distances count as this one; ``None`` for no limit.
      norm_epsilon: Added to the variance in all norms.
      init_stddev: Standard deviation of fresh weights.
    """

    mlp_dim: int
    num_heads: int
    head_dim: int
    num_layers: int
    max_distance: int | None = None
    task: ModelTask = "causal_lm"
    norm_epsilon: float = 1e-5
    init_stddev: float = 0.02

    def _stack(
        self,
        *,
        activation: Activation,
        attention_dropout_rate: float,
        norm_slot: NormSlot = "final",
        segments: bool = False,
    ) -> RelativeStackConfig:
        if self.attention_implementation not in ("auto", "plain"):
            raise ValueError(
                f"attention_implementation={self.attention_implementation!r} with Transformer-XL's attention, whose "
                "scores depend on distances by learned keys; only 'plain' computes it"
            )
        return RelativeStackConfig(
            model_dim=self.model_dim,
            num_layers=self.num_layers,
            attention=RelativeAttentionConfig(
                num_heads=self.num_heads, head_dim=self.head_dim, segments=segments
            ),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=activation, bias=True),
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            norm_slots=(norm_slot,),
            max_distance=self.max_distance,
            dropout_rate=self.dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            init=Normal(self.init_stddev),
            remat=self.remat,
            scan_layers=self.scan_layers,
        )


def memory_of(
    memory_length: int | None, *, without: str, reuse_length: int | None = None
) -> CarriedMemory | None:
    """Return the memory of a model of relative attention.

    Args:
      memory_length: Positions of the batch before; ``None`` or 0 for no memory.
      without: Setting of a model without memory.
      reuse_length: Positions of a segment that enter the memory; ``None`` for all.
    """
    if not memory_length:
        return None
    setting = f"the model remembers {memory_length} positions of the batch before (memory_length)"
    return CarriedMemory(setting, without, reuse_length=reuse_length)


def reshaped(published_shape: tuple[int, ...], shape: tuple[int, ...]) -> WeightTransform:
    """Return the conversion between two shapes of the same array.

    Args:
      published_shape: Shape in published files.
      shape: Shape in our model.
    """
    return WeightTransform(lambda array: array.reshape(shape), lambda array: array.reshape(published_shape))
