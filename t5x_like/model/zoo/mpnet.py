"""MPNet (Song et al. 2020, https://arxiv.org/abs/2004.09297): RoBERTa with relative positions, without token types."""

from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BERT_LAYER, bert_like, bert_like_weights
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.roberta import ROBERTA_TASKS, RobertaConfig
from t5x_like.model.zoo.weights import TRANSPOSED, Weight

_PAD = 1  # positions of published models count other ids than this one


@config_class
class MPNetConfig(RobertaConfig):
    """An MPNet of any size, for any task: ``RobertaConfig`` and these fields.

    All layers add one table of relative positions to their scores, in T5's buckets.

    Attributes:
      num_relative_buckets: Rows of that table. transformers uses the first 32 whatever this says; so does this model.
      tie_word_embeddings: The output layer uses the word embeddings.
    """

    num_token_types: int = 0
    norm_epsilon: float = 1e-12
    num_relative_buckets: int = 32
    tie_word_embeddings: bool = True

    @property
    def stack(self) -> StackConfig:
        """All layers, with their common table of relative positions."""
        buckets = RelativeBuckets(num_buckets=32, max_distance=128, num_rows=self.num_relative_buckets)
        return replace(super().stack, relative_positions=buckets)

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        return replace(super().lm_head, tie_word_embeddings=self.tie_word_embeddings)


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    fields.must_be("pad_token_id", _PAD)
    return {"max_position_embeddings": values["max_position_embeddings"] - _PAD - 1}


def _write(config: MPNetConfig) -> dict[str, object]:
    if config.num_token_types:
        raise ValueError(
            f"num_token_types={config.num_token_types} can't be written: Hugging Face's MPNet has no token types"
        )
    if config.pad_token_id != _PAD:
        raise ValueError(
            f"an MPNet whose padding has id {config.pad_token_id} can't be written: positions of Hugging Face's count "
            f"the tokens of other ids than {_PAD}; train with a tokenizer whose padding has this id"
        )
    return {"max_position_embeddings": config.max_position_embeddings + _PAD + 1}


def _weights(config: MPNetConfig) -> tuple[Weight, ...]:
    is_classifier = config.task == "sequence_classification"
    projections = {"query": "q", "key": "k", "value": "v", "out": "o"}
    relative = "mpnet.encoder.relative_attention_bias.weight"
    return (
        *bert_like_weights(
            config.encoder,
            embeddings="mpnet.embeddings",
            layers="mpnet.encoder.layer",
            names={
                **BERT_LAYER,
                **{f"self_attention/{own}": f"attention.attn.{name}" for own, name in projections.items()},
                "self_attention_residual/final": "attention.LayerNorm",
            },
            modules={
                "heads/lm_head/transform/dense": "lm_head.dense",
                "heads/lm_head/transform/norm": "lm_head.layer_norm",
                "heads/pooler/transform/dense": "classifier.dense" if is_classifier else "mpnet.pooler.dense",
            },
            words_copies=("lm_head.decoder.weight",),
            words_bias="lm_head.bias",
            words_bias_copies=("lm_head.decoder.bias",),
            scores={"sequence_classification": "classifier.out_proj", "question_answering": "qa_outputs"},
        ),
        Weight("encoder/relative_bias/table", relative, TRANSPOSED),
    )


MPNET = bert_like(
    "mpnet",
    MPNetConfig,
    {f"MPNet{ending}": task for ending, task in ROBERTA_TASKS.items()},
    FieldTable(
        fields={
            "num_relative_buckets": Field("relative_attention_num_buckets", 32),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
        },
        written={"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": _PAD},
        read=_read,
        write=_write,
    ),
    weights=_weights,
    without=("num_token_types", "classifier_dropout_rate", "position_embedding_type", "tie_word_embeddings"),
    unused_weights=("*.position_ids", "lm_head.bias"),
    special_ids={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
)
