"""ALBERT (Lan et al. 2020, https://arxiv.org/abs/1909.11942): narrow tables, and layers that share weights."""

from dataclasses import replace
from typing import Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.sharing import Sharing
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like, bert_like_weights
from t5x_like.model.zoo.config_fields import Field, check_size
from t5x_like.model.zoo.model_tasks import classifier_dropout_of
from t5x_like.model.zoo.weights import Weight

SharedParts = Literal["all", "attention", "feed_forward", "none"]


@config_class
class AlbertConfig(BertLikeConfig):
    """An ALBERT of any size, for any task: ``BertLikeConfig`` and these fields.

    Attributes:
      embed_dim: Width of the tables, which are projected to ``model_dim``.
      num_hidden_groups: Groups of blocks with weights of their own. Each of the ``num_layers`` uses one; equally many
        consecutive layers share a group.
      inner_group_num: Blocks in a group.
      sharing: Part of a block that is shared. The other part has its own weights in every block (§3.1, table 5).
    """

    embed_dim: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    sharing: SharedParts = "all"
    activation: Activation = "gelu_tanh"

    def __post_init__(self) -> None:
        if not 1 <= self.num_hidden_groups <= self.num_layers:
            raise ValueError(
                f"num_hidden_groups={self.num_hidden_groups} of num_layers={self.num_layers}; give 1 to "
                f"{self.num_layers}"
            )
        if self.sharing == "none":
            refuse_unused(self, "num_hidden_groups", because="layers share nothing (sharing is 'none')")
        check_size(
            "num_layers * inner_group_num, the number of layers", self.num_layers * self.inner_group_num
        )
        super().__post_init__()

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and token types, normalized and projected."""
        return replace(super().embeddings, embed_dim=self.embed_dim, projected=True)

    @property
    def stack(self) -> StackConfig:
        """All layers, with shared weights."""
        num_blocks = self.num_layers * self.inner_group_num
        return StackConfig(
            blocks=(self.block,) * num_blocks,
            sharing=self._sharing(num_blocks),
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    @property
    def pair(self) -> Literal["next_sentence", "sentence_order"]:
        """Pretraining task on sentence pairs."""
        return "sentence_order"

    def _sharing(self, num_blocks: int) -> Sharing | None:
        own = tuple(range(num_blocks))
        shared = tuple(self._group_of(block) for block in own)
        sharing = Sharing(
            attention=shared if self.sharing in ("all", "attention") else own,
            feed_forward=shared if self.sharing in ("all", "feed_forward") else own,
        )
        return None if sharing == Sharing(attention=own, feed_forward=own) else sharing

    def _group_of(self, block: int) -> int:
        layer, inner = divmod(block, self.inner_group_num)
        return layer * self.num_hidden_groups // self.num_layers * self.inner_group_num + inner


def _write(config: AlbertConfig) -> dict[str, object]:
    _refuse_partial_sharing(config)
    return {"classifier_dropout_prob": classifier_dropout_of(config)}


def _refuse_partial_sharing(config: AlbertConfig) -> None:
    if config.sharing != "all":
        raise ValueError(
            f"an ALBERT with sharing={config.sharing!r} has no form in Hugging Face's files: export needs "
            "sharing='all'; to share nothing at all, train with num_hidden_groups=num_layers instead"
        )


def _weights(config: AlbertConfig) -> tuple[Weight, ...]:
    _refuse_partial_sharing(config)
    return bert_like_weights(
        config.encoder,
        embeddings="albert.embeddings",
        layers="albert.encoder.albert_layer_groups",
        names={
            "self_attention/query": "attention.query",
            "self_attention/key": "attention.key",
            "self_attention/value": "attention.value",
            "self_attention/out": "attention.dense",
            "self_attention_residual/final": "attention.LayerNorm",
            "feed_forward/up": "ffn",
            "feed_forward/down": "ffn_output",
            "feed_forward_residual/final": "full_layer_layer_norm",
        },
        numbers=tuple(
            f"{group}.albert_layers.{inner}"
            for group in range(config.num_hidden_groups)
            for inner in range(config.inner_group_num)
        ),
        modules={
            "embedding/projection": "albert.encoder.embedding_hidden_mapping_in",
            "heads/lm_head/transform/dense": "predictions.dense",
            "heads/lm_head/transform/norm": "predictions.LayerNorm",
            "heads/pooler/transform/dense": "albert.pooler",
        },
        words_copies=("predictions.decoder.weight",),
        words_bias="predictions.bias",
        words_bias_copies=("predictions.decoder.bias",),
        scores={"sentence_order": "sop_classifier.classifier", "question_answering": "qa_outputs"},
    )


ALBERT = bert_like(
    "albert",
    AlbertConfig,
    {
        "AlbertForPreTraining": "pretraining",
        "AlbertForMaskedLM": "masked_lm",
        "AlbertForSequenceClassification": "sequence_classification",
        "AlbertForMultipleChoice": "multiple_choice",
        "AlbertForTokenClassification": "token_classification",
        "AlbertForQuestionAnswering": "question_answering",
        "AlbertModel": "base",
    },
    FieldTable(
        fields={
            "embed_dim": Field("embedding_size", 128),
            "num_hidden_groups": Field("num_hidden_groups", 1),
            "inner_group_num": Field("inner_group_num", 1),
            "classifier_dropout_rate": Field("classifier_dropout_prob", 0.1),
        },
        # Of the first release, with the only values that it had; nothing reads these fields.
        required={
            "down_scale_factor": 1,
            "gap_size": 0,
            "layers_to_keep": [],
            "net_structure_type": 0,
            "num_memory_blocks": 0,
        },
        ignored=("classifier_dropout",),
        written={"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0},
        write=_write,
    ),
    weights=_weights,
    activation="gelu_new",
    dropout_rate=0.0,
)
