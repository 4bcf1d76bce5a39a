"""LongT5 (Guo et al. 2022, https://arxiv.org/abs/2112.07916): T5 1.1 whose encoder has local attention."""

from collections.abc import Mapping

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transient_global import TransientGlobalConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.model_tasks import ENCODER_ONLY_TASKS, ModelTask
from t5x_like.model.zoo.t5_like import (
    T5_FIELDS,
    T5_IGNORED,
    T5_WRITTEN,
    UNUSED,
    T5LikeConfig,
    layer_rows,
    read_t5,
    tied_as_stored,
    word_rows,
    write_t5,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, per_layer


@config_class
class LongT5Config(T5LikeConfig):
    """A LongT5 of any size: ``T5LikeConfig`` and these fields.

    The tasks ``encoding`` and ``token_classification`` use the encoder alone.

    Attributes:
      num_encoder_layers: Blocks of the encoder.
      num_decoder_layers: Blocks of the decoder.
      local_radius: Tokens to each side that a token of the encoder attends to.
      global_block_size: Tokens of a block whose summary all tokens attend to (transient-global attention); ``None``
        for local attention alone.
    """

    num_encoder_layers: int
    num_decoder_layers: int
    local_radius: int = 127
    global_block_size: int | None = None
    task: ModelTask = "sequence_to_sequence_lm"

    @property
    def parts(self) -> EncoderConfig | EncoderDecoderConfig:
        """Configuration of the family's model."""
        if self.task not in ENCODER_ONLY_TASKS:
            return self.encoder_decoder
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self._encoder(),
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """Both stacks."""
        decoder = self.block(self.attention(), cross_attention=self.attention())
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=self._encoder(),
            decoder=self.stack(decoder, self.num_decoder_layers),
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    def _encoder(self) -> StackConfig:
        window = SlidingWindow(left=self.local_radius, right=self.local_radius)
        size = self.global_block_size
        summaries = None if size is None else TransientGlobalConfig(block_size=size, positions=self.buckets)
        block = self.block(self.attention(window=window), transient_global=summaries)
        return self.stack(block, self.num_encoder_layers)


def _read(fields: ConfigFields, values: Mapping[str, object]) -> dict[str, object]:
    kinds = {"local": "local", "transient-global": "transient-global"}
    attention = fields.take_name("encoder_attention_type", kinds, "local")
    block_size = fields.take("global_block_size", 16)
    return {
        **read_t5(fields, values, tie_word_embeddings=True, feed_forward="relu"),
        "global_block_size": block_size if attention == "transient-global" else None,
    }


def _write(config: LongT5Config) -> dict[str, object]:
    size = config.global_block_size
    return {
        **write_t5(config),
        "encoder_attention_type": "local" if size is None else "transient-global",
        "global_block_size": size or 16,
    }


def _weights(config: LongT5Config) -> tuple[Weight, ...]:
    has_globals = config.global_block_size is not None
    local = "TransientGlobalSelfAttention" if has_globals else "LocalSelfAttention"
    encoder = layer_rows(config, "encoder.block.{layer}", [("self_attention", local)])
    rows = word_rows(config)
    if has_globals:
        hf_name = f"layer.0.{local}.global"
        norm = f"encoder.block.{{layer}}.{hf_name}_input_layer_norm.weight"
        encoder.append(Weight("transient_global/norm/scale", norm))
        bias = f"encoder.block.0.{hf_name}_relative_attention_bias.weight"
        rows.append(Weight("encoder/global_bias/table", bias, TRANSPOSED))
    rows += per_layer("encoder/layers/0", tuple(range(config.num_encoder_layers)), encoder)
    rows += _stack_end_rows("encoder", local)
    if config.task in ENCODER_ONLY_TASKS:
        return tuple(rows)
    attentions = [("self_attention", "SelfAttention"), ("cross_attention", "EncDecAttention")]
    decoder = layer_rows(config, "decoder.block.{layer}", attentions)
    rows += per_layer("decoder/layers/0", tuple(range(config.num_decoder_layers)), decoder)
    return (*rows, *_stack_end_rows("decoder", "SelfAttention"))


def _stack_end_rows(stack: str, attention: str) -> list[Weight]:
    bias = f"{stack}.block.0.layer.0.{attention}.relative_attention_bias.weight"
    return [
        Weight(f"{stack}/relative_bias/table", bias, TRANSPOSED),
        *module_rows({f"{stack}/final_norm": f"{stack}.final_layer_norm"}, bias=False),
    ]


LONGT5 = published(
    "longt5",
    LongT5Config,
    {
        "LongT5ForConditionalGeneration": "sequence_to_sequence_lm",
        "LongT5EncoderModel": "encoding",
        "LongT5Model": "base",
    },
    FieldTable(
        fields={**T5_FIELDS, "local_radius": Field("local_radius", 127)},
        ignored=T5_IGNORED,
        written=T5_WRITTEN,
        default_task="sequence_to_sequence_lm",
        read=_read,
        write=_write,
    ),
    weights=_weights,
    as_stored=tied_as_stored,
    unused_weights=UNUSED,
    num_sentinels=100,
)
