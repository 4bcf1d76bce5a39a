"""T5 1.0 and 1.1 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683), mT5 (1.1 with more words), and UMT5.

UMT5 (Chung et al. 2023, https://arxiv.org/abs/2304.09151) is mT5 with a table of relative positions in every layer.
"""

from collections.abc import Mapping
from typing import Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ENCODER_ONLY_TASKS, ModelTask, class_of
from t5x_like.model.zoo.t5_like import (
    T5_FIELDS,
    T5_IGNORED,
    T5_WRITTEN,
    UNUSED,
    T5LikeConfig,
    layer_rows,
    read_t5,
    tied_as_stored,
    up_projections,
    word_rows,
    write_t5,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows, per_layer


@config_class
class T5Config(T5LikeConfig):
    """A T5 of any size: ``T5LikeConfig`` and these fields.

    The tasks ``encoding`` and ``token_classification`` use the encoder alone.

    Attributes:
      num_encoder_layers: Blocks of the encoder.
      num_decoder_layers: Blocks of the decoder.
      relative_tables: Relative positions have one table for each stack, or one for each layer (UMT5).
      share_stacks: The decoder's blocks encode too, without cross-attention (Raffel et al. 2020, §3.2.2).
    """

    num_encoder_layers: int
    num_decoder_layers: int
    relative_tables: Literal["one", "per_layer"] = "one"
    share_stacks: bool = False
    task: ModelTask = "sequence_to_sequence_lm"

    def __post_init__(self) -> None:
        if self.share_stacks and self.num_encoder_layers != self.num_decoder_layers:
            raise ValueError(
                f"share_stacks with num_encoder_layers={self.num_encoder_layers} and "
                f"num_decoder_layers={self.num_decoder_layers}; give both the same number"
            )
        super().__post_init__()

    @property
    def parts(self) -> EncoderConfig | EncoderDecoderConfig:
        """Configuration of the family's model."""
        return self.encoder if self.task in ENCODER_ONLY_TASKS else self.encoder_decoder

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """Both stacks."""
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=None if self.share_stacks else self._stack(self.num_encoder_layers, decoder=False),
            decoder=self._stack(self.num_decoder_layers, decoder=True),
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def encoder(self) -> EncoderConfig:
        """Encoder without a decoder."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self._stack(self.num_encoder_layers, decoder=False),
            heads=self.heads if self.task in ENCODER_ONLY_TASKS else HeadsConfig(),
            compute_dtype=self.compute_dtype,
        )

    def _stack(self, num_layers: int, *, decoder: bool) -> StackConfig:
        shared = self.relative_tables == "one"
        attention = self.attention(None if shared else self.buckets)
        block = self.block(attention, cross_attention=self.attention() if decoder else None)
        return self.stack(block, num_layers, relative=shared)


def _classes(name: str) -> dict[str, ModelTask]:
    return {
        f"{name}ForConditionalGeneration": "sequence_to_sequence_lm",
        f"{name}ForSequenceClassification": "sequence_classification",
        f"{name}ForTokenClassification": "token_classification",
        f"{name}ForQuestionAnswering": "question_answering",
        f"{name}EncoderModel": "encoding",
        f"{name}Model": "base",
    }


# Begins all names of weights but the head's, in files of classifiers.
_PREFIX = "transformer."


def _read(fields: ConfigFields, values: Mapping[str, object]) -> dict[str, object]:
    model_type = fields.config.get("model_type", "t5")
    own = read_t5(
        fields,
        values,
        tie_word_embeddings=model_type != "mt5",
        feed_forward="relu" if model_type == "t5" else "gated-gelu",
    )
    if model_type == "mt5":  # transformers 5 never scales it, and 4 scaled a tied one
        fields.must_be("scale_decoder_outputs", False)
        is_of_4 = str(fields.config.get("transformers_version", "")).startswith("4.")
        own["scale_decoder_outputs"] = own["tie_word_embeddings"] and is_of_4
    return {**own, "relative_tables": "per_layer" if model_type == "umt5" else "one"}


def _write(config: T5Config) -> dict[str, object]:
    _refuse_shared(config)
    name = "T5" if config.relative_tables == "one" else "UMT5"
    return {
        **write_t5(config),
        "architectures": [class_of(config.task, _classes(name))],
        "model_type": name.lower(),
    }


def _refuse_shared(config: T5Config) -> None:
    if config.share_stacks:
        raise ValueError("share_stacks: transformers has no T5 whose stacks share their weights")


def _weights(config: T5Config) -> tuple[Weight, ...]:
    _refuse_shared(config)
    rows = word_rows(config) + _stack_rows(config, "encoder", config.num_encoder_layers)
    if config.task not in ENCODER_ONLY_TASKS:
        rows += _stack_rows(config, "decoder", config.num_decoder_layers)
    if config.task not in ("sequence_classification", "token_classification"):
        return tuple(rows)
    return tuple(row if row.paths[0].startswith("heads/") else _prefixed(row) for row in rows)


def _stack_rows(config: T5Config, stack: str, num_layers: int) -> list[Weight]:
    attentions = [("self_attention", "SelfAttention")]
    if stack == "decoder":
        attentions.append(("cross_attention", "EncDecAttention"))
    layer = layer_rows(config, f"{stack}.block.{{layer}}", attentions)
    bias = "layer.0.SelfAttention.relative_attention_bias.weight"
    rows = module_rows({f"{stack}/final_norm": f"{stack}.final_layer_norm"}, bias=False)
    if config.relative_tables == "one":
        rows.append(Weight(f"{stack}/relative_bias/table", f"{stack}.block.0.{bias}", TRANSPOSED))
    else:
        layer.append(Weight("relative_bias/table", f"{stack}.block.{{layer}}.{bias}", TRANSPOSED))
    return [*per_layer(f"{stack}/layers/0", tuple(range(num_layers)), layer), *rows]


def _prefixed(row: Weight) -> Weight:
    copies = tuple(_PREFIX + copy for copy in row.copies)
    return row._replace(hf_name=_PREFIX + row.hf_name, copies=copies)


def t5x_weights(config: T5Config) -> tuple[Weight, ...]:
    """Return the weight table under T5X's names, in its layout with one array for each layer."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    columns = TRANSPOSED.then(words).then(TRANSPOSED)
    table = [Weight("embedding/tokens/table", "token_embedder/embedding", words)]
    if not config.tie_word_embeddings:
        table.append(Weight("heads/lm_head/projection/kernel", "decoder/logits_dense/kernel", columns))
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
            hf_name = f"{stack}/layers_{{layer}}"
            rows.append(Weight(f"{sublayer}_residual/before/scale", f"{hf_name}/{norm}/scale"))
            rows += [
                Weight(f"{sublayer}/{kernel}/kernel", f"{hf_name}/{their_sublayer}/{name}/kernel")
                for kernel, name in kernels.items()
            ]
        table += per_layer(f"{stack}/layers/0", tuple(range(num_layers)), rows)
        table += [
            Weight(f"{stack}/relative_bias/table", f"{stack}/relpos_bias/rel_embedding"),
            Weight(f"{stack}/final_norm/scale", f"{stack}/{stack}_norm/scale"),
        ]
    return tuple(table)


T5 = published(
    "t5",
    T5Config,
    {
        **_classes("T5"),
        "T5WithLMHeadModel": "sequence_to_sequence_lm",
        **_classes("MT5"),
        **_classes("UMT5"),
    },
    FieldTable(
        fields=T5_FIELDS,
        ignored=(*T5_IGNORED, "scalable_attention"),  # in UMT5's files; its code doesn't read it
        written=T5_WRITTEN,
        default_task="sequence_to_sequence_lm",
        read=_read,
        write=_write,
    ),
    weights=_weights,
    model_types=("t5", "mt5", "umt5"),
    t5x_weights=t5x_weights,
    as_stored=tied_as_stored,
    prefix=_PREFIX,
    unused_weights=UNUSED,
    num_sentinels=100,
    num_byte_sentinels=125,  # ByT5's (Xue et al. 2022, https://arxiv.org/abs/2105.13626)
)
