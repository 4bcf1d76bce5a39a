"""Pretraining of a discriminator of replaced tokens: what ELECTRA and DeBERTa v3 share."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

import jax

from t5x_like.config_class import changeable, config_class
from t5x_like.model.families.generator_discriminator import (
    EmbeddingSharing,
    GeneratorDiscriminator,
    GeneratorDiscriminatorConfig,
)
from t5x_like.model.layers.attention_implementations import AttentionChoice
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.layer_scan import LayerLoop
from t5x_like.model.layers.remat import Remat
from t5x_like.model.lazy_array import sum_of
from t5x_like.model.model_traits import ModelTraits
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert_like import BertLikeConfig
from t5x_like.model.zoo.common_config import ComputeDtype
from t5x_like.model.zoo.model_tasks import ModelTask

_WORDS, _OF_GENERATOR = "tokens/table", ("generator/", "generator_")


@config_class
class ReplacedTokenPretraining(ModelTraits):
    """A generator, and a discriminator that remains. Sizes are the discriminator's.

    Attributes:
      discriminator_weight: Weight of the discriminator's loss (50: Clark et al. 2020, §3.1).
      vocab_size: Number of token ids.
      model_dim: Width of the residual stream.
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer.
      num_layers: Number of layers.
      max_position_embeddings: Longest input in tokens; of relative positions the longest distance.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
      dropout_rate: Dropout of both models.
      compute_dtype: Type of activations.
      remat: Activations that the backward pass computes again.
      scan_layers: Layers run in a loop (see ``CommonConfig``).
      attention_implementation: Computation of attention (see ``CommonConfig``).
      pad_vocab_to_multiple_of: Word tables are padded to a multiple of this many rows.
    """

    embedding_sharing: ClassVar[EmbeddingSharing] = "shared"
    own_fields: ClassVar[tuple[str, ...]]
    discriminator_weight: float = 50.0
    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    dropout_rate: float = 0.0
    compute_dtype: ComputeDtype = "float32"
    remat: Remat = changeable(default="none")
    scan_layers: LayerLoop = changeable(default="auto")
    attention_implementation: AttentionChoice = changeable(default="auto")
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        if self.discriminator_weight < 0:
            raise ValueError(
                f"discriminator_weight is {self.discriminator_weight}; give 0 or more, as ELECTRA's 50"
            )
        _ = self.discriminator, self.generator  # which refuse what they can't be

    def build(self, key: jax.Array) -> GeneratorDiscriminator:
        """Build both models with fresh weights drawn from ``key``."""
        config = GeneratorDiscriminatorConfig(
            generator=self.generator.encoder,
            discriminator=self.discriminator.encoder,
            discriminator_weight=self.discriminator_weight,
            embedding_sharing=self.embedding_sharing,
        )
        return GeneratorDiscriminator(config, key=key)

    @property
    def discriminator(self) -> BertLikeConfig:
        """Model that remains after pretraining."""
        raise NotImplementedError

    @property
    def generator(self) -> BertLikeConfig:
        """Model that proposes replacements."""
        raise NotImplementedError

    @property
    def shared_fields(self) -> dict[str, Any]:
        """Fields that the configuration of an encoder has, too."""
        own = ("discriminator_weight", *self.own_fields)
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in own}

    @property
    def reads_masks(self) -> bool:
        """See ``ModelTraits``: tokens are replaced where the generator has targets."""
        return True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Tables of the discriminator."""
        return self.discriminator.embeddings

    @property
    def task(self) -> ModelTask:
        """Task of the discriminator."""
        return "replaced_tokens"

    def remaining_weights(self, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the discriminator's weights; its word table is the sum of both where it was the difference.

        Args:
          weights: Weights of both models, or their shapes, by their paths.
        """
        kept = {path: leaf for path, leaf in weights.items() if not path.startswith(_OF_GENERATOR)}
        if self.embedding_sharing == "shared":
            return kept
        words = f"embedding/{_WORDS}"
        return {**kept, words: sum_of(weights[f"generator_{words}"], weights[words])}


def in_pretraining(
    architecture: Architecture, config_class: type[ReplacedTokenPretraining], *, name: str, task: ModelTask
) -> Architecture:
    """Return the record of an architecture in pretraining, whose published files are the discriminator's.

    Args:
      architecture: Record of the discriminator alone.
      config_class: Configuration of both models.
      name: Name of the architecture of both.
      task: Task of transformers' class that is written.
    """

    def written(config: ReplacedTokenPretraining) -> BertLikeConfig:
        return replace(config.discriminator, task=task)

    def to_hugging_face(config: ReplacedTokenPretraining) -> dict[str, object]:
        fields = architecture.to_hugging_face(written(config))
        warnings.warn(
            f"written as {fields['architectures'][0]}, without the generator: Hugging Face keeps each in files of its "
            "own; to continue pretraining, keep the run's own checkpoints",
            stacklevel=2,
        )
        return fields

    return replace(
        architecture,
        name=name,
        config_class=config_class,
        model_types=(),
        to_hugging_face=to_hugging_face,
        hugging_face_weights=lambda config: architecture.hugging_face_weights(written(config)),
    )
