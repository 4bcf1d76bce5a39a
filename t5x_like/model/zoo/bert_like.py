"""BERT and its descendants: shared configuration, fields of ``config.json`` and names of weights."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import Architecture, FieldTable, published
from t5x_like.model.zoo.common_config import CommonConfig, head_dim_of
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, Field
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, heads_for, score_rows
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows, per_layer


def post_norm_block(
    *,
    model_dim: int,
    mlp_dim: int,
    num_heads: int,
    activation: Activation,
    norm_epsilon: float,
    dropout_rate: float,
) -> BlockConfig:
    """Return the block of the original Transformer: a norm after each residual, biases everywhere.

    Args:
      model_dim: Width of the hidden states.
      mlp_dim: Width of the feed-forward layer.
      num_heads: Number of heads, which share ``model_dim``.
      activation: Activation of the feed-forward layer.
      norm_epsilon: Added to variances.
      dropout_rate: Rate of all dropout.

    Raises:
      ValueError: The width doesn't divide among the heads.
    """
    return BlockConfig(
        model_dim=model_dim,
        attention=AttentionConfig(
            num_heads=num_heads, head_dim=head_dim_of(model_dim, num_heads), in_bias=True, out_bias=True
        ),
        feed_forward=FeedForwardConfig(mlp_dim=mlp_dim, activation=activation, bias=True),
        norm=LayerNormConfig(epsilon=norm_epsilon),
        attention_norms=("final",),
        feed_forward_norms=("final",),
        dropout_rate=dropout_rate,
        init=Normal(0.02),
    )


@config_class
class BertLikeConfig(CommonConfig):
    """An encoder with learned positions, a norm after each residual and biases everywhere, of any size.

    A member of the family adds fields, and overrides the part that they change: ``embeddings``, ``stack`` and so on.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer; they share ``model_dim``.
      num_layers: Number of blocks.
      max_position_embeddings: Longest input in tokens.
      num_token_types: Types of tokens, such as first and second sentence; 0 for none.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
      classifier_dropout_rate: Dropout of a classifier's input; ``None`` is ``dropout_rate``.
    """

    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    task: ModelTask = "pretraining"
    classifier_dropout_rate: float | None = None

    @property
    def parts(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return self.encoder

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self.stack,
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and token types, normalized."""
        return self.embeddings_of(
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            num_token_types=self.num_token_types,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
        )

    @property
    def block(self) -> BlockConfig:
        """Block of each layer."""
        return post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            num_heads=self.num_heads,
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
        )

    @property
    def stack(self) -> StackConfig:
        """All layers."""
        return StackConfig(
            blocks=(self.block,) * self.num_layers,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    @property
    def words_transform(self) -> TransformConfig:
        """Layer before the scores of words."""
        return TransformConfig(
            dim=self.embeddings.embed_dim,
            activation=self.activation,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
        )

    @property
    def pooler(self) -> PoolerConfig | None:
        """Layer on the first token, for heads of whole sequences."""
        return PoolerConfig(transform=TransformConfig(dim=self.model_dim, activation="tanh"))

    @property
    def pair(self) -> Literal["next_sentence", "sentence_order"]:
        """Pretraining task on sentence pairs."""
        return "next_sentence"

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        return LMHeadConfig(tie_word_embeddings=True, bias=True, transform=self.words_transform)

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            lm_head=self.lm_head,
            pooler=self.pooler,
            pair=self.pair,
            dropout_rate=classifier_dropout_of(self),
        )


_ConfigT = TypeVar("_ConfigT", bound=BertLikeConfig)


def bert_like(
    name: str,
    config_class: type[_ConfigT],
    classes: Mapping[str, ModelTask],
    table: FieldTable,
    *,
    weights: Callable[[_ConfigT], tuple[Weight, ...]],
    activation: str = "gelu",
    dropout_rate: float = 0.1,
    without: tuple[str, ...] = (),
    **others: object,
) -> Architecture:
    """Return the record of a member of the family whose ``config.json`` has BERT's names.

    Args:
      name: Name of the zoo file, which also begins weight names.
      config_class: The member's configuration.
      classes: Classes of transformers with their tasks; see ``Architecture``.
      table: The member's own fields, which replace BERT's for the same field of the configuration.
      weights: Returns the weight table.
      activation: Default of ``hidden_act``.
      dropout_rate: Default of ``hidden_dropout_prob``.
      without: BERT's fields of the configuration and of ``config.json`` that the member lacks.
      **others: Further attributes of ``Architecture``.
    """
    fields = {
        "vocab_size": Field("vocab_size"),
        "model_dim": Field("hidden_size"),
        "mlp_dim": Field("intermediate_size"),
        "num_heads": Field("num_attention_heads"),
        "num_layers": Field("num_hidden_layers"),
        "max_position_embeddings": Field("max_position_embeddings", 512),
        "num_token_types": Field("type_vocab_size", 2),
        "activation": Field("hidden_act", activation, ACTIVATION_NAMES),
        "norm_epsilon": Field("layer_norm_eps", 1e-12),
        "dropout_rate": Field("hidden_dropout_prob", dropout_rate),
        "classifier_dropout_rate": Field("classifier_dropout", None, kind=float),
    }
    fixed = {"position_embedding_type": "absolute", "tie_word_embeddings": True}

    def kept(common: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in common.items() if name not in without}

    table = replace(
        table,
        fields={**kept(fields), **table.fields},
        fixed={**kept(fixed), **table.fixed},
        ignored=("attention_probs_dropout_prob", *table.ignored),
        write=lambda config, own=table.write: {
            "attention_probs_dropout_prob": config.dropout_rate,
            **own(config),
        },
    )
    defaults = {"prefix": f"{name}.", "unused_weights": ("*.position_ids",), "as_stored": pooled_as_stored}
    return published(name, config_class, classes, table, weights=weights, **{**defaults, **others})


def pooled_as_stored(config: BertLikeConfig, names: Collection[str]) -> BertLikeConfig:
    """Return the configuration of a model without a pooler if its files have none, as of many sentence encoders.

    Args:
      config: The configuration that the fields describe.
      names: Names of the stored arrays.
    """
    lacks_pooler = not any("pooler." in name for name in names)
    return replace(config, task="encoding") if lacks_pooler and _is_pooled_base(config) else config


def _is_pooled_base(config: BertLikeConfig) -> bool:
    return config.task == "base" and config.heads.pooler is not None


# BERT's names of a layer's modules.
BERT_LAYER = {
    "self_attention/query": "attention.self.query",
    "self_attention/key": "attention.self.key",
    "self_attention/value": "attention.self.value",
    "self_attention/out": "attention.output.dense",
    "self_attention_residual/final": "attention.output.LayerNorm",
    "feed_forward/up": "intermediate.dense",
    "feed_forward/down": "output.dense",
    "feed_forward_residual/final": "output.LayerNorm",
}


def bert_like_weights(
    encoder: EncoderConfig,
    *,
    embeddings: str,
    embeddings_norm: str = "",
    layers: str = "",
    names: Mapping[str, str] = BERT_LAYER,
    layer: Iterable[Weight] | None = None,
    numbers: tuple[int | str, ...] | None = None,
    modules: Mapping[str, str],
    words_copies: tuple[str, ...] = (),
    words_bias: str,
    words_bias_copies: tuple[str, ...] = (),
    scores: Mapping[str, str],
) -> tuple[Weight, ...]:
    """Return the weight table of an encoder of this family.

    Args:
      encoder: The model.
      embeddings: Begins the names of embeddings.
      embeddings_norm: Name of their norm, where it isn't BERT's.
      layers: Begins the names of a layer, before its number.
      names: Names of a layer's modules by our paths.
      layer: Rows of a layer, with ``{layer}`` in their names, in place of ``layers`` and ``names``.
      numbers: What replaces ``{layer}`` for each layer; by default numbers from 0.
      modules: Names of further modules by our paths; those that the model lacks are not used.
      words_copies: Further names of the word table.
      words_bias: Name of the bias of the word scores.
      words_bias_copies: Further names of that bias.
      scores: Names of score projections by heads; ``classifier`` for others.
    """
    tables, heads = encoder.embeddings, encoder.heads
    words = padded_rows(tables.vocab_size, tables.padded_vocab_size)
    small = {
        "positions": tables.positions and "position_embeddings",
        "token_types": tables.num_token_types and "token_type_embeddings",
        "task_types": tables.num_task_types and "task_type_embeddings",
    }
    present = {
        "embedding/projection": tables.projected,
        "heads/lm_head": heads.lm_head is not None,
        "heads/pooler": heads.pooler is not None,
        "heads/scores/replaced_tokens": any(head.name == "replaced_tokens" for head in heads.scores),
    }
    numbers = tuple(range(len(encoder.stack.blocks))) if numbers is None else numbers
    is_tied = heads.lm_head is None or heads.lm_head.tie_word_embeddings
    copies = words_copies if is_tied else ()
    rows = [
        Weight("embedding/tokens/table", f"{embeddings}.word_embeddings.weight", words, copies=copies),
        *(
            Weight(f"embedding/{path}/table", f"{embeddings}.{hf_name}.weight")
            for path, hf_name in small.items()
            if hf_name
        ),
        *module_rows({"embedding/norm": embeddings_norm or f"{embeddings}.LayerNorm"}),
        *per_layer("encoder/layers/0", numbers, layer or module_rows(names, f"{layers}.{{layer}}.")),
        *module_rows(
            {
                path: hf_name
                for path, hf_name in modules.items()
                if any(path.startswith(part) for part, is_there in present.items() if is_there)
            }
        ),
    ]
    if not is_tied:  # the kernel and the bias then have the names of copies
        rows.append(Weight("heads/lm_head/projection/kernel", words_copies[0], words.then(TRANSPOSED)))
        words_bias, words_bias_copies = words_bias_copies[0], ()
    if heads.lm_head is not None and heads.lm_head.bias:
        rows.append(Weight("heads/lm_head/bias", words_bias, words, copies=words_bias_copies))
    return (*rows, *score_rows(heads, scores))
