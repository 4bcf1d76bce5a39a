"""DeBERTa v2 and v3 (He et al. 2021, https://arxiv.org/abs/2006.03654, https://arxiv.org/abs/2111.09543)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.heads import HeadsConfig, LMHeadConfig, ScoreHeadConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.disentangled_attention import DistanceTableConfig, DistanceTerm, DistanceTerms
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.token_convolution import TokenConvolutionConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BERT_LAYER, BertLikeConfig, bert_like
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field
from t5x_like.model.zoo.decoder_like import stack_rows
from t5x_like.model.zoo.model_tasks import (
    SEQUENCE_TASKS,
    ModelTask,
    classifier_dropout_of,
    heads_for,
    score_rows,
)
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    WeightTransform,
    module_rows,
    padded_rows,
    per_layer,
)

_TERMS: tuple[DistanceTerm, ...] = ("c2p", "p2c")
# Fields that only vectors of distances give a meaning.
_OF_DISTANCES = ("share_att_key", "position_buckets", "max_relative_positions", "norm_rel_ebd")
_OF_CONVOLUTIONS = ("conv_groups", "conv_activation")


@config_class
class DebertaV2Config(BertLikeConfig):
    """A DeBERTa v2 or v3 of any size, for any task: ``BertLikeConfig`` and these fields.

    Fields have the names of Hugging Face's. Their defaults are those of v3.

    Attributes:
      max_position_embeddings: Longest input with ``position_biased_input``, no limit here otherwise. It is also the
        default of ``max_relative_positions``.
      embed_dim: Width of the tables, projected where ``model_dim`` differs; ``None`` is ``model_dim``.
      position_biased_input: Adds learned embeddings of positions to the words.
      relative_attention: Scores depend on vectors of distances, which all layers share.
      pos_att_type: Terms with distances in a layer's scores (see ``DistanceTerms``). Scores are divided by
        ``sqrt(head_dim * (1 + number of terms))``, also without ``relative_attention``.
      share_att_key: Distances use the contents' projections; otherwise each layer has further ones.
      position_buckets: Vectors of each direction (see ``DistanceTableConfig``); ``None`` for one of each distance.
      max_relative_positions: Distance from which on all share a vector; ``None`` is ``max_position_embeddings``.
      norm_rel_ebd: Norm of the vectors of distances.
      conv_kernel_size: Tokens that a convolution next to the first layer combines; 0 for none (v2's two large sizes
        have 3).
      conv_groups: Groups of features of the convolution.
      conv_activation: Nonlinearity of the convolution.
      tie_word_embeddings: The output layer uses the word embeddings.
      pooler_activation: Nonlinearity of the layer on the first token, for heads of whole sequences.
      pooler_dropout_rate: Dropout of that layer's input.
    """

    num_token_types: int = 0
    norm_epsilon: float = 1e-7
    task: ModelTask = "masked_lm"
    embed_dim: int | None = None
    position_biased_input: bool = False
    relative_attention: bool = True
    pos_att_type: tuple[DistanceTerm, ...] = _TERMS
    share_att_key: bool = True
    position_buckets: int | None = 256
    max_relative_positions: int | None = None
    norm_rel_ebd: Literal["layer_norm", "none"] = "layer_norm"
    conv_kernel_size: int = 0
    conv_groups: int = 1
    conv_activation: Activation = "tanh"
    tie_word_embeddings: bool = True
    pooler_activation: Activation = "gelu"
    pooler_dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        if not self.relative_attention:
            refuse_unused(self, *_OF_DISTANCES, because="relative_attention is off")
        elif not self.pos_att_type:
            refuse_unused(self, "share_att_key", because="no term of pos_att_type reads distances")
        if not self.conv_kernel_size:
            refuse_unused(self, *_OF_CONVOLUTIONS, because="conv_kernel_size is 0")
        # Equal models get equal fields.
        ordered = tuple(term for term in _TERMS if term in self.pos_att_type)
        object.__setattr__(self, "pos_att_type", ordered)
        if self.embed_dim == self.model_dim:
            object.__setattr__(self, "embed_dim", None)
        super().__post_init__()

    @property
    def norm(self) -> LayerNormConfig:
        """Type of all norms."""
        return LayerNormConfig(epsilon=self.norm_epsilon)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, and positions and token types where configured; projected, then normalized."""
        embed_dim = self.embed_dim or self.model_dim
        usual = super().embeddings
        return replace(
            usual,
            embed_dim=embed_dim,
            projected="before_norm" if embed_dim != self.model_dim else False,
            positions=usual.positions if self.position_biased_input else None,
        )

    @property
    def block(self) -> BlockConfig:
        """Block of each layer but for a convolution."""
        block = super().block
        num_terms = 1 + len(self.pos_att_type)
        terms = DistanceTerms(terms=self.pos_att_type, own_projections=not self.share_att_key)
        attention = replace(
            block.attention,
            attention_scale=(block.attention.head_dim * num_terms) ** -0.5,
            positions=terms if self.relative_attention else None,
        )
        return replace(block, attention=attention)

    @property
    def stack(self) -> StackConfig:
        """All layers; the first has the convolution."""
        stack = super().stack
        first, *others = stack.blocks
        if self.conv_kernel_size:
            convolution = TokenConvolutionConfig(
                kernel_size=self.conv_kernel_size,
                num_groups=self.conv_groups,
                activation=self.conv_activation,
            )
            first = replace(first, convolution=convolution)
        distances = DistanceTableConfig(
            max_distance=self.max_relative_positions or self.max_position_embeddings,
            num_buckets=self.position_buckets,
            norm=self.norm if self.norm_rel_ebd == "layer_norm" else None,
        )
        return replace(
            stack,
            blocks=(first, *others),
            relative_positions=distances if self.relative_attention else None,
        )

    @property
    def pooler(self) -> PoolerConfig | None:
        """Layer on the first token, for tasks that read it."""
        transform = TransformConfig(dim=self.model_dim, activation=self.pooler_activation)
        pooler = PoolerConfig(transform=transform, dropout_rate=self.pooler_dropout_rate)
        return pooler if self.task in SEQUENCE_TASKS else None

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``; that for replaced tokens is DeBERTa v3's."""
        if self.task == "replaced_tokens":
            transform = TransformConfig(dim=self.model_dim, activation=self.activation)
            scores = ScoreHeadConfig(
                name=self.task, input="tokens", num_outputs=1, first_token_norm=self.norm, transform=transform
            )
            return HeadsConfig(scores=(scores,))
        head = LMHeadConfig(
            tie_word_embeddings=self.tie_word_embeddings, bias=True, transform=self.words_transform
        )
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            lm_head=head,
            pooler=self.pooler,
            dropout_rate=classifier_dropout_of(self) if self.pooler else self.dropout_rate,
        )


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    width, num_heads = values["model_dim"], values["num_heads"]
    fields.must_be("pooler_hidden_size", width)
    fields.must_be("attention_head_size", width // max(num_heads, 1))
    has_distances = fields.take("relative_attention", False)
    terms = _read_terms(fields)
    norms = [each.strip() for each in fields.take("norm_rel_ebd", "none").lower().split("|")]
    shared, size = fields.take("share_att_key", False), fields.take("conv_kernel_size", 0)
    buckets = _positive(fields.take("position_buckets", -1))
    distances = {
        "share_att_key": shared or not terms,
        "position_buckets": buckets,
        "max_relative_positions": _positive(fields.take("max_relative_positions", -1)),
        "norm_rel_ebd": "layer_norm" if "layer_norm" in norms else "none",
    }
    convolution = {
        "conv_groups": fields.take("conv_groups", 1),
        "conv_activation": fields.take_name("conv_act", ACTIVATION_NAMES, "tanh"),
    }
    # The newer head of words always scores with the embeddings.
    is_older = fields.take("legacy", True)
    is_tied = fields.take("tie_word_embeddings", True) or not is_older
    return {
        "relative_attention": has_distances,
        "pos_att_type": terms,
        **(distances if has_distances else {}),
        "conv_kernel_size": max(size, 0),
        **(convolution if size > 0 else {}),
        "tie_word_embeddings": is_tied,
    }


def _read_terms(fields: ConfigFields) -> tuple[str, ...]:
    """Read ``pos_att_type``, a list or names between bars; ``none`` is no name of a term."""
    published = fields.config.get("pos_att_type")
    fields.ignore("pos_att_type")
    names = published.lower().split("|") if isinstance(published, str) else published or ()
    terms = tuple(dict.fromkeys(str(name).strip() for name in names))
    terms = tuple(term for term in terms if term not in ("", "none"))
    unknown = [term for term in terms if term not in _TERMS]
    if unknown:
        raise ValueError(
            f"config.json: pos_att_type has {unknown[0]!r}; {' and '.join(_TERMS)} are supported"
        )
    return terms


def _positive(number: int) -> int | None:
    return number if number > 0 else None


def _write(config: DebertaV2Config) -> dict[str, Any]:
    size = config.conv_kernel_size
    convolution = {
        "conv_kernel_size": size,
        "conv_groups": config.conv_groups,
        "conv_act": ACTIVATION_NAMES.hf_name(config.conv_activation),
    }
    return {
        "relative_attention": config.relative_attention,
        "pos_att_type": list(config.pos_att_type),
        "share_att_key": config.share_att_key,
        "position_buckets": config.position_buckets or -1,
        "max_relative_positions": config.max_relative_positions or -1,
        "norm_rel_ebd": config.norm_rel_ebd if config.relative_attention else "none",
        **(convolution if size else {}),
        "embedding_size": config.embed_dim or config.model_dim,
        "pooler_hidden_size": config.model_dim,
        "tie_word_embeddings": config.tie_word_embeddings,
        "legacy": True,
    }


# Our names of a layer's modules, and DeBERTa's where they differ from BERT's.
_LAYER = {
    **BERT_LAYER,
    **{f"self_attention/{each}": f"attention.self.{each}_proj" for each in ("query", "key", "value")},
}
# [kernel size, in, out] here, [out, in, kernel size] in PyTorch.
_CONVOLUTION = WeightTransform(lambda array: array.transpose(2, 1, 0), lambda array: array.transpose(2, 1, 0))


def _weights(config: DebertaV2Config) -> tuple[Weight, ...]:
    encoder, prefix = config.encoder, "deberta.encoder."
    layer = f"{prefix}layer.{{layer}}."
    distances = {"c2p": ("distance_key", "pos_key_proj"), "p2c": ("distance_query", "pos_query_proj")}
    own = {
        f"self_attention/{path}": f"attention.self.{hf_name}"
        for term, (path, hf_name) in distances.items()
        if config.relative_attention and not config.share_att_key and term in config.pos_att_type
    }
    rows = [
        *_embedding_rows(config),
        *stack_rows("encoder", encoder.stack, module_rows({**_LAYER, **own}, layer)),
        *_head_rows(config),
    ]
    if config.relative_attention:
        rows.append(Weight("encoder/distance_table/table", f"{prefix}rel_embeddings.weight"))
        if config.norm_rel_ebd == "layer_norm":
            rows += module_rows({"encoder/distance_table/norm": "LayerNorm"}, prefix)
    if config.conv_kernel_size:
        convolution = [
            Weight("convolution/kernel", f"{prefix}conv.conv.weight", _CONVOLUTION),
            Weight("convolution/bias", f"{prefix}conv.conv.bias"),
            *module_rows({"convolution/norm": "LayerNorm"}, f"{prefix}conv."),
        ]
        rows += per_layer("encoder/layers/0", (0,), convolution)
    return (*rows, *score_rows(encoder.heads, {"question_answering": "qa_outputs"}))


def _embedding_rows(config: DebertaV2Config) -> list[Weight]:
    tables, prefix, head = config.embeddings, "deberta.embeddings.", config.heads.lm_head
    words = padded_rows(tables.vocab_size, tables.padded_vocab_size)
    copies = (f"{_DECODER}.weight",) if head is not None and head.tie_word_embeddings else ()
    small = {
        "positions": tables.positions and "position_embeddings",
        "token_types": tables.num_token_types and "token_type_embeddings",
    }
    return [
        Weight("embedding/tokens/table", f"{prefix}word_embeddings.weight", words, copies=copies),
        *(
            Weight(f"embedding/{path}/table", f"{prefix}{name}.weight")
            for path, name in small.items()
            if name
        ),
        *(
            module_rows({"embedding/projection": "embed_proj"}, prefix, bias=False)
            if tables.projected
            else []
        ),
        *module_rows({"embedding/norm": "LayerNorm"}, prefix),
    ]


_PREDICTIONS, _NEWER = "cls.predictions", "lm_predictions.lm_head"
_DECODER = f"{_PREDICTIONS}.decoder"


def _head_rows(config: DebertaV2Config) -> list[Weight]:
    """Return the rows of the heads before their scores; the head of words has other names in newer files."""
    heads, tables = config.heads, config.embeddings
    words = padded_rows(tables.vocab_size, tables.padded_vocab_size)
    rows = module_rows({"heads/pooler/transform/dense": "pooler.dense"}) if heads.pooler is not None else []
    if heads.lm_head is None:
        return rows
    transform = module_rows(
        {
            "heads/lm_head/transform/dense": f"{_PREDICTIONS}.transform.dense",
            "heads/lm_head/transform/norm": f"{_PREDICTIONS}.transform.LayerNorm",
        }
    )
    older = f"{_PREDICTIONS}.transform."
    rows += [row._replace(copies=(row.hf_name.replace(older, f"{_NEWER}."),)) for row in transform]
    if heads.lm_head.tie_word_embeddings:
        copies = (f"{_DECODER}.bias", f"{_NEWER}.bias")
        return [*rows, Weight("heads/lm_head/bias", f"{_PREDICTIONS}.bias", words, copies=copies)]
    return [
        *rows,
        Weight("heads/lm_head/projection/kernel", f"{_DECODER}.weight", words.then(TRANSPOSED)),
        Weight("heads/lm_head/bias", f"{_DECODER}.bias", words),
    ]


DEBERTA_V2 = bert_like(
    "deberta_v2",
    DebertaV2Config,
    {
        "DebertaV2ForMaskedLM": "masked_lm",
        "DebertaV2ForSequenceClassification": "sequence_classification",
        "DebertaV2ForTokenClassification": "token_classification",
        "DebertaV2ForQuestionAnswering": "question_answering",
        "DebertaV2ForMultipleChoice": "multiple_choice",
        "DebertaV2Model": "base",
    },
    FieldTable(
        fields={
            "num_token_types": Field("type_vocab_size", 0),
            "norm_epsilon": Field("layer_norm_eps", 1e-7),
            "position_biased_input": Field("position_biased_input", True),
            "embed_dim": Field("embedding_size", None),
            "pooler_activation": Field("pooler_hidden_act", "gelu", ACTIVATION_NAMES),
            "pooler_dropout_rate": Field("pooler_dropout", 0.0),
            "classifier_dropout_rate": Field("cls_dropout", None, kind=float),
        },
        written={"pad_token_id": 0},
        read=_read,
        write=_write,
    ),
    weights=_weights,
    model_types=("deberta-v2",),
    prefix="deberta.",
    without=("tie_word_embeddings",),
    # Norms of absent vectors; v3's further tables and its heads of pretraining, as transformers leaves them, too.
    unused_weights=(
        *("*.position_ids", "*.encoder.LayerNorm.*", "*position_embeddings*"),
        *("lm_predictions.*", "mask_predictions.*", "cls.predictions.bias"),
    ),
)
