"""Mixtral (Jiang et al. 2024, https://arxiv.org/abs/2401.04088): Mistral's block with experts in all layers."""

from collections.abc import Mapping
from functools import partial

from t5x_like.config_class import config_class
from t5x_like.model.layers.router import SoftmaxRouter
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.sparse_like import (
    IGNORED,
    SparseDecoderConfig,
    read_sparse,
    separate_experts,
    sparse_rows,
)
from t5x_like.model.zoo.weights import Weight

_LAYER = "block_sparse_moe"
_PROJECTIONS = {"gate": "w1", "up": "w3", "down": "w2"}


@config_class
class MixtralConfig(SparseDecoderConfig):
    """A Mixtral of any size: ``SparseDecoderConfig`` and one field.

    Attributes:
      sliding_window: Tokens that a token attends to, itself included; ``None`` for no limit.
    """

    num_experts: int = 8
    num_experts_per_token: int = 2
    sliding_window: int | None = None
    rope_theta: float = 1_000_000.0
    max_position_embeddings: int = 131_072
    norm_epsilon: float = 1e-5

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - the same in all layers
        """Return the window, which is the same in all layers."""
        return self.sliding_window

    @property
    def router(self) -> SoftmaxRouter:
        """A softmax over the chosen experts (§2.1)."""
        return SoftmaxRouter(norm_topk_prob=True)


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    names = "num_local_experts", "num_experts"
    return {
        "sliding_window": fields.take("sliding_window", None),
        **read_sparse(fields, names, num_experts=8, num_experts_per_token=2),
    }


def _write(config: MixtralConfig) -> Mapping[str, object]:
    return {
        "num_local_experts": config.num_experts,
        "num_experts_per_tok": config.num_experts_per_token,
        "sliding_window": config.sliding_window,
    }


def _rows(config: MixtralConfig, layer: int) -> list[Weight]:
    return sparse_rows(config, layer, prefix=f"model.layers.{{layer}}.{_LAYER}.", names=_PROJECTIONS)


MIXTRAL = llama_like(
    "mixtral",
    MixtralConfig,
    decoder_classes("Mixtral"),
    own_fields=("router_aux_loss_coef",),
    read=_read,
    write=_write,
    num_kv_heads=8,
    ignored=IGNORED,
    feed_forward=_rows,
    separate=partial(separate_experts, layer=_LAYER, names=_PROJECTIONS),
    special_ids={"bos_token_id": 1, "eos_token_id": 2},
)
