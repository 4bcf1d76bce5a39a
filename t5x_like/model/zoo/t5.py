"""T5 1.0 and 1.1 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683), and mT5, which is 1.1 with more words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig, WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.stack import Rematerialisation, StackConfig
from t5x_like.model.zoo.hugging_face import HuggingFaceFields
from t5x_like.model.zoo.tasks import Task, task_of
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows, per_layer

Head = Literal["tied", "untied"]


@dataclass(frozen=True, kw_only=True)
class T5Config:
    """A T5 of any size.

    1.0 has relu and scores with its embedding table; 1.1 has gated gelu and a head of its own (Shazeer 2020). The two
    traits can be chosen apart.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    num_encoder_layers: int
    num_decoder_layers: int
    feed_forward: Literal["relu", "gated_gelu"] = "gated_gelu"
    head: Head = "untied"
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    rematerialisation: Rematerialisation = "none"
    num_relative_buckets: int = 32
    max_relative_distance: int = 128
    norm_epsilon: float = 1e-6
    vocab_multiple: int = 128
    task: Task = "sequence_to_sequence_lm"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "model_dim", "mlp_dim", "num_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if not 0 <= self.dropout_rate < 1:
            raise ValueError(f"dropout_rate is {self.dropout_rate}; give a probability below 1")

    def build(self, key: jax.Array) -> EncoderDecoder:
        """The model with fresh weights."""
        return EncoderDecoder(
            EncoderDecoderConfig(
                embeddings=self.embeddings,
                encoder=self._stack(self.num_encoder_layers, decoder=False),
                decoder=self._stack(self.num_decoder_layers, decoder=True),
                heads=HeadsConfig(words=self._words()),
                compute_dtype=self.compute_dtype,
            ),
            key=key,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """One table for both stacks, and for a tied head."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size, embed_dim=self.model_dim, vocab_multiple=self.vocab_multiple
        )

    def _words(self) -> WordsConfig:
        tied = self.head == "tied"
        return WordsConfig(tied=tied, scale=self.model_dim**-0.5 if tied else 1.0)

    def _stack(self, num_layers: int, *, decoder: bool) -> StackConfig:
        attention = AttentionConfig(num_heads=self.num_heads, head_dim=self.head_dim, score_scale=1.0)
        norm = RMSNormConfig(epsilon=self.norm_epsilon)
        block = BlockConfig(
            model_dim=self.model_dim,
            attention=attention,
            feed_forward=FeedForwardConfig(
                mlp_dim=self.mlp_dim,
                activation="relu" if self.feed_forward == "relu" else "gelu_tanh",
                gated=self.feed_forward == "gated_gelu",
            ),
            cross_attention=attention if decoder else None,
            norm=norm,
            dropout_rate=self.dropout_rate,
        )
        return StackConfig(
            blocks=(block,) * num_layers,
            relative_positions=RelativeBuckets(
                num_buckets=self.num_relative_buckets, max_distance=self.max_relative_distance
            ),
            final_norm=norm,
            output_dropout=True,
            rematerialisation=self.rematerialisation,
        )


def from_hugging_face(config: Mapping[str, Any]) -> T5Config:
    """The configuration that a ``config.json`` of ``model_type`` t5 or mt5 describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    is_mt5 = config.get("model_type") == "mt5"
    fields = HuggingFaceFields(config)
    fields.must_be("is_encoder_decoder", True)
    fields.ignore("initializer_factor", "classifier_dropout", "n_positions", "output_past")
    num_layers = fields.take("num_layers")
    tied = fields.take("tie_word_embeddings", not is_mt5)
    # transformers 5 always writes tie_word_embeddings = true and says in a field of its own what it meant before.
    scaled = fields.take("scale_decoder_outputs", tied)
    ours = T5Config(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("d_model"),
        mlp_dim=fields.take("d_ff"),
        num_heads=fields.take("num_heads"),
        head_dim=fields.take("d_kv"),
        num_encoder_layers=num_layers,
        num_decoder_layers=fields.take("num_decoder_layers", num_layers),
        feed_forward=_feed_forward(fields, "gated-gelu" if is_mt5 else "relu"),
        head="tied" if scaled else "untied",
        dropout_rate=fields.take("dropout_rate", 0.1),
        num_relative_buckets=fields.take("relative_attention_num_buckets", 32),
        max_relative_distance=fields.take("relative_attention_max_distance", 128),
        norm_epsilon=fields.take("layer_norm_epsilon", 1e-6),
        task=task_of(config, HUGGING_FACE_CLASSES, "sequence_to_sequence_lm"),
    )
    fields.finish()
    return ours


def _feed_forward(fields: HuggingFaceFields, default: str) -> Literal["relu", "gated_gelu"]:
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


def to_hugging_face(config: T5Config) -> dict[str, Any]:
    """The fields of a ``config.json``; what is not about the model has T5's usual values."""
    gated = config.feed_forward == "gated_gelu"
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "classifier_dropout": 0.0,
        "d_ff": config.mlp_dim,
        "d_kv": config.head_dim,
        "d_model": config.model_dim,
        "decoder_start_token_id": 0,
        "dense_act_fn": "gelu_new" if gated else "relu",
        "dropout_rate": config.dropout_rate,
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": "t5",
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": config.num_heads,
        "num_layers": config.num_encoder_layers,
        "pad_token_id": 0,
        "relative_attention_max_distance": config.max_relative_distance,
        "relative_attention_num_buckets": config.num_relative_buckets,
        "tie_word_embeddings": config.head == "tied",
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": config.vocab_size,
    }


HUGGING_FACE_CLASSES: dict[str, Task] = {
    "T5ForConditionalGeneration": "sequence_to_sequence_lm",
    "MT5ForConditionalGeneration": "sequence_to_sequence_lm",
    "T5WithLMHeadModel": "sequence_to_sequence_lm",
}

HUGGING_FACE_PREFIX = ""

# A relic in some published files: cross-attention has no positions, and nothing reads it.
HUGGING_FACE_UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


def hugging_face_weights(config: T5Config) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    tied = config.head == "tied"
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    table = [
        Weight(
            "embedding/tokens/table",
            "shared.weight",
            words,
            copies=(*copies, "lm_head.weight") if tied else copies,
        )
    ]
    if not tied:
        table.append(Weight("heads/words/projection/kernel", "lm_head.weight", words.then(TRANSPOSED)))
    attention = {"query": "q", "key": "k", "value": "v", "out": "o"}
    feed_forward = {"down": "wo"} | _up_projections(config)
    for stack, num_layers in _num_layers(config):
        sublayers = [("self_attention", "SelfAttention", attention)]
        if stack == "decoder":
            sublayers.append(("cross_attention", "EncDecAttention", attention))
        sublayers.append(("feed_forward", "DenseReluDense", feed_forward))
        rows = []
        for number, (sublayer, their_sublayer, kernels) in enumerate(sublayers):
            theirs = f"{stack}.block.{{layer}}.layer.{number}"
            rows.append(Weight(f"around_{sublayer}/before/scale", f"{theirs}.layer_norm.weight"))
            rows += [
                Weight(f"{sublayer}/{kernel}/kernel", f"{theirs}.{their_sublayer}.{name}.weight", TRANSPOSED)
                for kernel, name in kernels.items()
            ]
        table += per_layer(f"{stack}/layers/0", tuple(range(num_layers)), rows)
        table += [
            Weight(
                f"{stack}/relative_bias/table",
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                TRANSPOSED,
            ),
            Weight(f"{stack}/final_norm/scale", f"{stack}.final_layer_norm.weight"),
        ]
    return tuple(table)


def t5x_weights(config: T5Config) -> tuple[Weight, ...]:
    """Our weights by T5X's names, in its layout with one array a layer."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    columns = TRANSPOSED.then(words).then(TRANSPOSED)
    table = [Weight("embedding/tokens/table", "token_embedder/embedding", words)]
    if config.head == "untied":
        table.append(Weight("heads/words/projection/kernel", "decoder/logits_dense/kernel", columns))
    attention = {kernel: kernel for kernel in ("query", "key", "value", "out")}
    feed_forward = {"down": "wo"} | _up_projections(config)
    for stack, num_layers in _num_layers(config):
        own = "attention" if stack == "encoder" else "self_attention"
        sublayers = [("self_attention", own, f"pre_{own}_layer_norm", attention)]
        if stack == "decoder":
            cross = "encoder_decoder_attention"
            sublayers.append(("cross_attention", cross, "pre_cross_attention_layer_norm", attention))
        sublayers.append(("feed_forward", "mlp", "pre_mlp_layer_norm", feed_forward))
        rows = []
        for sublayer, their_sublayer, norm, kernels in sublayers:
            theirs = f"{stack}/layers_{{layer}}"
            rows.append(Weight(f"around_{sublayer}/before/scale", f"{theirs}/{norm}/scale"))
            rows += [
                Weight(f"{sublayer}/{kernel}/kernel", f"{theirs}/{their_sublayer}/{name}/kernel")
                for kernel, name in kernels.items()
            ]
        table += per_layer(f"{stack}/layers/0", tuple(range(num_layers)), rows)
        table += [
            Weight(f"{stack}/relative_bias/table", f"{stack}/relpos_bias/rel_embedding"),
            Weight(f"{stack}/final_norm/scale", f"{stack}/{stack}_norm/scale"),
        ]
    return tuple(table)


def _num_layers(config: T5Config) -> tuple[tuple[str, int], ...]:
    return (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers))


def _up_projections(config: T5Config) -> dict[str, str]:
    """Both give the one that is activated the number 0."""
    return {"gate": "wi_0", "up": "wi_1"} if config.feed_forward == "gated_gelu" else {"up": "wi"}
