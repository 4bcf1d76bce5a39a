"""EuroBERT (Boizard et al. 2025, https://arxiv.org/abs/2503.05500): Llama's layers, read in both directions."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.config_fields import ConfigFields, NameTable
from t5x_like.model.zoo.decoder_like import as_encoder
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.model_tasks import ModelTask, heads_for, score_rows
from t5x_like.model.zoo.weights import Weight, module_rows

Pooling = Literal["late", "bos", "mean"]
_POOLINGS = NameTable({"late": "late", "bos": "bos", "mean": "mean"})


@config_class
class EuroBertConfig(LlamaConfig):
    """A EuroBERT of any size, for any task: ``LlamaConfig`` and these fields.

    Attributes:
      classifier_pooling: Classifiers of sequences read the first token (``"bos"``) or the mean of all real ones.
        ``"late"`` is the mean of what their hidden layer makes of each token.
    """

    task: ModelTask = "masked_lm"
    classifier_pooling: Pooling = "late"
    max_position_embeddings: int = 8192
    norm_epsilon: float = 1e-5

    stack_name: ClassVar[Literal["encoder", "decoder"]] = "encoder"

    def __post_init__(self) -> None:
        refuse_unused(self, "keep_lm_head", because="an encoder has one head")
        super().__post_init__()

    @property
    def parts(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return self.encoder

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return as_encoder(self)

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary, whose bias comes with those of the feed-forward layers."""
        return LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, bias=self.mlp_bias)

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        pooler = PoolerConfig(
            pooling="first" if self.classifier_pooling == "bos" else "mean",
            transform=TransformConfig(dim=self.model_dim, activation="gelu"),
            transform_tokens=self.classifier_pooling == "late",
        )
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            lm_head=self.lm_head,
            pooler=None if self.task == "base" else pooler,
            dropout_rate=self.classifier_dropout_rate or 0.0,
        )


def _read(fields: ConfigFields, _: Mapping[str, object]) -> dict[str, object]:
    older = fields.take_name(
        "clf_pooling", _POOLINGS, "late"
    )  # its name in the files that the authors published
    # Names of special tokens, dropout of training, and code that is published next to the files.
    fields.ignore("auto_map", "bos_token", "eos_token", "hidden_dropout", "mask_token", "pad_token")
    fields.ignore("mask_token_id", "pretraining_tp")
    return {"classifier_pooling": fields.take_name("classifier_pooling", _POOLINGS, older)}


def _scores(config: EuroBertConfig) -> list[Weight]:
    heads = config.heads
    dense = {"heads/pooler/transform/dense": "dense"} if heads.pooler is not None else {}
    return [*module_rows(dense), *score_rows(heads, {"question_answering": "qa_outputs"})]


EUROBERT = llama_like(
    "eurobert",
    EuroBertConfig,
    {
        "EuroBertForMaskedLM": "masked_lm",
        "EuroBertForSequenceClassification": "sequence_classification",
        "EuroBertForTokenClassification": "token_classification",
        "EuroBertModel": "base",
    },
    own_fields=("attention_bias", "mlp_bias"),
    read=_read,
    write=lambda config: {"classifier_pooling": config.classifier_pooling},
    scores=_scores,
    special_ids={"pad_token_id": 128_001, "bos_token_id": 128_000, "eos_token_id": 128_001},
)
