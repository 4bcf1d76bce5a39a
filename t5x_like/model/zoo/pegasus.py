"""PEGASUS (Zhang et al. 2020, https://arxiv.org/abs/1912.08777): norms before the layers, absolute positions."""

from typing import ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bart_like import (
    BART_LIKE_FIELDS,
    BART_LIKE_IGNORED,
    BartLikeConfig,
    bart_like_weights,
)


@config_class
class PegasusConfig(BartLikeConfig):
    """A PEGASUS of any size: norms before the layers, and a table of sinusoids that isn't trained."""

    norms_before: ClassVar[bool] = True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and sinusoids."""
        return self.embeddings_of(
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings, sinusoidal=True),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
        )


PEGASUS = published(
    "pegasus",
    PegasusConfig,
    {"PegasusForConditionalGeneration": "sequence_to_sequence_lm", "PegasusModel": "base"},
    FieldTable(
        fields=BART_LIKE_FIELDS,
        fixed={"is_encoder_decoder": True, "tie_word_embeddings": True},
        required={
            "normalize_before": True,
            "normalize_embedding": False,
            "add_final_layer_norm": True,
            "add_bias_logits": False,
            "static_position_embeddings": True,
            "extra_pos_embeddings": 1,
        },
        ignored=(*BART_LIKE_IGNORED, "is_decoder", "force_bos_token_to_be_generated"),
        written={
            "decoder_start_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "forced_eos_token_id": 1,
        },
        default_task="sequence_to_sequence_lm",
    ),
    weights=bart_like_weights,
    prefix="model.",
)
