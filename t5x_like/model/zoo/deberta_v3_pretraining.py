"""DeBERTa v3 in pretraining: a generator and the discriminator that remains (He et al. 2021, arXiv:2111.09543).

The discriminator's head is that of microsoft/DeBERTa (``replaced_token_detection_model.py``). The authors' generator
ends in an enhanced mask decoder, which runs the last layer twice; here it has DeBERTa's usual head.
"""

from typing import ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.families.generator_discriminator import EmbeddingSharing
from t5x_like.model.zoo.deberta_v2 import DEBERTA_V2, DebertaV2Config
from t5x_like.model.zoo.replaced_token_pretraining import ReplacedTokenPretraining, in_pretraining


@config_class
class DebertaV3PretrainingConfig(ReplacedTokenPretraining):
    """Both models of any size, with gradient-disentangled word tables: ``ReplacedTokenPretraining`` and these fields.

    Attributes:
      num_generator_layers: Layers of the generator, which is as wide as the discriminator. The authors' ``rtd_*.json``
        have half as many.
      position_buckets: Vectors of distances of each direction.
    """

    embedding_sharing: ClassVar[EmbeddingSharing] = "gradient_disentangled"
    can_pack: ClassVar[bool] = False  # scores depend on the first token of a row
    own_fields: ClassVar[tuple[str, ...]] = ("num_generator_layers",)
    num_generator_layers: int
    position_buckets: int = 256
    norm_epsilon: float = 1e-7

    @property
    def discriminator(self) -> DebertaV2Config:
        """Model that remains after pretraining."""
        return DebertaV2Config(**self.shared_fields, task="replaced_tokens")

    @property
    def generator(self) -> DebertaV2Config:
        """Model that proposes replacements."""
        sizes = {**self.shared_fields, "num_layers": self.num_generator_layers}
        return DebertaV2Config(**sizes, task="masked_lm")


DEBERTA_V3_PRETRAINING = in_pretraining(
    DEBERTA_V2, DebertaV3PretrainingConfig, name="deberta_v3_pretraining", task="base"
)
