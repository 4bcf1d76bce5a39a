"""Switch Transformers: T5 with experts in every other feed-forward layer (Fedus et al. 2021, arXiv:2101.03961).

With two experts for each token it is GShard's layer (Lepikhin et al. 2020, https://arxiv.org/abs/2006.16668).
"""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.mixture_of_experts import MixtureOfExpertsConfig
from t5x_like.model.layers.router import SoftmaxRouter
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.t5_like import T5LikeConfig


@config_class
class SwitchTransformerConfig(T5LikeConfig):
    """A Switch Transformer of any size: ``T5LikeConfig`` and these fields.

    Attributes:
      num_encoder_layers: Blocks of the encoder.
      num_decoder_layers: Blocks of the decoder.
      num_experts: Experts in a sparse layer.
      num_experts_per_token: Experts that each token uses (see ``MixtureOfExpertsConfig``).
      capacity_factor: Places in the experts (see ``MixtureOfExpertsConfig``).
      balance_weight: Weight of the load-balancing loss.
      router_z_weight: Weight of the router's z-loss.
      sparse_step: Every ``sparse_step``-th layer, counted from 1, is sparse.
    """

    num_encoder_layers: int
    num_decoder_layers: int
    num_experts: int
    num_experts_per_token: int = 1
    capacity_factor: float | None = 1.25
    balance_weight: float = 0.01
    router_z_weight: float = 0.0
    sparse_step: int = 2
    task: ModelTask = "sequence_to_sequence_lm"

    def __post_init__(self) -> None:
        if self.sparse_step > max(self.num_encoder_layers, self.num_decoder_layers):
            raise ValueError(
                f"num_experts={self.num_experts} has no effect: sparse_step={self.sparse_step} leaves no sparse layer "
                f"among {self.num_encoder_layers} of the encoder and {self.num_decoder_layers} of the decoder; lower "
                "it, or take a T5"
            )
        super().__post_init__()

    @property
    def parts(self) -> EncoderDecoderConfig:
        """Configuration of the family's model."""
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=self._stack(self.num_encoder_layers, decoder=False),
            decoder=self._stack(self.num_decoder_layers, decoder=True),
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    def _stack(self, num_layers: int, *, decoder: bool) -> StackConfig:
        dense = self.block(self.attention(), cross_attention=self.attention() if decoder else None)
        sparse = replace(dense, feed_forward=self._experts(dense))
        blocks = tuple(dense if layer % self.sparse_step else sparse for layer in range(1, num_layers + 1))
        return replace(self.stack(dense, num_layers), blocks=blocks)

    def _experts(self, dense: BlockConfig) -> MixtureOfExpertsConfig:
        one = dense.feed_forward
        return MixtureOfExpertsConfig(
            mlp_dim=one.mlp_dim,
            activation=one.activation,
            gated=one.gated,
            num_experts=self.num_experts,
            num_experts_per_token=self.num_experts_per_token,
            router=SoftmaxRouter(norm_topk_prob=self.num_experts_per_token > 1),
            capacity_factor=self.capacity_factor,
            balance_weight=self.balance_weight,
            router_z_weight=self.router_z_weight,
        )


SWITCH_TRANSFORMER = unpublished(
    "switch_transformer",
    SwitchTransformerConfig,
    "Switch Transformers are not exchanged with Hugging Face: its routing drops other tokens, so the same "
    "weights would be another model; keep the run directory",
)
