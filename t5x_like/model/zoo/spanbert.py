"""SpanBERT (Joshi et al. 2020, https://arxiv.org/abs/1907.10529): BERT that also predicts spans from their ends.

Its published files are BERT's: ``zoo/bert.py`` reads them, and export leaves out the head for pretraining.
"""

import dataclasses
import warnings
from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.span_boundary import SpanBoundaryConfig
from t5x_like.model.zoo import bert
from t5x_like.model.zoo.model_tasks import ModelTask


@config_class
class SpanBertConfig(bert.BertConfig):
    """A SpanBERT of any size: ``BertLikeConfig`` and these fields.

    The task ``masked_lm`` has the further head ``span_boundary``; other tasks have BERT's heads.

    Attributes:
      max_span_length: Longest span in tokens. The paper masks up to 10 words, which can be more tokens.
      span_position_dim: Width of the embeddings of positions in a span.
    """

    max_span_length: int = 20
    span_position_dim: int = 200
    task: ModelTask = "masked_lm"

    @property
    def bert(self) -> bert.BertConfig:
        """BERT that remains after pretraining."""
        names = (field.name for field in dataclasses.fields(bert.BertConfig))
        return bert.BertConfig(**{name: getattr(self, name) for name in names})

    @property
    def reads_masks(self) -> bool:
        """See ``ModelTraits``: spans are runs of targets."""
        return self.task == "masked_lm"

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        if self.task != "masked_lm":
            return super().encoder
        spans = SpanBoundaryConfig(
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            max_span_length=self.max_span_length,
            position_dim=self.span_position_dim,
        )
        return replace(super().encoder, span_boundary=spans)


def _to_hugging_face(config: SpanBertConfig) -> dict[str, object]:
    if config.encoder.span_boundary is not None:
        warnings.warn(
            "written as BertForMaskedLM, without the span-boundary head: Hugging Face's files have no place for it; "
            "to go on with pretraining, keep the run's own checkpoints",
            stacklevel=2,
        )
    return bert.BERT.to_hugging_face(config.bert)


SPANBERT = replace(
    bert.BERT,
    name="spanbert",
    config_class=SpanBertConfig,
    model_types=(),
    to_hugging_face=_to_hugging_face,
    hugging_face_weights=lambda config: bert.BERT.hugging_face_weights(config.bert),
)
