"""DeBERTa v3 in pretraining: a generator and the discriminator that remains (He et al. 2021, arXiv:2111.09543).

The discriminator's head is that of microsoft/DeBERTa (``replaced_token_detection_model.py``). The authors' generator
ends in an enhanced mask decoder, which runs the last layer twice; here it has DeBERTa's usual head.
"""

from dataclasses import fields
from typing import Any, ClassVar

from t5x_like.config_class import changeable, config_class
from t5x_like.model.families.generator_discriminator import EmbeddingSharing
from t5x_like.model.layers.attention_implementations import AttentionChoice
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.layer_scan import LayerLoop
from t5x_like.model.layers.remat import Remat
from t5x_like.model.zoo.common_config import ComputeDtype
from t5x_like.model.zoo.deberta_v2 import DEBERTA_V2, DebertaV2Config
from t5x_like.model.zoo.replaced_token_pretraining import ReplacedTokenPretraining, in_pretraining

_OWN_FIELDS = ("num_generator_layers", "discriminator_weight")


@config_class
class DebertaV3PretrainingConfig(ReplacedTokenPretraining):
    """A generator and a discriminator of any size, with gradient-disentangled word tables.

    Fields other than the first two are those of ``DebertaV2Config``; sizes are the discriminator's.

    Attributes:
      num_generator_layers: Layers of the generator, which is as wide as the discriminator: half as many (§5.1).
      discriminator_weight: Weight of the discriminator's loss (§3.2).
      vocab_size: Number of token ids.
      model_dim: Width of both residual streams.
      mlp_dim: Inner width of feed-forward layers.
      num_heads: Attention heads of each layer.
      num_layers: Layers of the discriminator.
      max_position_embeddings: Distance from which on all share a vector.
      position_buckets: Vectors of each direction.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
      dropout_rate: Dropout of both models.
      compute_dtype: Type of activations.
      remat: Activations that the backward pass computes again.
      scan_layers: Layers run in a loop (see ``CommonConfig``).
      attention_implementation: Computation of attention (see ``CommonConfig``).
      pad_vocab_to_multiple_of: Word tables are padded to a multiple of this many rows.
    """

    embedding_sharing: ClassVar[EmbeddingSharing] = "gradient_disentangled"
    can_pack: ClassVar[bool] = False  # scores depend on the first token of a row
    num_generator_layers: int
    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    position_buckets: int = 256
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-7
    dropout_rate: float = 0.0
    compute_dtype: ComputeDtype = "float32"
    remat: Remat = changeable(default="none")
    scan_layers: LayerLoop = changeable(default="auto")
    attention_implementation: AttentionChoice = changeable(default="auto")
    pad_vocab_to_multiple_of: int = 128

    @property
    def discriminator(self) -> DebertaV2Config:
        """Model that remains after pretraining."""
        return DebertaV2Config(**self._shared, task="replaced_tokens")

    @property
    def generator(self) -> DebertaV2Config:
        """Model that proposes replacements."""
        return DebertaV2Config(**{**self._shared, "num_layers": self.num_generator_layers}, task="masked_lm")

    @property
    def _shared(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in _OWN_FIELDS
        }


DEBERTA_V3_PRETRAINING = in_pretraining(
    DEBERTA_V2, DebertaV3PretrainingConfig, name="deberta_v3_pretraining", task="base"
)
