"""GPT-3 (Brown et al. 2020, https://arxiv.org/abs/2005.14165): GPT-2 in which every other layer sees only a band."""

from dataclasses import dataclass
from typing import Literal

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.decoder_parts import heads_of_decoder
from t5x_like.model.zoo.gpt2 import gpt_block
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType


@dataclass(frozen=True, kw_only=True)
class GPT3Config:
    """A GPT-3 of any size.

    Layers are dense and locally banded in turn, from a dense one on (§2.1). A token of a banded layer sees ``band``
    tokens, itself the last of them. The paper doesn't say how many, nor which kind comes first: both are GPT-Neo's.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    num_layers: int
    band: int = 256
    max_position_embeddings: int = 2048
    norm_epsilon: float = 1e-5
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Decoder:
        """The model with fresh weights."""
        return Decoder(self.decoder, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def decoder(self) -> DecoderConfig:
        """The model's parts."""
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(self._block(is_banded=layer % 2 == 1) for layer in range(self.num_layers)),
                final_norm=LayerNormConfig(epsilon=self.norm_epsilon),
                remat=self.remat,
            ),
            heads=heads_of_decoder(self.task, self.num_labels, WordsConfig(tie_word_embeddings=True)),
            compute_dtype=self.compute_dtype,
        )

    def _block(self, *, is_banded: bool) -> BlockConfig:
        return gpt_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                head_dim=self.head_dim,
                in_bias=True,
                out_bias=True,
                window=SlidingWindow(left=self.band - 1) if is_banded else None,
            ),
            activation="gelu_tanh",
            norm_epsilon=self.norm_epsilon,
            norm_slots=("before",),
            dropout_rate=self.dropout_rate,
            num_layers=self.num_layers,
        )


GPT3 = unpublished(
    "gpt3",
    GPT3Config,
    "transformers has no GPT-3: gpt2 has no banded layers, and gpt_neo has banded ones but neither biases of "
    "queries nor scaled scores. Keep the run directory, which has all weights; or train a gpt2 or gpt_neo, which "
    "can be exported",
)
