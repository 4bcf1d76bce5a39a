"""T5 1.0 and 1.1 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683), mT5, which is 1.1 with more words, and UMT5.

UMT5 (Chung et al. 2023, https://arxiv.org/abs/2304.09151) is mT5 with a table of relative positions in every layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ENCODER_ONLY_TASKS, ModelTask, class_of, task_of
from t5x_like.model.zoo.t5_like import (
    UNUSED,
    T5LikeConfig,
    layer_rows,
    parts_fields,
    take_parts,
    up_projections,
    word_rows,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows, per_layer


@dataclass(frozen=True, kw_only=True)
class T5Config(T5LikeConfig):
    """A T5 of any size. Encoding, and classes of tokens, take the encoder alone.

    ``relative_tables``: one for each stack, or one for each layer (UMT5). ``share_stacks``: the decoder's blocks read
    too, leaving out cross-attention (Raffel et al. 2020, §3.2.2).
    """

    num_encoder_layers: int
    num_decoder_layers: int
    relative_tables: Literal["one", "per_layer"] = "one"
    share_stacks: bool = False
    task: ModelTask = "sequence_to_sequence_lm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_stacks and self.num_encoder_layers != self.num_decoder_layers:
            raise ValueError(
                f"share_stacks with num_encoder_layers={self.num_encoder_layers} and "
                f"num_decoder_layers={self.num_decoder_layers}; give both the same number"
            )

    def build(self, key: jax.Array) -> EncoderDecoder | Encoder:
        """The model with fresh weights."""
        if self.task in ENCODER_ONLY_TASKS:
            return Encoder(self.encoder, key=key)
        return EncoderDecoder(self.encoder_decoder, key=key)

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """Both stacks."""
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=None if self.share_stacks else self._stack(self.num_encoder_layers, decoder=False),
            decoder=self._stack(self.num_decoder_layers, decoder=True),
            heads=self.heads(self.task),
            compute_dtype=self.compute_dtype,
        )

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder alone."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self._stack(self.num_encoder_layers, decoder=False),
            heads=self.heads(self.task) if self.task in ENCODER_ONLY_TASKS else HeadsConfig(),
            compute_dtype=self.compute_dtype,
        )

    def _stack(self, num_layers: int, *, decoder: bool) -> StackConfig:
        shared = self.relative_tables == "one"
        attention = self.attention(None if shared else self.buckets)
        block = self.block(attention, cross_attention=self.attention() if decoder else None)
        return self.stack(block, num_layers, relative=shared)


# Before all weights but the head's, in files of classifiers.
_PREFIX = "transformer."

_CLASSES: dict[str, ModelTask] = {
    "T5ForConditionalGeneration": "sequence_to_sequence_lm",
    "T5WithLMHeadModel": "sequence_to_sequence_lm",
    "T5ForSequenceClassification": "sequence_classification",
    "T5ForTokenClassification": "token_classification",
    "T5ForQuestionAnswering": "question_answering",
    "T5EncoderModel": "encoding",
    "T5Model": "base",
    "MT5ForConditionalGeneration": "sequence_to_sequence_lm",
    "MT5ForSequenceClassification": "sequence_classification",
    "MT5ForTokenClassification": "token_classification",
    "MT5ForQuestionAnswering": "question_answering",
    "MT5EncoderModel": "encoding",
    "MT5Model": "base",
    "UMT5ForConditionalGeneration": "sequence_to_sequence_lm",
    "UMT5ForSequenceClassification": "sequence_classification",
    "UMT5ForTokenClassification": "token_classification",
    "UMT5ForQuestionAnswering": "question_answering",
    "UMT5EncoderModel": "encoding",
    "UMT5Model": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> T5Config:
    """The configuration that a ``config.json`` of ``model_type`` t5, mt5 or umt5 describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    model_type = config.get("model_type", "t5")
    fields = ConfigFields(config)
    fields.ignore("scalable_attention")  # in UMT5's files; its code doesn't read it
    num_layers = fields.take("num_layers")
    task = task_of(config, _CLASSES, "sequence_to_sequence_lm")
    ours = T5Config(
        num_encoder_layers=num_layers,
        num_decoder_layers=fields.take("num_decoder_layers", num_layers),
        relative_tables="per_layer" if model_type == "umt5" else "one",
        task=task,
        **take_parts(
            config,
            fields,
            task,
            tie_word_embeddings=model_type != "mt5",
            feed_forward="relu" if model_type == "t5" else "gated-gelu",
        ),
    )
    fields.finish()
    return ours


def to_hugging_face(config: T5Config) -> dict[str, Any]:
    """The fields of a ``config.json``.

    Raises:
      ValueError: transformers has no such model.
    """
    _refuse_shared(config)
    model_type = "t5" if config.relative_tables == "one" else "umt5"
    classes: dict[str, ModelTask] = {
        name: task for name, task in _CLASSES.items() if name.startswith(model_type.upper())
    }
    return {
        "architectures": [class_of(config.task, classes)],
        "model_type": model_type,
        "num_decoder_layers": config.num_decoder_layers,
        "num_layers": config.num_encoder_layers,
        **parts_fields(config),
    }


def hugging_face_weights(config: T5Config) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names.

    Raises:
      ValueError: transformers has no such model.
    """
    _refuse_shared(config)
    table = word_rows(config, config.task) + _stack_rows(config, "encoder", config.num_encoder_layers)
    if config.task not in ENCODER_ONLY_TASKS:
        table += _stack_rows(config, "decoder", config.num_decoder_layers)
    if config.task not in ("sequence_classification", "token_classification"):
        return tuple(table)
    return tuple(row if row.paths[0].startswith("heads/") else _prefixed(row) for row in table)


def _stack_rows(config: T5Config, stack: str, num_layers: int) -> list[Weight]:
    attentions = [("self_attention", "SelfAttention")]
    if stack == "decoder":
        attentions.append(("cross_attention", "EncDecAttention"))
    rows = layer_rows(config, f"{stack}.block.{{layer}}", attentions)
    bias = "layer.0.SelfAttention.relative_attention_bias.weight"
    table = [Weight(f"{stack}/final_norm/scale", f"{stack}.final_layer_norm.weight")]
    if config.relative_tables == "one":
        table.append(Weight(f"{stack}/relative_bias/table", f"{stack}.block.0.{bias}", TRANSPOSED))
    else:
        rows.append(Weight("relative_bias/table", f"{stack}.block.{{layer}}.{bias}", TRANSPOSED))
    return [*per_layer(f"{stack}/layers/0", tuple(range(num_layers)), rows), *table]


def _prefixed(row: Weight) -> Weight:
    copies = tuple(_PREFIX + copy for copy in row.copies)
    return row._replace(theirs=_PREFIX + row.theirs, copies=copies)


def _refuse_shared(config: T5Config) -> None:
    if config.share_stacks:
        raise ValueError("share_stacks: transformers has no T5 whose stacks share their weights")


def t5x_weights(config: T5Config) -> tuple[Weight, ...]:
    """Our weights by T5X's names, in its layout with one array a layer."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    columns = TRANSPOSED.then(words).then(TRANSPOSED)
    table = [Weight("embedding/tokens/table", "token_embedder/embedding", words)]
    if not config.tie_word_embeddings:
        table.append(Weight("heads/words/projection/kernel", "decoder/logits_dense/kernel", columns))
    attention = {kernel: kernel for kernel in ("query", "key", "value", "out")}
    feed_forward = {"down": "wo"} | up_projections(config)
    stacks = (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers))
    for stack, num_layers in stacks:
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


T5 = Architecture(
    name="t5",
    config_class=T5Config,
    model_types=(
        "t5",
        "mt5",
        "umt5",
    ),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    t5x_weights=t5x_weights,
    prefix=_PREFIX,
    unused_weights=UNUSED,
    num_sentinels=100,
    num_byte_sentinels=125,  # ByT5's (Xue et al. 2022, https://arxiv.org/abs/2105.13626)
)
