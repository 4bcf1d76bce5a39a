"""Mistral 7B (Jiang et al. 2023, https://arxiv.org/abs/2310.06825): Llama's block with a sliding window."""

from t5x_like.config_class import config_class
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class MistralConfig(LlamaLikeConfig):
    """A Mistral of any size: ``LlamaLikeConfig`` and one field.

    Attributes:
      sliding_window: Tokens that a token attends to, itself included; ``None`` for no limit.
    """

    sliding_window: int | None = None
    max_position_embeddings: int = 131_072

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - the same in all layers
        """Return the window, which is the same in all layers."""
        return self.sliding_window


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    # Absent it is 4096 tokens in transformers; null it is none.
    return {
        "sliding_window": fields.take("sliding_window", None if "sliding_window" in fields.config else 4096)
    }


MISTRAL = llama_like(
    "mistral",
    MistralConfig,
    decoder_classes("Mistral"),
    read=_read,
    write=lambda config: {"sliding_window": config.sliding_window},
    num_kv_heads=8,
    special_ids={"bos_token_id": 1, "eos_token_id": 2},
)
