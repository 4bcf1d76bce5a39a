"""GPT-NeoX (Black et al. 2022, https://arxiv.org/abs/2204.06745) and Pythia (Biderman et al. 2023)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.decoder_parts import (
    decoder_classes,
    heads_of_decoder,
    projection,
    score_rows,
    stack_rows,
)
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    ProblemType,
    class_of,
    num_labels_of,
    problem_type_of,
    task_of,
)
from t5x_like.model.zoo.rope import Rope, rope_fields, take_rope
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, WeightTransform, dense, norm, padded_rows


@dataclass(frozen=True, kw_only=True)
class GPTNeoXConfig:
    """A GPT-NeoX of any size.

    The first part of every head, its ``partial_rotary_factor``, is rotated. ``max_position_embeddings`` is the length
    that it was trained for, and no limit here.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    parallel: bool = True
    attention_bias: bool = True
    activation: Activation = "gelu"
    partial_rotary_factor: float = 0.25
    rope_theta: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    max_position_embeddings: int = 2048
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = False
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Decoder:
        """The model with fresh weights."""
        return Decoder(self.decoder, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            stddev=self._init().stddev,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def decoder(self) -> DecoderConfig:
        """The model's parts."""
        norm = LayerNormConfig(epsilon=self.norm_epsilon)
        block = BlockConfig(
            model_dim=self.model_dim,
            attention=self._attention(),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, bias=True),
            norm=norm,
            parallel=self.parallel,
            dropout_rate=self.dropout_rate,
            init=self._init(),
        )
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(blocks=(block,) * self.num_layers, final_norm=norm, remat=self.remat),
            heads=heads_of_decoder(
                self.task, self.num_labels, WordsConfig(tie_word_embeddings=self.tie_word_embeddings)
            ),
            compute_dtype=self.compute_dtype,
        )

    def _init(self) -> Normal:
        """Nguyen and Salazar 2019; into the stream Wang and Komatsuzaki 2021 (Black et al. 2022, §2.1.3)."""
        stddev = (2 / (5 * self.model_dim)) ** 0.5
        return Normal(stddev, residual_scale=2 / (self.num_layers * self.model_dim**0.5) / stddev)

    def _attention(self) -> AttentionConfig:
        head_dim = self.model_dim // self.num_heads
        part = int(head_dim * self.partial_rotary_factor)
        rotation = Rotary(
            rotated_dim=part
            + part % 2,  # an odd part is rounded up, its frequencies are not: transformers' way
            frequency_dim=part,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
        )
        return AttentionConfig(
            num_heads=self.num_heads,
            head_dim=head_dim,
            in_bias=self.attention_bias,
            out_bias=self.attention_bias,
            positions=rotation,
        )


_CLASSES: dict[str, ModelTask] = decoder_classes("GPTNeoX")


def from_hugging_face(config: Mapping[str, Any]) -> GPTNeoXConfig:
    """The configuration that a ``config.json`` of ``model_type`` gpt_neox describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.ignore("attention_dropout", "classifier_dropout")
    fields.ignore(
        "attention_probs_dropout_prob", "hidden_dropout_prob"
    )  # of GPT-NeoX-20B's file, and never read
    max_position_embeddings = fields.take("max_position_embeddings", 2048)
    rope = _take_rope(fields, max_position_embeddings)
    ours = GPTNeoXConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("hidden_size"),
        mlp_dim=fields.take("intermediate_size"),
        num_heads=fields.take("num_attention_heads"),
        num_layers=fields.take("num_hidden_layers"),
        parallel=fields.take("use_parallel_residual", True),
        attention_bias=fields.take("attention_bias", True),
        activation=fields.take_name("hidden_act", ACTIVATION_NAMES, "gelu"),
        partial_rotary_factor=rope.rotated,
        rope_theta=rope.rope_theta,
        rope_scaling=rope.rope_scaling,
        max_position_embeddings=max_position_embeddings,
        norm_epsilon=fields.take("layer_norm_eps", 1e-5),
        tie_word_embeddings=fields.take("tie_word_embeddings", False),
        task=task_of(config, _CLASSES, "base"),
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("hidden_dropout", 0.0),
    )
    fields.finish()
    return ours


def _take_rope(fields: ConfigFields, max_position_embeddings: int) -> Rope:
    """The rotation, under this model's own names (4.x), under those of all models beside them (4.5x), or 5.x's."""
    theta, rotated = fields.take("rotary_emb_base", 10_000.0), fields.take("rotary_pct", 0.25)
    for name, value in (("rope_theta", theta), ("partial_rotary_factor", rotated)):
        fields.must_be(name, value)
    return take_rope(
        fields, rope_theta=theta, rotated=rotated, max_position_embeddings=max_position_embeddings
    )


def to_hugging_face(config: GPTNeoXConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "architectures": [class_of(config.task, _CLASSES)],
        "attention_bias": config.attention_bias,
        "attention_dropout": config.dropout_rate,
        "hidden_act": ACTIVATION_NAMES.theirs(config.activation),
        "hidden_dropout": config.dropout_rate,
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "layer_norm_eps": config.norm_epsilon,
        "max_position_embeddings": config.max_position_embeddings,
        "model_type": "gpt_neox",
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        "num_labels": config.num_labels,
        "rope_scaling": rope_fields(config.rope_theta, config.rope_scaling)["rope_scaling"],
        "rotary_emb_base": config.rope_theta,
        "rotary_pct": config.partial_rotary_factor,
        "tie_word_embeddings": config.tie_word_embeddings,
        "torch_dtype": "float32",
        "use_parallel_residual": config.parallel,
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: GPTNeoXConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    embeddings, heads = config.embeddings, config.decoder.heads
    words = padded_rows(embeddings.vocab_size, embeddings.padded_vocab_size)
    tied = heads.words is not None and heads.words.tie_word_embeddings
    table = [
        Weight(
            "embedding/tokens/table",
            "gpt_neox.embed_in.weight",
            words,
            copies=("embed_out.weight",) if tied else (),
        ),
        *stack_rows("decoder", config.decoder.stack, _layer_rows(config)),
        *norm("decoder/final_norm", "gpt_neox.final_layer_norm"),
    ]
    if heads.words is not None and not tied:
        table.append(Weight("heads/words/projection/kernel", "embed_out.weight", words.then(TRANSPOSED)))
    return (*table, *score_rows(heads, of_tokens="classifier"))


def _layer_rows(config: GPTNeoXConfig) -> list[Weight]:
    theirs, names = "gpt_neox.layers.{layer}", ("query", "key", "value")
    split = _split_heads(config.num_heads)
    fused = {"kernel": "weight"} | ({"bias": "bias"} if config.attention_bias else {})
    return [
        *(
            Weight(
                tuple(f"self_attention/{name}/{part}" for name in names),
                f"{theirs}.attention.query_key_value.{whole}",
                split,
            )
            for part, whole in fused.items()
        ),
        *projection("self_attention/out", f"{theirs}.attention.dense", bias=config.attention_bias),
        *dense("feed_forward/up", f"{theirs}.mlp.dense_h_to_4h"),
        *dense("feed_forward/down", f"{theirs}.mlp.dense_4h_to_h"),
        *norm("around_self_attention/before", f"{theirs}.input_layernorm"),
        *norm("around_feed_forward/before", f"{theirs}.post_attention_layernorm"),
    ]


def _split_heads(num_heads: int) -> WeightTransform:
    """Theirs has query, key and value of the first head, then of the second …: [heads * 3 * K, D], biases without D."""

    def read(array: np.ndarray) -> tuple[np.ndarray, ...]:
        apart = array.reshape(num_heads, 3, -1, *array.shape[1:])
        return tuple(apart[:, part].reshape(-1, *array.shape[1:]).T for part in range(3))

    def write(*parts: np.ndarray) -> np.ndarray:
        apart = [part.T.reshape(num_heads, -1, *part.shape[:-1]) for part in parts]
        return np.stack(apart, axis=1).reshape(-1, *parts[0].shape[:-1])

    return WeightTransform(read, write)


GPT_NEOX = Architecture(
    name="gpt_neox",
    config_class=GPTNeoXConfig,
    model_types=("gpt_neox",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="gpt_neox.",
    unused_weights=(
        "*.attention.bias",
        "*.attention.masked_bias",
        "*rotary_emb.inv_freq",
    ),  # the causal mask, and frequencies
    special_ids={"bos_token_id": 0, "eos_token_id": 2},
)
