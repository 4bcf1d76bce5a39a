"""GPT-3 (Brown et al. 2020, https://arxiv.org/abs/2005.14165): GPT-2 with a sliding window in every other layer."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.gpt_like import GPTLikeConfig


@config_class
class GPT3Config(GPTLikeConfig):
    """A GPT-3 of any size: ``GPTLikeConfig`` and these fields.

    Dense and locally banded layers alternate, from a dense one on (§2.1). The paper doesn't say how wide a band is, nor
    which kind comes first; both are GPT-Neo's.

    Attributes:
      head_dim: Width of a head.
      band: Tokens that a token of a banded layer attends to, itself included.
    """

    head_dim: int
    band: int = 256

    @property
    def head_width(self) -> int:
        """Width of a head, which the paper gives for each size."""
        return self.head_dim

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``, counted from 0."""
        window = SlidingWindow(left=self.band - 1) if layer % 2 == 1 else None
        return replace(super().attention(layer), window=window)


GPT3 = unpublished(
    "gpt3",
    GPT3Config,
    "transformers has no GPT-3: gpt2 has no banded layers, and gpt_neo has banded ones but neither biases of "
    "queries nor scaled scores. Keep the run directory, which has all weights; or train a gpt2 or gpt_neo, which "
    "can be exported",
)
