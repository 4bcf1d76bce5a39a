"""GPT-3 (Brown et al. 2020, https://arxiv.org/abs/2005.14165): GPT-2 in which every other layer sees only a band."""

from dataclasses import dataclass, replace

from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.gpt_like import GPTLikeConfig


@dataclass(frozen=True, kw_only=True)
class GPT3Config(GPTLikeConfig):
    """A GPT-3 of any size.

    Layers are dense and locally banded in turn, from a dense one on (§2.1). The paper doesn't say how wide a band is,
    nor which kind comes first: both are GPT-Neo's.

    Attributes:
      head_dim: the width of a head.
      band: tokens that a token of a banded layer sees, itself the last.
    """

    head_dim: int
    band: int = 256

    def attention(self, layer: int) -> AttentionConfig:
        """Self-attention of ``layer``."""
        window = SlidingWindow(left=self.band - 1) if layer % 2 == 1 else None
        return replace(super().attention(layer), head_dim=self.head_dim, window=window)


GPT3 = unpublished(
    "gpt3",
    GPT3Config,
    "transformers has no GPT-3: gpt2 has no banded layers, and gpt_neo has banded ones but neither biases of "
    "queries nor scaled scores. Keep the run directory, which has all weights; or train a gpt2 or gpt_neo, which "
    "can be exported",
)
