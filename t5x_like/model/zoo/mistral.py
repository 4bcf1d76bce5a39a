"""Mistral 7B (Jiang et al. 2023, https://arxiv.org/abs/2310.06825): Llama's block with a sliding window."""

from dataclasses import dataclass
from typing import Any

from t5x_like.model.zoo.decoder_parts import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import LlamaLikeFields, llama_like


@dataclass(frozen=True, kw_only=True)
class MistralConfig(LlamaLikeConfig):
    """A Mistral of any size.

    Attributes:
      sliding_window: tokens that a token sees, itself the last; ``None`` for all before it.
    """

    sliding_window: int | None = None
    max_position_embeddings: int = 131_072

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - the same in all layers
        """The window of all layers."""
        return self.sliding_window


def _take(fields: LlamaLikeFields, _: Any) -> dict[str, Any]:
    # Absent it is 4096 tokens in transformers; null it is none.
    return {
        "sliding_window": fields.take("sliding_window", None if "sliding_window" in fields.given else 4096)
    }


MISTRAL = llama_like(
    "mistral",
    MistralConfig,
    decoder_classes("Mistral"),
    take=_take,
    put=lambda config: {"sliding_window": config.sliding_window},
    num_kv_heads=8,
    special_ids={"bos_token_id": 1, "eos_token_id": 2},
)
