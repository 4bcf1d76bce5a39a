"""The parts of T5 and its descendants: sizes, blocks, fields of ``config.json``, and the names of weights."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.attention import AttentionConfig, Positions
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.layers.transient_global import TransientGlobalConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import (
    ENCODER_ONLY_TASKS,
    ModelTask,
    ProblemType,
    encoder_decoder_score_rows,
    label_fields,
    num_labels_of,
    problem_type_of,
    scoring_heads,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows

T5FeedForward = Literal["relu", "gated_gelu"]

# A relic in some published files: cross-attention has no positions, and nothing reads it.
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


@dataclass(frozen=True, kw_only=True)
class T5LikeConfig:
    """Sizes, and the parts that follow from them.

    1.0 has relu and scores with its embedding table; 1.1 has gated gelu and a head of its own (Shazeer 2020). The two
    traits can be chosen apart.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    feed_forward: T5FeedForward = "gated_gelu"
    tie_word_embeddings: bool = False
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    num_relative_buckets: int = 32
    max_relative_distance: int = 128
    norm_epsilon: float = 1e-6
    pad_vocab_to_multiple_of: int = 128
    num_labels: int = 2
    problem_type: ProblemType | None = None

    def __post_init__(self) -> None:
        for name in ("vocab_size", "model_dim", "mlp_dim", "num_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if not 0 <= self.dropout_rate < 1:
            raise ValueError(f"dropout_rate is {self.dropout_rate}; give a probability below 1")

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """One table for all stacks, and for a tied head."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def words(self) -> WordsConfig:
        """The head; a tied one scores smaller vectors, as its table isn't drawn for scores."""
        return WordsConfig(
            tie_word_embeddings=self.tie_word_embeddings,
            scale=self.model_dim**-0.5 if self.tie_word_embeddings else 1.0,
        )

    def attention(
        self, positions: Positions | None = None, window: SlidingWindow | None = None
    ) -> AttentionConfig:
        """Scores are left as they are: fresh queries are smaller instead."""
        return AttentionConfig(
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            attention_scale=1.0,
            positions=positions,
            window=window,
        )

    @property
    def buckets(self) -> RelativeBuckets:
        """Relative positions."""
        return RelativeBuckets(num_buckets=self.num_relative_buckets, max_distance=self.max_relative_distance)

    def block(
        self,
        attention: AttentionConfig,
        *,
        cross_attention: AttentionConfig | None = None,
        transient_global: TransientGlobalConfig | None = None,
    ) -> BlockConfig:
        """Norms without mean or bias before each layer, no biases anywhere."""
        return BlockConfig(
            model_dim=self.model_dim,
            attention=attention,
            feed_forward=FeedForwardConfig(
                mlp_dim=self.mlp_dim,
                activation="relu" if self.feed_forward == "relu" else "gelu_tanh",
                gated=self.feed_forward == "gated_gelu",
            ),
            cross_attention=cross_attention,
            transient_global=transient_global,
            norm=RMSNormConfig(epsilon=self.norm_epsilon),
            dropout_rate=self.dropout_rate,
        )

    def stack(self, block: BlockConfig, num_layers: int, *, relative: bool = True) -> StackConfig:
        """Equal blocks with one table of relative positions for all of them, unless blocks have their own."""
        return StackConfig(
            blocks=(block,) * num_layers,
            relative_positions=self.buckets if relative else None,
            final_norm=RMSNormConfig(epsilon=self.norm_epsilon),
            output_dropout=True,
            remat=self.remat,
        )

    def heads(self, task: ModelTask) -> HeadsConfig:
        """The heads for ``task``.

        Sequence classification reads the decoder's state of the last input token, question answering that of every
        token. Token classification reads the encoder, as in transformers.

        Raises:
          ValueError: the task is not one of T5's.
        """
        if task == "sequence_to_sequence_lm":
            return HeadsConfig(words=self.words)
        if task in ("base", "encoding"):
            return HeadsConfig()
        heads = scoring_heads(
            task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="last"),
            of_pooled=TransformConfig(dim=self.model_dim, activation="tanh"),
        )
        if heads is None:
            raise ValueError(f"T5 has no head for the task {task!r}")
        return heads


def take_parts(
    config: Mapping[str, Any],
    fields: ConfigFields,
    task: ModelTask,
    *,
    tie_word_embeddings: bool,
    feed_forward: str,
) -> dict[str, Any]:
    """Reads the fields of ``T5LikeConfig`` from a ``config.json``; the last two arguments are its defaults."""
    if task in ENCODER_ONLY_TASKS:  # which transformers writes with false
        fields.ignore("is_encoder_decoder")
    else:
        fields.must_be("is_encoder_decoder", True)
    fields.ignore("initializer_factor", "classifier_dropout", "n_positions", "output_past")
    # transformers 5 always writes tie_word_embeddings = true and says in a field of its own what it meant before.
    scaled = fields.take("scale_decoder_outputs", fields.take("tie_word_embeddings", tie_word_embeddings))
    return {
        "vocab_size": fields.take("vocab_size"),
        "model_dim": fields.take("d_model"),
        "mlp_dim": fields.take("d_ff"),
        "num_heads": fields.take("num_heads"),
        "head_dim": fields.take("d_kv"),
        "feed_forward": _take_feed_forward(fields, feed_forward),
        "tie_word_embeddings": scaled,
        "dropout_rate": fields.take("dropout_rate", 0.1),
        "num_relative_buckets": fields.take("relative_attention_num_buckets", 32),
        "max_relative_distance": fields.take("relative_attention_max_distance", 128),
        "norm_epsilon": fields.take("layer_norm_epsilon", 1e-6),
        "num_labels": num_labels_of(config),
        "problem_type": problem_type_of(config),
    }


def _take_feed_forward(fields: ConfigFields, default: str) -> T5FeedForward:
    """``is_gated_act`` and ``dense_act_fn``, where given, decide; otherwise ``feed_forward_proj`` does."""
    projection = fields.take("feed_forward_proj", default)
    gate, _, activation = projection.rpartition("-")
    if gate not in ("", "gated"):
        raise ValueError(
            f"config.json: feed_forward_proj is {projection!r}; relu or gated-gelu are supported"
        )
    # Under "gated-gelu", and only there, "gelu" has always meant its tanh approximation.
    derived = "gelu_new" if projection == "gated-gelu" else activation
    gated = fields.take("is_gated_act", gate == "gated")
    activation = fields.take("dense_act_fn", derived)
    if (gated, activation) == (False, "relu"):
        return "relu"
    if (gated, activation) == (True, "gelu_new"):
        return "gated_gelu"
    raise ValueError(
        f"config.json: feed_forward_proj={projection!r} with is_gated_act={gated} and dense_act_fn={activation!r} "
        "is not supported; relu and gated-gelu (is_gated_act=true with gelu_new) are"
    )


def parts_fields(parts: T5LikeConfig) -> dict[str, Any]:
    """Writes the fields of ``T5LikeConfig`` to a ``config.json``; those that don't describe the model are T5's own."""
    gated = parts.feed_forward == "gated_gelu"
    return {
        "d_ff": parts.mlp_dim,
        "d_kv": parts.head_dim,
        "d_model": parts.model_dim,
        "decoder_start_token_id": 0,
        "dense_act_fn": "gelu_new" if gated else "relu",
        "dropout_rate": parts.dropout_rate,
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "layer_norm_epsilon": parts.norm_epsilon,
        "num_heads": parts.num_heads,
        **label_fields(parts.num_labels, parts.problem_type),
        "pad_token_id": 0,
        "relative_attention_max_distance": parts.max_relative_distance,
        "relative_attention_num_buckets": parts.num_relative_buckets,
        "tie_word_embeddings": parts.tie_word_embeddings,
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": parts.vocab_size,
    }


def word_rows(parts: T5LikeConfig, task: ModelTask) -> list[Weight]:
    """The table of words, and the weights of a head."""
    tied = parts.tie_word_embeddings
    words = padded_rows(parts.vocab_size, parts.embeddings.padded_vocab_size)
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    copies = (*copies, "lm_head.weight") if tied else copies
    rows = [Weight("embedding/tokens/table", "shared.weight", words, copies=copies)]
    if task == "sequence_to_sequence_lm" and not tied:
        rows.append(Weight("heads/words/projection/kernel", "lm_head.weight", words.then(TRANSPOSED)))
    return [*rows, *encoder_decoder_score_rows(parts.heads(task))]


def layer_rows(parts: T5LikeConfig, theirs: str, attentions: Iterable[tuple[str, str]]) -> list[Weight]:
    """One layer: ``attentions`` are ours and their names, in order, and the feed-forward layer follows."""
    kernels = {"query": "q", "key": "k", "value": "v", "out": "o"}
    sublayers = [(ours, name, kernels) for ours, name in attentions]
    sublayers.append(("feed_forward", "DenseReluDense", {"down": "wo"} | up_projections(parts)))
    rows = []
    for number, (ours, name, kernels) in enumerate(sublayers):
        prefix = f"{theirs}.layer.{number}"
        rows.append(Weight(f"around_{ours}/before/scale", f"{prefix}.layer_norm.weight"))
        rows += [
            Weight(f"{ours}/{kernel}/kernel", f"{prefix}.{name}.{letter}.weight", TRANSPOSED)
            for kernel, letter in kernels.items()
        ]
    return rows


def up_projections(parts: T5LikeConfig) -> dict[str, str]:
    """Both of those who name them give the one that is activated the number 0."""
    return {"gate": "wi_0", "up": "wi_1"} if parts.feed_forward == "gated_gelu" else {"up": "wi"}
