"""T5Gemma (Zhang et al. 2025, https://arxiv.org/abs/2504.06225): encoder-decoders of Gemma 2's layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.decoder_like import stack_rows
from t5x_like.model.zoo.gemma import SPECIAL_IDS
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, score_rows, scoring_heads
from t5x_like.model.zoo.t5gemma_stack import (
    StackName,
    T5GemmaStackConfig,
    layer_rows,
    read_stack,
    write_stack,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows

# Tasks that nothing but a decoder can do.
_DECODING: tuple[ModelTask, ...] = ("sequence_to_sequence_lm", "base")


@config_class
class T5GemmaConfig(CommonConfig):
    """A T5Gemma of any size. Each stack has a word table of its own.

    Attributes:
      encoder: Layers of the encoder.
      decoder: Layers of the decoder.
      has_decoder: Heads read the decoder, which reads the input again; otherwise they read the encoder.
      tie_word_embeddings: The output layer uses the decoder's word embeddings.
      final_logit_soft_cap: Replaces logits ``s`` of the output layer by ``cap * tanh(s / cap)``; ``None`` leaves them.
      model_dim: Width of what heads read; it follows from the stacks, whatever is given.
      decoder_start_token_id: First id that the decoder reads.
      classifier_dropout_rate: Dropout of a classifier's input; ``None`` is ``dropout_rate``.
    """

    encoder: T5GemmaStackConfig
    decoder: T5GemmaStackConfig
    has_decoder: bool = True
    tie_word_embeddings: bool = True
    final_logit_soft_cap: float | None = 30.0
    model_dim: int = 0
    task: ModelTask = "sequence_to_sequence_lm"
    decoder_start_token_id: int = 2
    classifier_dropout_rate: float | None = None

    rereads_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.task in _DECODING and not self.has_decoder:
            raise ValueError(
                f"has_decoder is false, and the task {self.task!r} needs a decoder; take another task"
            )
        read = self.decoder if self.decodes else self.encoder
        # Set whatever it was: another task may read the other stack.
        object.__setattr__(self, "model_dim", read.model_dim)
        super().__post_init__()

    @property
    def decodes(self) -> bool:
        """True if heads read the decoder."""
        return self.has_decoder and self.task != "encoding"

    @property
    def parts(self) -> EncoderConfig | EncoderDecoderConfig:
        """Configuration of the family's model."""
        embeddings, encoder = self._embeddings(self.encoder), self._stack("encoder")
        if not self.decodes:
            return EncoderConfig(
                embeddings=embeddings, stack=encoder, heads=self.heads, compute_dtype=self.compute_dtype
            )
        return EncoderDecoderConfig(
            embeddings=embeddings,
            decoder_embeddings=self._embeddings(self.decoder),
            shared_words=False,
            encoder=encoder,
            decoder=self._stack("decoder"),
            heads=self.heads,
            decoder_start_token_id=self.decoder_start_token_id,
            rereads_all=self.rereads_all,
            compute_dtype=self.compute_dtype,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        if self.task == "sequence_to_sequence_lm":
            cap = self.final_logit_soft_cap
            return HeadsConfig(
                lm_head=LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, final_logit_soft_cap=cap)
            )
        if self.task in ("base", "encoding"):
            return HeadsConfig()
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="last"),
            dropout_rate=classifier_dropout_of(self),
        )
        if heads is None:
            raise ValueError(f"T5Gemma has no head for the task {self.task!r}")
        return heads

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Embeddings of the input."""
        return self._embeddings(self.encoder)

    def _embeddings(self, stack: T5GemmaStackConfig) -> EmbeddingsConfig:
        return self.embeddings_of(embed_dim=stack.model_dim, scale=stack.model_dim**0.5)

    def _stack(self, name: StackName) -> StackConfig:
        stack = self.encoder if name == "encoder" else self.decoder
        cross = None if name == "encoder" else stack.plain_attention
        blocks = [
            replace(
                stack.block(layer, name),
                cross_attention=cross,
                encoded_dim=None if cross is None else self.encoder.model_dim,
                dropout_rate=self.dropout_rate,
            )
            for layer in range(stack.num_layers)
        ]
        return StackConfig(
            blocks=tuple(blocks),
            final_norm=stack.norm,
            output_dropout=True,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    fields.ignore("vocab_size")  # the stacks' own are what transformers builds tables of
    encoder, decoder = fields.take("encoder", {}), fields.take("decoder", {})
    (read, _), (written, cap) = read_stack(encoder), read_stack(decoder)
    sizes = [stack.get("vocab_size", 256_000) for stack in (encoder, decoder)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"config.json: vocab_size is {sizes[0]} in encoder and {sizes[1]} in decoder; only one vocabulary is "
            "supported"
        )
    task, start = values["task"], decoder.get("bos_token_id")
    has_decoder = fields.take("is_encoder_decoder", task != "encoding")
    return {
        "vocab_size": sizes[1],
        "encoder": read,
        "decoder": written,
        "has_decoder": has_decoder or task == "encoding",
        "final_logit_soft_cap": cap,
        "decoder_start_token_id": SPECIAL_IDS["bos_token_id"] if start is None else start,
    }


def _write(config: T5GemmaConfig) -> dict[str, Any]:
    ids = {**SPECIAL_IDS, "bos_token_id": config.decoder_start_token_id}
    shared = {
        **ids,
        "model_type": "t5_gemma_module",
        "vocab_size": config.vocab_size,
        "dropout_rate": config.dropout_rate,
        "final_logit_softcapping": config.final_logit_soft_cap,
    }
    width = config.encoder.model_dim
    return {
        **ids,
        "vocab_size": config.vocab_size,
        "is_encoder_decoder": config.decodes,
        "encoder": {**write_stack(config.encoder), **shared, "is_decoder": False},
        "decoder": {
            **write_stack(config.decoder),
            **shared,
            "is_decoder": True,
            "cross_attention_hidden_size": width,
        },
    }


def _weights(config: T5GemmaConfig) -> tuple[Weight, ...]:
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    head, parts = "lm_head.out_proj.weight", config.parts
    tied = parts.heads.lm_head is not None and config.tie_word_embeddings
    names: list[StackName] = ["encoder", "decoder"] if config.decodes else ["encoder"]
    rows = []
    for name in names:
        stack, path = (
            (config.encoder, "embedding") if name == "encoder" else (config.decoder, "decoder_embedding")
        )
        copies = (head,) if tied and name == "decoder" else ()
        table = f"model.{name}.embed_tokens.weight"
        rows.append(Weight(f"{path}/tokens/table", table, words, copies=copies))
        blocks = parts.stack if isinstance(parts, EncoderConfig) else getattr(parts, name)
        rows += stack_rows(name, blocks, layer_rows(stack, name))
        rows += module_rows({f"{name}/final_norm": f"model.{name}.norm"}, bias=False)
    if parts.heads.lm_head is not None and not tied:
        rows.append(Weight("heads/lm_head/projection/kernel", head, words.then(TRANSPOSED)))
    return (*rows, *score_rows(parts.heads, {}, "score.out_proj"))


T5GEMMA = published(
    "t5gemma",
    T5GemmaConfig,
    {
        "T5GemmaForConditionalGeneration": "sequence_to_sequence_lm",
        "T5GemmaForSequenceClassification": "sequence_classification",
        "T5GemmaForTokenClassification": "token_classification",
        "T5GemmaEncoderModel": "encoding",
        "T5GemmaModel": "base",
    },
    FieldTable(
        fields={
            "dropout_rate": Field("dropout_rate", 0.0),
            "classifier_dropout_rate": Field("classifier_dropout_rate", 0.0),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
        },
        ignored=("attention_dropout",),
        written={"attention_dropout": 0.0},
        default_task="sequence_to_sequence_lm",
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="model.",
    special_ids=SPECIAL_IDS,
)
