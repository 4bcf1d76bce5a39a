"""LongT5 (Guo et al. 2022, https://arxiv.org/abs/2112.07916): T5 1.1 whose encoder looks at neighbors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transient_global import TransientGlobalConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ENCODER_ONLY_TASKS, ModelTask, class_of, task_of
from t5x_like.model.zoo.t5_like import UNUSED, T5LikeConfig, layer_rows, parts_fields, take_parts, word_rows
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, per_layer


@dataclass(frozen=True, kw_only=True)
class LongT5Config(T5LikeConfig):
    """A LongT5 of any size. Encoding, and classes of tokens, take the encoder alone.

    The encoder's tokens see ``local_radius`` tokens to either side and, with a ``global_block_size``, a summary of each
    block of so many tokens (transient-global attention).
    """

    num_encoder_layers: int
    num_decoder_layers: int
    local_radius: int = 127
    global_block_size: int | None = None
    task: ModelTask = "sequence_to_sequence_lm"

    def build(self, key: jax.Array) -> EncoderDecoder | Encoder:
        """The model with fresh weights."""
        if self.task in ENCODER_ONLY_TASKS:
            config = EncoderConfig(
                embeddings=self.embeddings,
                stack=self._encoder(),
                heads=self.heads(self.task),
                compute_dtype=self.compute_dtype,
            )
            return Encoder(config, key=key)
        return EncoderDecoder(self.encoder_decoder, key=key)

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """Both stacks."""
        decoder = self.block(self.attention(), cross_attention=self.attention())
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=self._encoder(),
            decoder=self.stack(decoder, self.num_decoder_layers),
            heads=self.heads(self.task),
            compute_dtype=self.compute_dtype,
        )

    def _encoder(self) -> StackConfig:
        window = SlidingWindow(left=self.local_radius, right=self.local_radius)
        size = self.global_block_size
        summaries = None if size is None else TransientGlobalConfig(block_size=size, positions=self.buckets)
        block = self.block(self.attention(window=window), transient_global=summaries)
        return self.stack(block, self.num_encoder_layers)


_CLASSES: dict[str, ModelTask] = {
    "LongT5ForConditionalGeneration": "sequence_to_sequence_lm",
    "LongT5EncoderModel": "encoding",
    "LongT5Model": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> LongT5Config:
    """The configuration that a ``config.json`` of ``model_type`` longt5 describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    num_layers = fields.take("num_layers")
    names = {"local": "local", "transient-global": "transient-global"}
    attention = fields.take_name("encoder_attention_type", names, "local")
    block_size = fields.take("global_block_size", 16)
    task = task_of(config, _CLASSES, "sequence_to_sequence_lm")
    ours = LongT5Config(
        num_encoder_layers=num_layers,
        num_decoder_layers=fields.take("num_decoder_layers", num_layers),
        local_radius=fields.take("local_radius", 127),
        global_block_size=block_size if attention == "transient-global" else None,
        task=task,
        **take_parts(config, fields, task, tie_word_embeddings=True, feed_forward="relu"),
    )
    fields.finish()
    return ours


def to_hugging_face(config: LongT5Config) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    size = config.global_block_size
    attention: Literal["local", "transient-global"] = "local" if size is None else "transient-global"
    return {
        "architectures": [class_of(config.task, _CLASSES)],
        "encoder_attention_type": attention,
        "global_block_size": size or 16,
        "local_radius": config.local_radius,
        "model_type": "longt5",
        "num_decoder_layers": config.num_decoder_layers,
        "num_layers": config.num_encoder_layers,
        **parts_fields(config),
    }


def hugging_face_weights(config: LongT5Config) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    has_globals = config.global_block_size is not None
    local = "TransientGlobalSelfAttention" if has_globals else "LocalSelfAttention"
    encoder = layer_rows(config, "encoder.block.{layer}", [("self_attention", local)])
    table = word_rows(config, config.task)
    if has_globals:
        theirs = f"layer.0.{local}.global"
        norm = f"encoder.block.{{layer}}.{theirs}_input_layer_norm.weight"
        encoder.append(Weight("transient_global/norm/scale", norm))
        bias = f"encoder.block.0.{theirs}_relative_attention_bias.weight"
        table.append(Weight("encoder/global_bias/table", bias, TRANSPOSED))
    table += per_layer("encoder/layers/0", tuple(range(config.num_encoder_layers)), encoder)
    table += _around("encoder", local)
    if config.task in ENCODER_ONLY_TASKS:
        return tuple(table)
    attentions = [("self_attention", "SelfAttention"), ("cross_attention", "EncDecAttention")]
    decoder = layer_rows(config, "decoder.block.{layer}", attentions)
    table += per_layer("decoder/layers/0", tuple(range(config.num_decoder_layers)), decoder)
    return (*table, *_around("decoder", "SelfAttention"))


def _around(stack: str, attention: str) -> list[Weight]:
    bias = f"{stack}.block.0.layer.0.{attention}.relative_attention_bias.weight"
    return [
        Weight(f"{stack}/relative_bias/table", bias, TRANSPOSED),
        Weight(f"{stack}/final_norm/scale", f"{stack}.final_layer_norm.weight"),
    ]


LONGT5 = Architecture(
    name="longt5",
    config_class=LongT5Config,
    model_types=("longt5",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    unused_weights=UNUSED,
    num_sentinels=100,
)
