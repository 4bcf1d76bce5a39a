"""M2M-100 (Fan et al. 2021, https://arxiv.org/abs/2010.11125) and dense NLLB (NLLB Team 2022, arXiv:2207.04672)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.sinusoids import SinusoidalPositions
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bart_like import (
    BART_LIKE_FIELDS,
    BART_LIKE_IGNORED,
    BartLikeConfig,
    bart_like_weights,
)
from t5x_like.model.zoo.config_fields import ConfigFields


@config_class
class M2M100Config(BartLikeConfig):
    """An M2M-100 or NLLB of any size: norms before the layers, sinusoidal positions, no bias of the output.

    Sinusoids have no end: ``max_position_embeddings`` is exported, and no limit here.
    """

    activation: Activation = "relu"
    scale_embedding: bool = True

    decoder_start: ClassVar[int] = 2
    norms_before: ClassVar[bool] = True
    output_bias: ClassVar[bool] = False

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and sinusoids. As in fairseq, two numbers precede position 0."""
        return self.embeddings_of(
            sinusoidal_positions=SinusoidalPositions(offset=2, wavelengths="tensor2tensor"),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
        )


def _read(fields: ConfigFields, _: Mapping[str, object]) -> Mapping[str, object]:
    fields.must_be("pad_token_id", 1)  # positions count from the number after it
    return {}


_FIELDS = {
    **BART_LIKE_FIELDS,
    "activation": replace(BART_LIKE_FIELDS["activation"], default="relu"),
    "scale_embedding": replace(BART_LIKE_FIELDS["scale_embedding"], default=True),
}

M2M_100 = published(
    "m2m_100",
    M2M100Config,
    {"M2M100ForConditionalGeneration": "sequence_to_sequence_lm", "M2M100Model": "base"},
    FieldTable(
        fields=_FIELDS,
        fixed={"is_encoder_decoder": True, "tie_word_embeddings": True},
        ignored=(*BART_LIKE_IGNORED, "tokenizer_class"),
        written={
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
            "eos_token_id": 2,
            "pad_token_id": 1,
        },
        default_task="sequence_to_sequence_lm",
        read=_read,
    ),
    weights=bart_like_weights,
    prefix="model.",
    unused_weights=("*.embed_positions.weights",),  # the sinusoids, in older files
)
