"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from t5x_like.config_class import config_class
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bart_like import (
    BART_LIKE_FIELDS,
    BART_LIKE_IGNORED,
    BartLikeConfig,
    bart_like_weights,
)

_EPSILON = LayerNormConfig().epsilon


@config_class
class BartConfig(BartLikeConfig):
    """A BART of any size. Each stack has its own positions and a norm of its inputs.

    Its encoder is also that of RoBERTa and XLM-R, and with ``norm_epsilon=1e-12`` that of BERT (``PretrainedEncoder``).

    Attributes:
      norm_epsilon: Added to the variance in all norms; Hugging Face's BART has 1e-5.
    """

    norm_epsilon: float = _EPSILON

    decoder_start: ClassVar[int] = 2  # the end of sequence, as in fairseq

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions, normalized. As in fairseq, two unused rows precede position 0."""
        return self.embeddings_of(
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings, offset=2),
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
        )

    def _block(self, stack: Literal["encoder", "decoder"]) -> BlockConfig:
        return replace(super()._block(stack), norm=LayerNormConfig(epsilon=self.norm_epsilon))


def refuse_other_epsilons(config: BartConfig) -> Mapping[str, object]:
    """Return no fields.

    Raises:
      ValueError: Norms have another epsilon than transformers', which no field of a ``config.json`` says.
    """
    if config.norm_epsilon != _EPSILON:
        raise ValueError(
            f"this BART has norm_epsilon={config.norm_epsilon:g}, and transformers' has {_EPSILON:g} and no field for "
            "it; it can't be exported"
        )
    return {}


BART = published(
    "bart",
    BartConfig,
    {
        "BartForConditionalGeneration": "sequence_to_sequence_lm",
        "BartForSequenceClassification": "sequence_classification",
        "BartForQuestionAnswering": "question_answering",
        "BartModel": "base",
    },
    FieldTable(
        fields=BART_LIKE_FIELDS,
        fixed={"is_encoder_decoder": True, "tie_word_embeddings": True},
        # Options of BART's relatives, which older files name.
        required={
            "normalize_before": False,
            "normalize_embedding": True,
            "add_final_layer_norm": False,
            "add_bias_logits": False,
            "static_position_embeddings": False,
            "extra_pos_embeddings": 2,
        },
        ignored=(*BART_LIKE_IGNORED, "force_bos_token_to_be_generated"),
        written={
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
            "eos_token_id": 2,
            "pad_token_id": 1,
            "forced_eos_token_id": None,
        },
        default_task="sequence_to_sequence_lm",
        # Without classes in the file there are 3: entailment, neutral, contradiction.
        read=lambda fields, values: {
            "num_labels": values["num_labels"]
            if fields.config.get("id2label") or "num_labels" in fields.config
            else 3
        },
        write=refuse_other_epsilons,
    ),
    weights=bart_like_weights,
    prefix="model.",
)
