"""Encoder-decoders with absolute positions and biases everywhere: shared configuration and files."""

from dataclasses import replace
from typing import ClassVar, Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.bert_like import post_norm_block
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, Field
from t5x_like.model.zoo.model_tasks import ModelTask, encoder_decoder_heads, encoder_decoder_score_rows
from t5x_like.model.zoo.weights import Weight, WeightTransform, module_rows, padded_rows, per_layer


@config_class
class BartLikeConfig(CommonConfig):
    """An encoder-decoder of any size with one word table and absolute positions.

    Residuals are normalized, as in BART. Members with ``norms_before`` normalize the inputs of their layers and the
    outputs of both stacks. A member of the family adds fields, and overrides ``embeddings`` and what else it changes.

    Attributes:
      encoder_mlp_dim: Inner width of the encoder's feed-forward layers.
      decoder_mlp_dim: Inner width of the decoder's feed-forward layers.
      num_encoder_heads: Attention heads of each encoder layer.
      num_decoder_heads: Attention heads of each decoder layer.
      num_encoder_layers: Blocks of the encoder.
      num_decoder_layers: Blocks of the decoder.
      max_position_embeddings: Longest input and output in tokens.
      activation: Nonlinearity of the feed-forward layers.
      scale_embedding: Multiplies word embeddings by the square root of the width.
    """

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

    decoder_start: ClassVar[int] = 0  # first id that the decoder reads where a head reads the input
    norms_before: ClassVar[bool] = False
    output_bias: ClassVar[bool] = True

    @property
    def parts(self) -> EncoderDecoderConfig:
        """Configuration of the family's model."""
        return self.encoder_decoder

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig:
        """Configuration of the family's model."""
        return EncoderDecoderConfig(
            embeddings=self.embeddings,
            decoder_embeddings=self.embeddings,
            encoder=self._stack("encoder"),
            decoder=self._stack("decoder"),
            heads=encoder_decoder_heads(
                self.task,
                num_labels=self.num_labels,
                model_dim=self.model_dim,
                lm_head=LMHeadConfig(tie_word_embeddings=True, bias=self.output_bias),
                model=type(self).__name__.removesuffix("Config"),
            ),
            decoder_start_token_id=self.decoder_start,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Input embeddings of each stack."""
        raise NotImplementedError

    def _stack(self, stack: Literal["encoder", "decoder"]) -> StackConfig:
        block = self._block(stack)
        num_layers = self.num_encoder_layers if stack == "encoder" else self.num_decoder_layers
        return StackConfig(
            blocks=(block,) * num_layers,
            final_norm=block.norm if self.norms_before else None,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    def _block(self, stack: Literal["encoder", "decoder"]) -> BlockConfig:
        is_encoder = stack == "encoder"
        block = post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.encoder_mlp_dim if is_encoder else self.decoder_mlp_dim,
            num_heads=self.num_encoder_heads if is_encoder else self.num_decoder_heads,
            activation=self.activation,
            norm_epsilon=LayerNormConfig().epsilon,
            dropout_rate=self.dropout_rate,
        )
        if self.norms_before:
            block = replace(block, attention_norms=("before",), feed_forward_norms=("before",))
        return block if is_encoder else replace(block, cross_attention=block.attention)


def bart_like_weights(config: BartLikeConfig) -> tuple[Weight, ...]:
    """Return the weight table under Hugging Face's names."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    one_row = WeightTransform(lambda array: array[0], lambda array: array[None])
    copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    rows = [Weight("embedding/tokens/table", "model.shared.weight", words, copies=copies)]
    norm_slot = "before" if config.norms_before else "final"
    for stack, embedding, num_layers in (
        ("encoder", "embedding", config.num_encoder_layers),
        ("decoder", "decoder_embedding", config.num_decoder_layers),
    ):
        hf_name = f"model.{stack}."
        layer = module_rows(_layer_names(stack, norm_slot), f"{hf_name}layers.{{layer}}.")
        if config.embeddings.positions is not None:
            rows.append(Weight(f"{embedding}/positions/table", f"{hf_name}embed_positions.weight"))
        if config.embeddings.norm is not None:
            rows += module_rows({f"{embedding}/norm": "layernorm_embedding"}, hf_name)
        if config.norms_before:
            rows += module_rows({f"{stack}/final_norm": "layer_norm"}, hf_name)
        rows += per_layer(f"{stack}/layers/0", tuple(range(num_layers)), layer)
    if config.task == "sequence_to_sequence_lm" and config.output_bias:
        rows.append(Weight("heads/lm_head/bias", "final_logits_bias", one_row.then(words)))
    return (*rows, *encoder_decoder_score_rows(config.encoder_decoder.heads))


def _layer_names(stack: str, norm_slot: str) -> dict[str, str]:
    """Return the names of a layer's modules by our paths; ``norm_slot`` is "before" or "final"."""
    names = {
        "feed_forward/up": "fc1",
        "feed_forward/down": "fc2",
        f"feed_forward_residual/{norm_slot}": "final_layer_norm",
    }
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    for path, hf_name in attentions.items() if stack == "decoder" else [("self_attention", "self_attn")]:
        names[f"{path}_residual/{norm_slot}"] = f"{hf_name}_layer_norm"
        for projection, name in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out")):
            names[f"{path}/{projection}"] = f"{hf_name}.{name}_proj"
    return names


# Fields of a config.json that hold fields of a configuration.
BART_LIKE_FIELDS: dict[str, Field] = {
    "vocab_size": Field("vocab_size"),
    "model_dim": Field("d_model"),
    "encoder_mlp_dim": Field("encoder_ffn_dim"),
    "decoder_mlp_dim": Field("decoder_ffn_dim"),
    "num_encoder_heads": Field("encoder_attention_heads"),
    "num_decoder_heads": Field("decoder_attention_heads"),
    "num_encoder_layers": Field("encoder_layers"),
    "num_decoder_layers": Field("decoder_layers"),
    "max_position_embeddings": Field("max_position_embeddings", 1024),
    "activation": Field("activation_function", "gelu", ACTIVATION_NAMES),
    "scale_embedding": Field("scale_embedding", False),
    "dropout_rate": Field("dropout", 0.1),
}
# Fields that don't change the model.
BART_LIKE_IGNORED = (
    *("attention_dropout", "activation_dropout", "classifier_dropout", "classif_dropout"),
    *(
        "encoder_layerdrop",
        "decoder_layerdrop",
        "init_std",
        "num_hidden_layers",
        "output_past",
        "_num_labels",
    ),
)
