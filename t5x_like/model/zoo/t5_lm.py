"""Decoders of T5's blocks: the language model and the prefix language model of Raffel et al. 2020, §3.2.1.

https://arxiv.org/abs/1910.10683. None is published, so there are no other names for their weights.
"""

from t5x_like.config_class import config_class
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.decoder_like import decoder_heads
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.t5_like import T5LikeConfig


@config_class
class T5LanguageModelConfig(T5LikeConfig):
    """A decoder of T5's blocks of any size: ``T5LikeConfig`` and these fields.

    Attributes:
      num_layers: Number of blocks.
      reads_prefixes: Prompts are prefixes, whose tokens all attend to each other (see ``DecoderConfig``).
      keep_lm_head: See ``DecoderLikeConfig``.
    """

    num_layers: int
    reads_prefixes: bool = False
    task: ModelTask = "causal_lm"
    keep_lm_head: bool = False

    @property
    def parts(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return self.decoder

    @property
    def decoder(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=self.stack(self.block(self.attention()), self.num_layers),
            heads=decoder_heads(self.task, self.num_labels, self.lm_head, keep_lm_head=self.keep_lm_head),
            reads_prefixes=self.reads_prefixes,
            compute_dtype=self.compute_dtype,
        )


T5_LM = unpublished(
    "t5_lm",
    T5LanguageModelConfig,
    "transformers has no decoder of T5's blocks; it can't be read or written in its form",
)
