"""ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663): rotary, gated, mostly local, without biases."""

from typing import Any, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ConfigFields, Field, NameTable
from t5x_like.model.zoo.decoder_like import fused_qkv_row
from t5x_like.model.zoo.layer_types import FULL, SLIDING
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, score_rows, scoring_heads
from t5x_like.model.zoo.modernbert_like import (
    MODERNBERT_FIELDS,
    MODERNBERT_IGNORED,
    MODERNBERT_WRITTEN,
    ModernBertLikeConfig,
    modernbert_weights,
    read_thetas,
    write_modernbert,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, split_columns


@config_class
class ModernBertConfig(ModernBertLikeConfig):
    """A ModernBERT of any size: ``ModernBertLikeConfig`` and these fields.

    Attributes:
      global_attn_every_n_layers: Every n-th layer, from the first one on, has global attention, others local.
      local_attention: Window of local attention in tokens, half of it to each side.
      classifier_pooling: Classifiers of sequences read the first token (``"cls"``) or the mean of all real ones.
    """

    task: ModelTask = "masked_lm"
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    classifier_pooling: Literal["cls", "mean"] = "cls"

    def __post_init__(self) -> None:
        if self.num_layers <= 1 or self.global_attn_every_n_layers <= 1:
            refuse_unused(
                self,
                "local_attention",
                "local_rope_theta",
                because=f"all layers are global (global_attn_every_n_layers={self.global_attn_every_n_layers})",
            )
        super().__post_init__()

    @property
    def parts(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return self.encoder

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return EncoderConfig(
            embeddings=self.embeddings, stack=self.stack, heads=self.heads, compute_dtype=self.compute_dtype
        )

    def window_of(self, layer: int) -> SlidingWindow | None:
        """Return the window of ``layer``, counted from 0; ``None`` where it is global."""
        side = self.local_attention // 2
        return SlidingWindow(left=side, right=side) if layer % self.global_attn_every_n_layers else None

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        if self.task == "base":
            return HeadsConfig()
        if self.task in ("masked_lm", "cloze"):
            return HeadsConfig(lm_head=self.lm_head, cloze=self.task == "cloze")
        # For multiple choice transformers skips padding on the left, for classification it doesn't.
        first = "first_real" if self.task == "multiple_choice" else "first"
        pooling = first if self.classifier_pooling == "cls" else "mean"
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling=pooling, transform=self.transform),
            of_tokens=self.transform,
            dropout_rate=classifier_dropout_of(self),
        )
        if heads is None:
            raise ValueError(f"ModernBERT has no head for the task {self.task!r}")
        return heads


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    every, num_layers = values["global_attn_every_n_layers"], values["num_layers"]
    fields.must_be("layer_types", [SLIDING if layer % every else FULL for layer in range(num_layers)])
    return dict(read_thetas(fields))


def _weights(config: ModernBertConfig) -> tuple[Weight, ...]:
    hf_name, qkv = "model.layers.{layer}.attn.Wqkv", split_columns(*[config.model_dim] * 3)
    projections = [fused_qkv_row(f"{hf_name}.weight", TRANSPOSED.then(qkv))]
    if config.attention_bias:
        projections.append(fused_qkv_row(f"{hf_name}.bias", qkv, "bias"))
    encoder = config.encoder
    rows = modernbert_weights(config, encoder, stack="encoder", projections=projections, words="head")
    return (*rows, *score_rows(encoder.heads, {}))


MODERNBERT = published(
    "modernbert",
    ModernBertConfig,
    {
        "ModernBertForMaskedLM": "masked_lm",
        "ModernBertForSequenceClassification": "sequence_classification",
        "ModernBertForTokenClassification": "token_classification",
        "ModernBertForQuestionAnswering": "question_answering",
        "ModernBertForMultipleChoice": "multiple_choice",
        "ModernBertModel": "base",
    },
    FieldTable(
        fields={
            **MODERNBERT_FIELDS,
            "global_attn_every_n_layers": Field("global_attn_every_n_layers", 3),
            "local_attention": Field("local_attention", 128),
            "classifier_pooling": Field(
                "classifier_pooling", "cls", NameTable({"cls": "cls", "mean": "mean"})
            ),
        },
        ignored=MODERNBERT_IGNORED,
        written=MODERNBERT_WRITTEN,
        read=_read,
        write=write_modernbert,
    ),
    weights=_weights,
    prefix="model.",
    unused_weights=("*.rotary_emb.inv_freq",),
)
