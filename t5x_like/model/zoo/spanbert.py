"""SpanBERT (Joshi et al. 2020, https://arxiv.org/abs/1907.10529): BERT that also learns words from the ends of spans.

Its files are BERT's: ``zoo/bert.py`` reads them, and export leaves behind what only pretraining needs.
"""

import dataclasses
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat
from t5x_like.model.span_boundary import SpanBoundaryConfig
from t5x_like.model.zoo import bert
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType


@dataclass(frozen=True, kw_only=True)
class SpanBertConfig:
    """A SpanBERT of any size. Pretraining, ``masked_lm``, has scores ``span_boundary`` besides; other tasks are BERT's.

    Spans may be ``num_span_positions`` long; the paper masks up to 10 words, which can be more tokens.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    num_span_positions: int = 20
    span_position_dim: int = 200
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    task: ModelTask = "masked_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Encoder:
        """The model with fresh weights."""
        return Encoder(self.encoder, key=key)

    @property
    def bert(self) -> bert.BertConfig:
        """The model that remains after pretraining."""
        names = (field.name for field in dataclasses.fields(bert.BertConfig))
        return bert.BertConfig(**{name: getattr(self, name) for name in names})

    @property
    def encoder(self) -> EncoderConfig:
        """The parts that it is made of."""
        if self.task != "masked_lm":
            return self.bert.encoder
        spans = SpanBoundaryConfig(
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            num_positions=self.num_span_positions,
            position_dim=self.span_position_dim,
        )
        return dataclasses.replace(self.bert.encoder, span_boundary=spans)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """BERT's."""
        return self.bert.embeddings


def to_hugging_face(config: SpanBertConfig) -> dict[str, Any]:
    """The fields of a BERT's ``config.json``."""
    if config.encoder.span_boundary is not None:
        warnings.warn(
            "written as BertForMaskedLM, without the span-boundary head: Hugging Face's files have no place for it; "
            "to go on with pretraining, keep the run's own checkpoints",
            stacklevel=2,
        )
    return bert.to_hugging_face(config.bert)


SPANBERT = replace(
    bert.BERT,
    name="spanbert",
    config_class=SpanBertConfig,
    model_types=(),
    to_hugging_face=to_hugging_face,
    hugging_face_weights=lambda config: bert.hugging_face_weights(config.bert),
)
