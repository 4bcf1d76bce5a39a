"""XLNet (Yang et al. 2019, https://arxiv.org/abs/1906.08237)."""

from typing import Any, Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.two_stream import Direction, TwoStreamConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.model_traits import CarriedMemory
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field, NameTable
from t5x_like.model.zoo.model_tasks import (
    SEQUENCE_TASKS,
    ModelTask,
    classifier_dropout_of,
    score_rows,
    scoring_heads,
)
from t5x_like.model.zoo.relative_like import RelativeLikeConfig, memory_of, reshaped
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows, per_layer


@config_class
class XLNetConfig(RelativeLikeConfig):
    """An XLNet of any size: ``RelativeLikeConfig`` and these fields.

    Attributes:
      activation: Nonlinearity of the feed-forward layers.
      direction: Keys that a token attends to (see ``TwoStreamConfig``).
      memory_length: Positions of earlier segments that are kept; ``None`` for all.
      reuse_length: Positions of a segment that enter the memory; ``None`` for all (see ``TwoStreamConfig``).
      summary_type: Position that classifiers of sequences read. XLNet puts its class token last.
      classifier_dropout_rate: Dropout before the scores of sequences; ``None`` is ``dropout_rate``.
    """

    activation: Activation = "gelu"
    direction: Direction = "bidirectional"
    memory_length: int | None = None
    reuse_length: int | None = None
    summary_type: Literal["first", "last", "mean"] = "last"
    classifier_dropout_rate: float | None = None
    norm_epsilon: float = 1e-12

    @property
    def carried_memory(self) -> CarriedMemory | None:
        """Memory of ``memory_length`` positions."""
        return memory_of(self.memory_length, without="memory_length=None", reuse_length=self.reuse_length)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_distance", "memory_length", "reuse_length"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; give a positive number, or None for no limit"
                )

    @property
    def parts(self) -> TwoStreamConfig:
        """Configuration of the family's model."""
        return TwoStreamConfig(
            embeddings=self.embeddings,
            stack=self._stack(
                activation=self.activation, attention_dropout_rate=self.dropout_rate, segments=True
            ),
            heads=self.heads,
            direction=self.direction,
            memory_length=self.memory_length,
            reuse_length=self.reuse_length,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone: positions and segments act in attention."""
        return self.embeddings_of(stddev=self.init_stddev)

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        if self.task == "base":
            return HeadsConfig()
        if self.task == "causal_lm":
            return HeadsConfig(lm_head=LMHeadConfig(tie_word_embeddings=True, bias=True))
        summary = TransformConfig(dim=self.model_dim, activation="tanh")
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling=self.summary_type, transform=summary),
            # Only summaries of sequences have dropout.
            dropout_rate=classifier_dropout_of(self) if self.task in SEQUENCE_TASKS else 0.0,
        )
        if heads is None:
            raise ValueError(f"XLNet has no head for the task {self.task!r} here")
        return heads


_SUMMARY_TYPES = NameTable({"first": "first", "last": "last", "mean": "mean"})
_DIRECTIONS = NameTable({"bi": "bidirectional", "uni": "unidirectional"})


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    direction = fields.take_name("attn_type", _DIRECTIONS, "bi")
    same_length = fields.take("same_length", False)  # means nothing where attention is bidirectional
    if same_length and direction == "unidirectional":
        direction = "unidirectional_same_length"
    return {
        "head_dim": _read_head_dim(fields, values),
        "direction": direction,
        "max_distance": _read_limit(fields, "clamp_len"),
        "memory_length": _read_limit(fields, "mem_len"),
        "reuse_length": _read_limit(fields, "reuse_len"),
        "summary_type": _read_summary_type(fields, values["task"]),
        "init_stddev": float(fields.config.get("initializer_range") or 0.02),
    }


def _read_head_dim(fields: ConfigFields, values: dict[str, Any]) -> int:
    model_dim, num_heads = values["model_dim"], values["num_heads"]
    head_dim = fields.take("d_head", model_dim // num_heads)
    if head_dim * num_heads != model_dim:
        # transformers refuses it too, but nothing else here depends on it.
        raise ValueError(
            f"config.json: d_head is {head_dim}, but d_model / n_head is {model_dim / num_heads:g}"
        )
    return head_dim


def _read_limit(fields: ConfigFields, name: str) -> int | None:
    """Return a limit; their -1, 0 and null all mean none."""
    limit = fields.take(name, -1)
    return limit if limit > 0 else None


def _read_summary_type(fields: ConfigFields, task: ModelTask) -> str:
    if task not in SEQUENCE_TASKS:
        fields.ignore("summary_type", "summary_use_proj", "summary_activation")
        return "last"
    fields.must_be("summary_use_proj", True)
    fields.must_be("summary_activation", "tanh")
    return fields.take_name("summary_type", _SUMMARY_TYPES, "last")


def _write(config: XLNetConfig) -> dict[str, object]:
    return {
        "attn_type": "bi" if config.direction == "bidirectional" else "uni",
        "clamp_len": config.max_distance or -1,
        "d_head": config.head_dim,
        "initializer_range": config.init_stddev,
        "mem_len": config.memory_length,
        "reuse_len": config.reuse_length,
        "same_length": config.direction == "unidirectional_same_length",
        "summary_last_dropout": classifier_dropout_of(config),
        "summary_type": config.summary_type,
    }


def _weights(config: XLNetConfig) -> tuple[Weight, ...]:
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    rows = [
        Weight("embedding/table", "transformer.word_embedding.weight", words, copies=("lm_loss.weight",)),
        Weight("query_embedding", "transformer.mask_emb", reshaped((1, 1, -1), (-1,))),
        *per_layer("stack/layers", tuple(range(config.num_layers)), _layer_rows(config)),
    ]
    if config.task == "causal_lm":
        rows.append(Weight("heads/lm_head/bias", "lm_loss.bias", words))
    if config.task in SEQUENCE_TASKS:
        rows += module_rows({"heads/pooler/transform/dense": "sequence_summary.summary"})
    names = {"token_classification": "classifier", "question_answering": "qa_outputs"}
    return (*rows, *score_rows(config.heads, names, "logits_proj"))


def _layer_rows(config: XLNetConfig) -> list[Weight]:
    """Return the rows of one layer. Their projections are [model, heads, head], the output projection too."""
    hf_name, heads = "transformer.layer.{layer}.", (config.num_heads, config.head_dim)
    project, bias = reshaped((config.model_dim, *heads), (config.model_dim, -1)), reshaped(heads, (-1,))
    arrays = {
        "query/kernel": ("q", project),
        "key/kernel": ("k", project),
        "value/kernel": ("v", project),
        "distance/kernel": ("r", project),
        "out/kernel": ("o", project.then(TRANSPOSED)),
        "content_bias": ("r_w_bias", bias),
        "distance_bias": ("r_r_bias", bias),
        "segment_bias": ("r_s_bias", bias),
        "segment_keys": ("seg_embed", reshaped((2, *heads), (2, -1))),
    }
    modules = {
        "attention_residual/final": "rel_attn.layer_norm",
        "feed_forward/up": "ff.layer_1",
        "feed_forward/down": "ff.layer_2",
        "feed_forward_residual/final": "ff.layer_norm",
    }
    return [
        *(
            Weight(f"attention/{path}", f"{hf_name}rel_attn.{name}", transform)
            for path, (name, transform) in arrays.items()
        ),
        *module_rows(modules, hf_name),
    ]


XLNET = published(
    "xlnet",
    XLNetConfig,
    {
        "XLNetLMHeadModel": "causal_lm",
        "XLNetForSequenceClassification": "sequence_classification",
        "XLNetForMultipleChoice": "multiple_choice",
        "XLNetForTokenClassification": "token_classification",
        "XLNetForQuestionAnsweringSimple": "question_answering",
        "XLNetModel": "base",
    },
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("d_model"),
            "mlp_dim": Field("d_inner"),
            "num_heads": Field("n_head"),
            "num_layers": Field("n_layer"),
            "activation": Field("ff_activation", "gelu", ACTIVATION_NAMES),
            "dropout_rate": Field("dropout", 0.1),
            "classifier_dropout_rate": Field("summary_last_dropout", 0.1),
            "norm_epsilon": Field("layer_norm_eps", 1e-12),
        },
        fixed={"bi_data": False},
        required={"is_encoder_decoder": False, "tie_word_embeddings": True},
        # Files have biases for each layer even if untie_r is false. The head whose ends depend on starts isn't here.
        ignored=(
            *("untie_r", "start_n_top", "end_n_top", "use_mems_eval", "use_mems_train"),
            *("n_token", "max_position_embeddings", "initializer_range"),
        ),
        written={"summary_activation": "tanh", "summary_use_proj": True, "untie_r": True},
        default_task="causal_lm",
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="transformer.",
)
