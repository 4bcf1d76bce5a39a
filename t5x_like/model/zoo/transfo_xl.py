"""Transformer-XL (Dai et al. 2019, https://arxiv.org/abs/1901.02860)."""

from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.recurrent import RecurrentConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig
from t5x_like.model.model_traits import CarriedMemory
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.decoder_like import decoder_heads
from t5x_like.model.zoo.relative_like import RelativeLikeConfig, memory_of
from t5x_like.model.zoo.transfo_xl_weights import transfo_xl_weights


@config_class
class TransfoXLConfig(RelativeLikeConfig):
    """A Transformer-XL of any size: ``RelativeLikeConfig`` and these fields.

    Attributes:
      memory_length: Positions of earlier segments that are kept.
      embed_dim: Width of the first cluster's embeddings.
      cutoffs: First id of each further cluster of words (see ``AdaptiveConfig``).
      div_val: Factor by which embeddings narrow from cluster to cluster.
      tie_word_embeddings: The softmax uses the embeddings' tables.
      tie_projections: For each cluster, if the softmax uses the embeddings' projection.
      norm_first: Norms come before each layer and not after the residual.
      same_length: Every token attends to ``memory_length`` tokens, itself included, and no more.
      attention_dropout_rate: Dropout of attention weights.
      projection_stddev: Standard deviation of fresh projections of embeddings.
      keep_lm_head: See ``DecoderLikeConfig``.
    """

    memory_length: int
    embed_dim: int
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1
    tie_word_embeddings: bool = True
    tie_projections: tuple[bool, ...] = ()
    norm_first: bool = False
    same_length: bool = False
    attention_dropout_rate: float = 0.0
    projection_stddev: float = 0.01
    keep_lm_head: bool = False

    @property
    def carried_memory(self) -> CarriedMemory | None:
        """Memory of ``memory_length`` positions."""
        return memory_of(self.memory_length, without="memory_length=0")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory_length < self.same_length:
            raise ValueError(
                f"memory_length is {self.memory_length}; give 0 or more, and with same_length at least 1"
            )
        if any(self.tie_projections[len(self.words.clusters) :]):
            raise ValueError(
                f"tie_projections={self.tie_projections} has more values than the {len(self.words.clusters)} clusters "
                "of words; give one for each"
            )
        if not self.words.is_projected(self.model_dim):
            names = ("tie_projections", "projection_stddev")
            refuse_unused(self, *names, because="embeddings as wide as the model have no projection")

    @property
    def parts(self) -> RecurrentConfig:
        """Configuration of the family's model."""
        return self.recurrent

    @property
    def recurrent(self) -> RecurrentConfig:
        """Configuration of the family's model."""
        return RecurrentConfig(
            words=self.words,
            stack=self._stack(
                activation="relu",
                attention_dropout_rate=self.attention_dropout_rate,
                norm_slot="before" if self.norm_first else "final",
            ),
            memory_length=self.memory_length,
            same_length=self.same_length,
            scores_words=self.task == "causal_lm" or self.keep_lm_head,
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads other than the adaptive softmax."""
        lm_head = LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings)
        return replace(decoder_heads(self.task, self.num_labels, lm_head), lm_head=None)

    @property
    def words(self) -> AdaptiveConfig:
        """Vocabulary in clusters."""
        return AdaptiveConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.embed_dim,
            cutoffs=self.cutoffs,
            div_val=self.div_val,
            tie_word_embeddings=self.tie_word_embeddings,
            tie_projections=self.tie_projections,
            stddev=self.init_stddev,
            projection_stddev=self.projection_stddev,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )


def _read(fields: ConfigFields, values: dict[str, object]) -> dict[str, object]:
    if fields.take("sample_softmax", -1) > 0:
        raise ValueError(
            f"config.json: sample_softmax is {fields.config['sample_softmax']}; only -1 is supported"
        )
    cutoffs = _read_tuple(fields, "cutoffs", int, [20_000, 40_000, 200_000])
    shared = fields.take("proj_share_all_but_first", True)
    limit = fields.take("clamp_len", 1000)  # -1 for none
    read = {
        "cutoffs": cutoffs,
        "tie_projections": _read_tuple(fields, "tie_projs", bool, [False, *[shared] * len(cutoffs)]),
        "max_distance": limit if limit > 0 else None,
    }
    if values["div_val"] == 1 and values["embed_dim"] == values["model_dim"]:
        # Files have these even where embeddings aren't projected.
        read["tie_projections"] = ()
        read["projection_stddev"] = TransfoXLConfig.projection_stddev
    return read


def _read_tuple(fields: ConfigFields, name: str, kind: type, default: list[Any]) -> tuple[Any, ...]:
    values = fields.take(name, default)
    if any(type(value) is not kind for value in values):
        raise ValueError(f"config.json: {name} is {values!r}; its values must be of type {kind.__name__}")
    return tuple(values)


def _write(config: TransfoXLConfig) -> dict[str, object]:
    return {
        "clamp_len": config.max_distance or -1,
        "cutoffs": list(config.cutoffs),
        "tie_projs": list(config.tie_projections),
    }


TRANSFO_XL = published(
    "transfo_xl",
    TransfoXLConfig,
    {
        "TransfoXLLMHeadModel": "causal_lm",
        "TransfoXLForSequenceClassification": "sequence_classification",
        "TransfoXLModel": "base",
    },
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size", 267_735),
            "model_dim": Field("d_model", 1024),
            "mlp_dim": Field("d_inner", 4096),
            "num_heads": Field("n_head", 16),
            "head_dim": Field("d_head", 64),
            "num_layers": Field("n_layer", 18),
            "memory_length": Field("mem_len", 1600),
            "embed_dim": Field("d_embed", 1024),
            "div_val": Field("div_val", 4),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
            "norm_first": Field("pre_lnorm", False),
            "same_length": Field("same_length", True),
            "dropout_rate": Field("dropout", 0.1),
            "attention_dropout_rate": Field("dropatt", 0.0),
            "norm_epsilon": Field("layer_norm_epsilon", 1e-5),
            "init_stddev": Field("init_std", 0.02),
            "projection_stddev": Field("proj_init_std", 0.01),
        },
        fixed={"attn_type": 0, "untie_r": True},
        required={"is_encoder_decoder": False},
        # Nothing reads these: the softmax is adaptive where there are cutoffs, and tied as tie_word_embeddings says.
        ignored=(
            *("adaptive", "tie_weight", "init", "init_range", "trainer_compatible", "n_token"),
            "max_position_embeddings",
        ),
        written={"adaptive": True, "sample_softmax": -1},
        default_task="causal_lm",
        read=_read,
        write=_write,
    ),
    weights=lambda config: transfo_xl_weights(config.recurrent),
    model_types=("transfo-xl",),
    prefix="transformer.",
)
