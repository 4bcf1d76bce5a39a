"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    ProblemType,
    class_of,
    encoder_decoder_score_rows,
    label_fields,
    num_labels_of,
    problem_type_of,
    scoring_heads,
    task_of,
)
from t5x_like.model.zoo.post_norm_encoders import post_norm_block, words_of
from t5x_like.model.zoo.weights import Weight, WeightTransform, dense, norm, per_layer


@dataclass(frozen=True, kw_only=True)
class BartConfig:
    """A BART of any size. Each stack has its own positions and a norm of what enters it.

    ``scale_embedding``: words are multiplied with the root of the width.
    """

    vocab_size: int
    model_dim: int
    encoder_mlp_dim: int
    decoder_mlp_dim: int
    num_encoder_heads: int
    num_decoder_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    max_position_embeddings: int = 1024
    activation: Activation = "gelu"
    scale_embedding: bool = False
    task: ModelTask = "sequence_to_sequence_lm"
    num_labels: int = 3
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> EncoderDecoder:
        """The model with fresh weights."""
        return EncoderDecoder(self.encoder_decoder, key=key)

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """The parts that it is made of."""
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            decoder_embeddings=self.embeddings,
            encoder=self._stack("encoder"),
            decoder=self._stack("decoder"),
            heads=self._heads(),
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions, normed. Two rows lie before position 0: a relic of fairseq."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings, offset=2),
            norm=LayerNormConfig(),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    def _stack(self, stack: Literal["encoder", "decoder"]) -> StackConfig:
        is_encoder = stack == "encoder"
        block = post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.encoder_mlp_dim if is_encoder else self.decoder_mlp_dim,
            num_heads=self.num_encoder_heads if is_encoder else self.num_decoder_heads,
            activation=self.activation,
            norm_epsilon=LayerNormConfig().epsilon,
            dropout_rate=self.dropout_rate,
        )
        block = block if is_encoder else replace(block, cross_attention=block.attention)
        num_layers = self.num_encoder_layers if is_encoder else self.num_decoder_layers
        return StackConfig(blocks=(block,) * num_layers, remat=self.remat)

    def _heads(self) -> HeadsConfig:
        if self.task == "sequence_to_sequence_lm":
            return HeadsConfig(words=WordsConfig(tie_word_embeddings=True, bias=True))
        if self.task == "base":
            return HeadsConfig()
        # The decoder reads the input again; its last token has seen everything (§3.1).
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="last"),
            of_pooled=TransformConfig(dim=self.model_dim, activation="tanh"),
        )
        if heads is None:
            raise ValueError(f"BART has no head for the task {self.task!r}")
        return heads


_CLASSES: dict[str, ModelTask] = {
    "BartForConditionalGeneration": "sequence_to_sequence_lm",
    "BartForSequenceClassification": "sequence_classification",
    "BartForQuestionAnswering": "question_answering",
    "BartModel": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> BartConfig:
    """The configuration that a ``config.json`` of ``model_type`` bart describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.must_be("is_encoder_decoder", True)
    fields.must_be("tie_word_embeddings", True)
    # Traits of BART's relatives, which older files name.
    fields.must_be("normalize_before", False)
    fields.must_be("normalize_embedding", True)
    fields.must_be("add_final_layer_norm", False)
    fields.must_be("add_bias_logits", False)
    fields.must_be("static_position_embeddings", False)
    fields.must_be("extra_pos_embeddings", 2)
    fields.ignore("attention_dropout", "activation_dropout", "classifier_dropout", "classif_dropout")
    fields.ignore("encoder_layerdrop", "decoder_layerdrop", "init_std", "num_hidden_layers", "output_past")
    fields.ignore("force_bos_token_to_be_generated", "_num_labels")
    ours = BartConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("d_model"),
        encoder_mlp_dim=fields.take("encoder_ffn_dim"),
        decoder_mlp_dim=fields.take("decoder_ffn_dim"),
        num_encoder_heads=fields.take("encoder_attention_heads"),
        num_decoder_heads=fields.take("decoder_attention_heads"),
        num_encoder_layers=fields.take("encoder_layers"),
        num_decoder_layers=fields.take("decoder_layers"),
        max_position_embeddings=fields.take("max_position_embeddings", 1024),
        activation=fields.take_name("activation_function", ACTIVATION_NAMES, "gelu"),
        scale_embedding=fields.take("scale_embedding", False),
        task=task_of(config, _CLASSES, "sequence_to_sequence_lm"),
        num_labels=num_labels_of({"num_labels": 3, **config}),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("dropout", 0.1),
    )
    fields.finish()
    return ours


def to_hugging_face(config: BartConfig) -> dict[str, Any]:
    """The fields of a ``config.json``; what is not about the model has BART's usual values."""
    return {
        "activation_function": ACTIVATION_NAMES.theirs(config.activation),
        "architectures": [class_of(config.task, _CLASSES)],
        "bos_token_id": 0,
        "d_model": config.model_dim,
        "decoder_attention_heads": config.num_decoder_heads,
        "decoder_ffn_dim": config.decoder_mlp_dim,
        "decoder_layers": config.num_decoder_layers,
        "decoder_start_token_id": 2,
        "dropout": config.dropout_rate,
        "encoder_attention_heads": config.num_encoder_heads,
        "encoder_ffn_dim": config.encoder_mlp_dim,
        "encoder_layers": config.num_encoder_layers,
        "eos_token_id": 2,
        "is_encoder_decoder": True,
        "max_position_embeddings": config.max_position_embeddings,
        "model_type": "bart",
        **label_fields(config.num_labels, config.problem_type),
        "pad_token_id": 1,
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: BartConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    words = words_of(config.embeddings)
    one_row = WeightTransform(lambda array: array[0], lambda array: array[None])
    copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    table = [Weight("embedding/tokens/table", "model.shared.weight", words, copies=copies)]
    for stack, entrance, num_layers in (
        ("encoder", "embedding", config.num_encoder_layers),
        ("decoder", "decoder_embedding", config.num_decoder_layers),
    ):
        theirs = f"model.{stack}"
        table += [
            Weight(f"{entrance}/positions/table", f"{theirs}.embed_positions.weight"),
            *norm(f"{entrance}/norm", f"{theirs}.layernorm_embedding"),
            *per_layer(f"{stack}/layers/0", tuple(range(num_layers)), _layer_rows(stack)),
        ]
    if config.task == "sequence_to_sequence_lm":
        table.append(Weight("heads/words/bias", "final_logits_bias", one_row.then(words)))
    return (*table, *encoder_decoder_score_rows(config.encoder_decoder.heads))


def _layer_rows(stack: str) -> list[Weight]:
    theirs = f"model.{stack}.layers.{{layer}}"
    attentions = {"self_attention": "self_attn"}
    if stack == "decoder":
        attentions["cross_attention"] = "encoder_attn"
    rows = []
    for ours, name in attentions.items():
        for kernel, projection in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out")):
            rows += dense(f"{ours}/{kernel}", f"{theirs}.{name}.{projection}_proj")
        rows += norm(f"around_{ours}/final", f"{theirs}.{name}_layer_norm")
    return [
        *rows,
        *dense("feed_forward/up", f"{theirs}.fc1"),
        *dense("feed_forward/down", f"{theirs}.fc2"),
        *norm("around_feed_forward/final", f"{theirs}.final_layer_norm"),
    ]


BART = Architecture(
    name="bart",
    config_class=BartConfig,
    model_types=("bart",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="model.",
)
