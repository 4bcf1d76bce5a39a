"""ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663): rotary, gated, mostly local, without biases."""

from collections.abc import Mapping
from typing import Any, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.common_config import CommonConfig, head_dim_of
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field, NameTable
from t5x_like.model.zoo.decoder_like import fused_qkv_row
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, score_rows, scoring_heads
from t5x_like.model.zoo.rope import ropes_by_type
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    module_rows,
    padded_rows,
    per_layer,
    split_columns,
)


@config_class
class ModernBertConfig(CommonConfig):
    """A ModernBERT of any size.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer; they share ``model_dim``.
      num_layers: Number of blocks.
      global_attn_every_n_layers: Every n-th layer, from the first one on, has global attention, others local.
      local_attention: Window of local attention in tokens, half of it to each side.
      global_rope_theta: Base of the rotary frequencies in global layers.
      local_rope_theta: Base of the rotary frequencies in local layers.
      activation: Nonlinearity of the feed-forward layers' gates.
      classifier_activation: Nonlinearity of the layer before the heads.
      classifier_pooling: Classifiers of sequences read the first token (``"cls"``) or the mean of all real ones.
      max_position_embeddings: Length in tokens that the model was trained with; no limit here.
      norm_epsilon: Added to the variance in all norms.
      tie_word_embeddings: The output layer uses the word embeddings.
      classifier_dropout_rate: Dropout before class scores; ``None`` is ``dropout_rate``.
    """

    mlp_dim: int
    num_heads: int
    num_layers: int
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    activation: Activation = "gelu"
    classifier_activation: Activation = "gelu"
    classifier_pooling: Literal["cls", "mean"] = "cls"
    max_position_embeddings: int = 8192
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    task: ModelTask = "masked_lm"
    classifier_dropout_rate: float | None = None

    def __post_init__(self) -> None:
        if self.num_layers <= 1 or self.global_attn_every_n_layers <= 1:
            refuse_unused(
                self,
                "local_attention",
                "local_rope_theta",
                because=f"all layers are global (global_attn_every_n_layers={self.global_attn_every_n_layers})",
            )
        super().__post_init__()

    @property
    def parts(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return self.encoder

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(map(self._block, range(self.num_layers))),
                final_norm=self._norm,
                remat=self.remat,
                scan_layers=self.scan_layers,
                attention_implementation=self.attention_implementation,
            ),
            heads=self._heads(),
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone, normalized."""
        return self.embeddings_of(norm=self._norm)

    @property
    def _norm(self) -> LayerNormConfig:
        return LayerNormConfig(epsilon=self.norm_epsilon, bias=False)

    def _block(self, layer: int) -> BlockConfig:
        is_global = layer % self.global_attn_every_n_layers == 0
        head_dim, side = head_dim_of(self.model_dim, self.num_heads), self.local_attention // 2
        theta = self.global_rope_theta if is_global else self.local_rope_theta
        return BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                head_dim=head_dim,
                positions=Rotary(rotated_dim=head_dim, rope_theta=theta),
                window=None if is_global else SlidingWindow(left=side, right=side),
            ),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
            norm=self._norm,
            attention_norms=("before",) if layer else (),  # the embeddings are normalized already
            dropout_rate=self.dropout_rate,
            init=Normal(0.02, residual_scale=(2 * self.num_layers) ** -0.5),
        )

    def _heads(self) -> HeadsConfig:
        transform = TransformConfig(
            dim=self.model_dim, activation=self.classifier_activation, norm=self._norm, bias=False
        )
        if self.task == "base":
            return HeadsConfig()
        if self.task in ("masked_lm", "cloze"):
            lm_head = LMHeadConfig(
                tie_word_embeddings=self.tie_word_embeddings, bias=True, transform=transform
            )
            return HeadsConfig(lm_head=lm_head, cloze=self.task == "cloze")
        # For multiple choice transformers skips padding on the left, for classification it doesn't.
        first = "first_real" if self.task == "multiple_choice" else "first"
        pooling = first if self.classifier_pooling == "cls" else "mean"
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling=pooling, transform=transform),
            of_tokens=transform,
            dropout_rate=classifier_dropout_of(self),
        )
        if heads is None:
            raise ValueError(f"ModernBERT has no head for the task {self.task!r}")
        return heads


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    every, num_layers = values["global_attn_every_n_layers"], values["num_layers"]
    kinds = ["sliding_attention" if layer % every else "full_attention" for layer in range(num_layers)]
    fields.must_be("layer_types", kinds)
    global_theta = fields.take("global_rope_theta", 160_000.0)
    # Where it is null, local layers rotate as global ones do.
    default = global_theta if "local_rope_theta" in fields.config else 10_000.0
    local_theta = fields.take("local_rope_theta", default)
    return _read_thetas(fields.take("rope_parameters", {}), global_theta, local_theta)


def _read_thetas(
    parameters: Mapping[str, Mapping[str, Any]], global_theta: float, local_theta: float
) -> dict[str, Any]:
    older = {"full_attention": {"rope_theta": global_theta}, "sliding_attention": {"rope_theta": local_theta}}
    ropes = ropes_by_type(parameters, older, max_position_embeddings=0)
    for kind, rope in ropes.items():
        if rope.rope_scaling is not None:
            raise ValueError(
                f"config.json: rope_parameters of {kind} are {parameters[kind]}; only theta may vary"
            )
    return {
        "global_rope_theta": ropes["full_attention"].rope_theta,
        "local_rope_theta": ropes["sliding_attention"].rope_theta,
    }


def _write(config: ModernBertConfig) -> dict[str, object]:
    return {
        "classifier_dropout": classifier_dropout_of(config),
        "global_rope_theta": config.global_rope_theta,
        "local_rope_theta": config.local_rope_theta,
    }


def _weights(config: ModernBertConfig) -> tuple[Weight, ...]:
    encoder, words = config.encoder, padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    head = encoder.heads.lm_head
    tied = head is not None and head.tie_word_embeddings
    copies = ("decoder.weight",) if tied else ()
    tokens = "model.embeddings.tok_embeddings.weight"
    rows = [Weight("embedding/tokens/table", tokens, words, copies=copies)]
    modules = {"embedding/norm": "model.embeddings.norm", "encoder/final_norm": "model.final_norm"}
    for slot, layers in enumerate(encoder.stack.layer_pattern.slots):
        is_normed = bool(encoder.stack.blocks[layers[0]].attention_norms)
        rows += per_layer(f"encoder/layers/{slot}", layers, _layer_rows(config, is_normed=is_normed))
    if head is not None:
        modules |= _transform_names("heads/lm_head")
        rows.append(Weight("heads/lm_head/bias", "decoder.bias", words))
        if not tied:
            rows.append(Weight("heads/lm_head/projection/kernel", "decoder.weight", words.then(TRANSPOSED)))
    for scores in encoder.heads.scores:
        modules |= _transform_names(
            "heads/pooler" if scores.input == "pooled" else f"heads/scores/{scores.name}"
        )
    return (*rows, *module_rows(modules, bias=False), *score_rows(encoder.heads, {}))


def _layer_rows(config: ModernBertConfig, *, is_normed: bool) -> list[Weight]:
    hf_name = "model.layers.{layer}."
    qkv = TRANSPOSED.then(split_columns(*[config.model_dim] * 3))
    gated = TRANSPOSED.then(split_columns(config.mlp_dim, config.mlp_dim))
    names = {
        "self_attention/out": "attn.Wo",
        "feed_forward_residual/before": "mlp_norm",
        "feed_forward/down": "mlp.Wo",
    }
    return [
        fused_qkv_row(f"{hf_name}attn.Wqkv.weight", qkv),
        Weight(("feed_forward/gate/kernel", "feed_forward/up/kernel"), f"{hf_name}mlp.Wi.weight", gated),
        *module_rows(names, hf_name, bias=False),
        *(
            module_rows({"self_attention_residual/before": "attn_norm"}, hf_name, bias=False)
            if is_normed
            else []
        ),
    ]


def _transform_names(path: str) -> dict[str, str]:
    return {f"{path}/transform/dense": "head.dense", f"{path}/transform/norm": "head.norm"}


MODERNBERT = published(
    "modernbert",
    ModernBertConfig,
    {
        "ModernBertForMaskedLM": "masked_lm",
        "ModernBertForSequenceClassification": "sequence_classification",
        "ModernBertForTokenClassification": "token_classification",
        "ModernBertForQuestionAnswering": "question_answering",
        "ModernBertForMultipleChoice": "multiple_choice",
        "ModernBertModel": "base",
    },
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("hidden_size"),
            "mlp_dim": Field("intermediate_size"),
            "num_heads": Field("num_attention_heads"),
            "num_layers": Field("num_hidden_layers"),
            "global_attn_every_n_layers": Field("global_attn_every_n_layers", 3),
            "local_attention": Field("local_attention", 128),
            "activation": Field("hidden_activation", "gelu", ACTIVATION_NAMES),
            "classifier_activation": Field("classifier_activation", "gelu", ACTIVATION_NAMES),
            "classifier_pooling": Field(
                "classifier_pooling", "cls", NameTable({"cls": "cls", "mean": "mean"})
            ),
            "max_position_embeddings": Field("max_position_embeddings", 8192),
            "norm_epsilon": Field("norm_eps", 1e-5),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
            "dropout_rate": Field("mlp_dropout", 0.0),
            "classifier_dropout_rate": Field("classifier_dropout", 0.0),
        },
        fixed={
            "attention_bias": False,
            "mlp_bias": False,
            "norm_bias": False,
            "classifier_bias": False,
            "decoder_bias": True,
        },
        ignored=(
            *("attention_dropout", "embedding_dropout", "initializer_cutoff_factor"),
            *("cls_token_id", "sparse_prediction", "sparse_pred_ignore_index"),
            *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
            *(
                "layer_norm_eps",
                "position_embedding_type",
            ),  # left over in published files; nothing reads them
        ),
        # transformers' defaults are ids of the published vocabulary, and wrong for any other.
        written={
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": None,
            "cls_token_id": None,
            "sep_token_id": None,
        },
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="model.",
    unused_weights=("*.rotary_emb.inv_freq",),
)
