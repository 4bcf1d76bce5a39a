"""GLM-4 (Team GLM 2024, https://arxiv.org/abs/2406.12793): Llama's block, half of each head rotated, as neighbors."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, split_columns


@config_class
class Glm4Config(LlamaLikeConfig):
    """A GLM-4 of any size: ``LlamaLikeConfig`` and these fields.

    Attributes:
      partial_rotary_factor: Part of each head's dimensions, the first ones, that is rotated.
      attention_bias: Adds a bias to queries, keys and values.
    """

    head_dim: int = 128
    partial_rotary_factor: float = 0.5
    attention_bias: bool = True
    max_position_embeddings: int = 131_072
    norm_epsilon: float = 1.5625e-07

    @property
    def rotary(self) -> Rotary:
        """Rotary positions of neighboring dimensions."""
        return replace(
            super().rotary, rotated_dim=int(self.head_dim * self.partial_rotary_factor), interleaved=True
        )

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(super().attention(layer), in_bias=self.attention_bias)


def _feed_forward_rows(config: Glm4Config, _: int) -> list[Weight]:
    gated = ("feed_forward/gate/kernel", "feed_forward/up/kernel")
    halves = TRANSPOSED.then(split_columns(config.mlp_dim, config.mlp_dim))
    return [
        Weight(gated, "model.layers.{layer}.mlp.gate_up_proj.weight", halves),
        *module_rows({"feed_forward/down": "model.layers.{layer}.mlp.down_proj"}, bias=False),
    ]


GLM4 = llama_like(
    "glm4",
    Glm4Config,
    decoder_classes("Glm", question_answering=False),
    model_type="glm",
    own_fields=("attention_bias",),
    write=lambda config: {"partial_rotary_factor": config.partial_rotary_factor},
    num_kv_heads=2,
    feed_forward=_feed_forward_rows,
    special_ids={"pad_token_id": 151_329, "eos_token_id": (151329, 151336, 151338)},
)
