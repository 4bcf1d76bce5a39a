"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461)."""

from dataclasses import replace
from typing import Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bert_like import post_norm_block
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, Field
from t5x_like.model.zoo.model_tasks import ModelTask, encoder_decoder_heads, encoder_decoder_score_rows
from t5x_like.model.zoo.weights import Weight, WeightTransform, module_rows, padded_rows, per_layer


@config_class
class BartConfig(CommonConfig):
    """A BART of any size. Each stack has its own positions and a norm of its inputs.

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
                words=WordsConfig(tie_word_embeddings=True, bias=True),
                model="BART",
            ),
            decoder_start_token_id=2,  # the end of sequence, as in fairseq
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions, normalized. As in fairseq, two unused rows precede position 0."""
        return self.embeddings_of(
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings, offset=2),
            norm=LayerNormConfig(),
            scale=self.model_dim**0.5 if self.scale_embedding else 1.0,
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
        return StackConfig(
            blocks=(block,) * num_layers,
            remat=self.remat,
            attention_implementation=self.attention_implementation,
        )


def _weights(config: BartConfig) -> tuple[Weight, ...]:
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    one_row = WeightTransform(lambda array: array[0], lambda array: array[None])
    copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    rows = [Weight("embedding/tokens/table", "model.shared.weight", words, copies=copies)]
    for stack, embedding, num_layers in (
        ("encoder", "embedding", config.num_encoder_layers),
        ("decoder", "decoder_embedding", config.num_decoder_layers),
    ):
        theirs = f"model.{stack}."
        layer = module_rows(_layer_names(stack), f"{theirs}layers.{{layer}}.")
        rows += [
            Weight(f"{embedding}/positions/table", f"{theirs}embed_positions.weight"),
            *module_rows({f"{embedding}/norm": "layernorm_embedding"}, theirs),
            *per_layer(f"{stack}/layers/0", tuple(range(num_layers)), layer),
        ]
    if config.task == "sequence_to_sequence_lm":
        rows.append(Weight("heads/words/bias", "final_logits_bias", one_row.then(words)))
    return (*rows, *encoder_decoder_score_rows(config.encoder_decoder.heads))


def _layer_names(stack: str) -> dict[str, str]:
    names = {
        "feed_forward/up": "fc1",
        "feed_forward/down": "fc2",
        "feed_forward_residual/final": "final_layer_norm",
    }
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    for ours, theirs in attentions.items() if stack == "decoder" else [("self_attention", "self_attn")]:
        names[f"{ours}_residual/final"] = f"{theirs}_layer_norm"
        for projection, name in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out")):
            names[f"{ours}/{projection}"] = f"{theirs}.{name}_proj"
    return names


BART = published(
    "bart",
    BartConfig,
    {
        "BartForConditionalGeneration": "sequence_to_sequence_lm",
        "BartForSequenceClassification": "sequence_classification",
        "BartForQuestionAnswering": "question_answering",
        "BartModel": "base",
    },
    FieldTable(
        fields={
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
        },
        fixed={"is_encoder_decoder": True, "tie_word_embeddings": True},
        # Options of BART's relatives, which older files name.
        required={
            "normalize_before": False,
            "normalize_embedding": True,
            "add_final_layer_norm": False,
            "add_bias_logits": False,
            "static_position_embeddings": False,
            "extra_pos_embeddings": 2,
        },
        ignored=(
            *("attention_dropout", "activation_dropout", "classifier_dropout", "classif_dropout"),
            *("encoder_layerdrop", "decoder_layerdrop", "init_std", "num_hidden_layers", "output_past"),
            *("force_bos_token_to_be_generated", "_num_labels"),
        ),
        written={"bos_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1},
        default_task="sequence_to_sequence_lm",
        # Without classes in the file there are 3: entailment, neutral, contradiction.
        read=lambda fields, values: {
            "num_labels": values["num_labels"]
            if fields.given.get("id2label") or "num_labels" in fields.given
            else 3
        },
    ),
    weights=_weights,
    prefix="model.",
)
