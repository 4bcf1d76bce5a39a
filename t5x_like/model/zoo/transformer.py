"""The Transformer of Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762); Hugging Face's ``marian``."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from t5x_like.config_class import config_class
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.linear import FanIn
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
class TransformerConfig(BartLikeConfig):
    """The first Transformer, of any size: sinusoidal positions, and one table for both inputs and the output.

    Marian's translation models (``opus-mt``) are of this architecture, most with ``activation="silu"``. The output has
    a bias as in Marian, which the paper doesn't mention. Sinusoids have no end: ``max_position_embeddings`` is
    exported, and no limit here.
    """

    activation: Activation = "relu"
    scale_embedding: bool = True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Scaled words and sinusoids (sections 3.4 and 3.5)."""
        return self.embeddings_of(
            sinusoidal_positions=SinusoidalPositions(),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
            stddev=self.model_dim**-0.5,
        )

    def _block(self, stack: Literal["encoder", "decoder"]) -> BlockConfig:
        return replace(super()._block(stack), init=FanIn())


def _shares_its_table(fields: ConfigFields, values: Mapping[str, object]) -> Mapping[str, object]:
    fields.must_be("decoder_vocab_size", values["vocab_size"])
    return {}


TRANSFORMER = published(
    "transformer",
    TransformerConfig,
    {"MarianMTModel": "sequence_to_sequence_lm", "MarianModel": "base"},
    FieldTable(
        fields=BART_LIKE_FIELDS,
        fixed={
            "is_encoder_decoder": True,
            "tie_word_embeddings": True,
            "share_encoder_decoder_embeddings": True,
        },
        required={
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "add_bias_logits": False,
            "static_position_embeddings": True,
        },
        ignored=BART_LIKE_IGNORED,
        written={
            "decoder_start_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "forced_eos_token_id": None,
        },
        default_task="sequence_to_sequence_lm",
        read=_shares_its_table,
        write=lambda config: {"decoder_vocab_size": config.vocab_size},
    ),
    weights=bart_like_weights,
    model_types=("marian",),
    prefix="model.",
    unused_weights=("*.embed_positions.weight",),  # the sinusoids, in older files
)
