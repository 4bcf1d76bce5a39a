"""ALBERT (Lan et al. 2020, https://arxiv.org/abs/1909.11942): narrow tables, and layers with the same weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.sharing import Sharing
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert_like import BertLikeConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of
from t5x_like.model.zoo.post_norm_encoders import (
    common_fields,
    embedding_rows,
    score_rows,
    take_common,
    words_head_rows,
)
from t5x_like.model.zoo.weights import Weight, dense, norm, per_layer

Shared = Literal["all", "attention", "feed_forward", "none"]


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertLikeConfig):
    """An ALBERT of any size, for any task.

    Attributes:
      embed_dim: the width of the tables, which is projected to that of the stream.
      num_hidden_groups: groups of blocks with weights of their own, which runs of equal length of the ``num_layers``
        groups use.
      inner_group_num: blocks of a group.
      sharing: the part of a block that is shared. The other has its own weights in every block (§3.1 and table 5).
    """

    embed_dim: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    sharing: Shared = "all"
    activation: Activation = "gelu_tanh"

    def __post_init__(self) -> None:
        if not 1 <= self.num_hidden_groups <= self.num_layers:
            raise ValueError(
                f"num_hidden_groups={self.num_hidden_groups} of num_layers={self.num_layers}; give 1 to "
                f"{self.num_layers}"
            )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and sentence types, normed, then widened."""
        return replace(super().embeddings, embed_dim=self.embed_dim, projected=True)

    @property
    def stack(self) -> StackConfig:
        """All layers, with shared weights."""
        num_blocks = self.num_layers * self.inner_group_num
        return StackConfig(
            blocks=(self.block,) * num_blocks, sharing=self._sharing(num_blocks), remat=self.remat
        )

    @property
    def pair(self) -> Literal["next_sentence", "sentence_order"]:
        """Which of two sentences comes first."""
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


_CLASSES: dict[str, ModelTask] = {
    "AlbertForPreTraining": "pretraining",
    "AlbertForMaskedLM": "masked_lm",
    "AlbertForSequenceClassification": "sequence_classification",
    "AlbertForMultipleChoice": "multiple_choice",
    "AlbertForTokenClassification": "token_classification",
    "AlbertForQuestionAnswering": "question_answering",
    "AlbertModel": "base",
}

# Of the first release, with the only values that it had; no code reads them.
_OF_THE_FIRST_RELEASE = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}


def from_hugging_face(config: Mapping[str, Any]) -> AlbertConfig:
    """The configuration that a ``config.json`` of ``model_type`` albert describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    for name, value in _OF_THE_FIRST_RELEASE.items():
        fields.must_be(name, value)
    common = take_common(config, fields, _CLASSES, activation="gelu_new", dropout_rate=0.0)
    common["classifier_dropout_rate"] = fields.take("classifier_dropout_prob", 0.1)
    ours = AlbertConfig(
        embed_dim=fields.take("embedding_size", 128),
        num_hidden_groups=fields.take("num_hidden_groups", 1),
        inner_group_num=fields.take("inner_group_num", 1),
        max_position_embeddings=fields.take("max_position_embeddings", 512),
        **common,
    )
    fields.finish()
    return ours


def to_hugging_face(config: AlbertConfig) -> dict[str, Any]:
    """The fields of a ``config.json``.

    Raises:
      ValueError: only a part of each block is shared, which transformers has no words for.
    """
    _refuse_partial_sharing(config)
    common = common_fields(config, _CLASSES, "albert")
    del common["classifier_dropout"]
    return common | {
        "bos_token_id": 2,
        "classifier_dropout_prob": classifier_dropout_of(config),
        "embedding_size": config.embed_dim,
        "eos_token_id": 3,
        "inner_group_num": config.inner_group_num,
        "max_position_embeddings": config.max_position_embeddings,
        "num_hidden_groups": config.num_hidden_groups,
        "pad_token_id": 0,
    }


def _refuse_partial_sharing(config: AlbertConfig) -> None:
    if config.sharing != "all":
        raise ValueError(
            f"an ALBERT with sharing={config.sharing!r} has no form in Hugging Face's files: export needs "
            "sharing='all'; to share nothing at all, train with num_hidden_groups=num_layers instead"
        )


def hugging_face_weights(config: AlbertConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names.

    Raises:
      ValueError: only a part of each block is shared.
    """
    _refuse_partial_sharing(config)
    encoder, heads = config.encoder, config.encoder.heads
    blocks = tuple(
        f"{group}.albert_layers.{inner}"
        for group in range(config.num_hidden_groups)
        for inner in range(config.inner_group_num)
    )
    table = [
        *embedding_rows(encoder.embeddings, "albert.embeddings", copies=("predictions.decoder.weight",)),
        *dense("embedding/projection", "albert.encoder.embedding_hidden_mapping_in"),
        *per_layer("encoder/layers/0", blocks, _block_rows()),
    ]
    if heads.words is not None:
        table += words_head_rows(
            encoder.embeddings,
            transform="predictions.dense",
            norm_name="predictions.LayerNorm",
            bias="predictions.bias",
            bias_copies=("predictions.decoder.bias",),
        )
    if heads.pooler is not None:
        table += dense("heads/pooler/transform/dense", "albert.pooler")
    names = {"sentence_order": "sop_classifier.classifier", "question_answering": "qa_outputs"}
    return (*table, *score_rows(encoder, names))


def _block_rows() -> list[Weight]:
    theirs = "albert.encoder.albert_layer_groups.{layer}"
    names = {"query": "query", "key": "key", "value": "value", "out": "dense"}
    rows = [
        row
        for ours, name in names.items()
        for row in dense(f"self_attention/{ours}", f"{theirs}.attention.{name}")
    ]
    return [
        *rows,
        *norm("around_self_attention/final", f"{theirs}.attention.LayerNorm"),
        *dense("feed_forward/up", f"{theirs}.ffn"),
        *dense("feed_forward/down", f"{theirs}.ffn_output"),
        *norm("around_feed_forward/final", f"{theirs}.full_layer_layer_norm"),
    ]


ALBERT = Architecture(
    name="albert",
    config_class=AlbertConfig,
    model_types=("albert",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="albert.",
    unused_weights=("*.position_ids",),
)
