"""Speech and text around two shared stacks, as they are pretrained together (Ao et al. 2022, §2.2 and §2.3).

https://arxiv.org/abs/2110.07205. Shape letters here: M frames or tokens of the encoder, D width, C clusters.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import FamilyName, Predictions
from t5x_like.model.families.speech_encoder_decoder import (
    EncodedSpeech,
    SpeechEncoderDecoder,
    SpeechEncoderDecoderConfig,
)
from t5x_like.model.heads import Heads, HeadsConfig
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.vector_quantizer import (
    CodebookUse,
    VectorQuantizer,
    VectorQuantizerConfig,
    codebook_use,
    draw_positions,
)
from t5x_like.partitioning.activations import gather_output


@config_class
class ClusterHeadConfig:
    """Scores of clusters: cosines of projected frames and of a vector for each cluster (Hsu et al. 2021, eq. 3).

    Attributes:
      num_clusters: Clusters.
      dim: Width of projected frames.
      temperature: Cosines are divided by it (HuBERT: 0.1).
    """

    num_clusters: int = 500
    dim: int = 256
    temperature: float = 0.1

    def __post_init__(self) -> None:
        for name in ("num_clusters", "dim", "temperature"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")


class ClusterHead(nnx.Module):
    """Scores the cluster of each frame.

    Args:
      config: Sizes.
      model_dim: Width of frames.
      key: Random key of fresh weights; clusters begin uniformly distributed, as in HuBERT.
    """

    def __init__(self, config: ClusterHeadConfig, model_dim: int, *, key: Key[Array, ""]):
        projection_key, clusters_key = jax.random.split(key)
        axes = ("embed", "embed_factor")
        self.projection = Linear(
            model_dim, config.dim, axes=axes, key=projection_key, init=Normal(0.02), bias=True
        )
        vectors = jax.random.uniform(clusters_key, (config.num_clusters, config.dim))
        self.clusters = nnx.Param(vectors, axes=("classes", "embed_factor"))
        self.config = config

    def __call__(self, x: Float[Array, "B M D"]) -> Float[Array, "B M C"]:
        """Return float32 scores."""
        frames = self.projection(x, output_dtype=jnp.dtype(jnp.float32))
        return _unit(frames) @ _unit(self.clusters[...]).T / self.config.temperature


def _unit(vectors: Float[Array, "*rows E"]) -> Float[Array, "*rows E"]:
    squares = jnp.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squares, 1e-16))


@config_class
class SpeechPretrainingConfig:
    """A model of speech to speech, with nets for text around the same stacks.

    Attributes:
      speech: Stacks, and the nets for speech before and after them.
      encoder_text: From tokens to the encoder; its words are those of ``decoder_text``.
      decoder_text: From tokens to the decoder.
      heads: Head over the vocabulary.
      clusters: Head over the clusters of the encoder's frames.
      quantizer: Codebooks that the encoder's outputs for speech and text share.
    """

    speech: SpeechEncoderDecoderConfig
    encoder_text: EmbeddingsConfig
    decoder_text: EmbeddingsConfig
    heads: HeadsConfig
    clusters: ClusterHeadConfig = ClusterHeadConfig()
    quantizer: VectorQuantizerConfig = VectorQuantizerConfig()

    def build(self, key: Key[Array, ""]) -> "SpeechPretrainingModel":
        """Build the model with fresh weights drawn from ``key``."""
        return SpeechPretrainingModel(self, key=key)


class SpeechPretrainingModel(nnx.Module):
    """A model of speech and one of text with the same stacks, a head for clusters and a quantizer.

    ``speech`` is the model of speech to speech, and ``text`` that of text to text. A fine-tuned model has some of these
    nets around the stacks.
    """

    family_name: ClassVar[FamilyName] = "speech_pretraining"

    def __init__(self, config: SpeechPretrainingConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 6)
        stack = config.speech.decoder
        model_dim = stack.model_dim
        self.speech = SpeechEncoderDecoder(config.speech, key=keys[0])
        self.encoder_text = Embeddings(config.encoder_text, model_dim, key=keys[1], with_words=False)
        self.decoder_text = Embeddings(config.decoder_text, model_dim, key=keys[2])
        self.heads = Heads(
            config.heads, config.decoder_text, model_dim, key=keys[3], init=stack.blocks[0].init
        )
        self.clusters = ClusterHead(config.clusters, model_dim, key=keys[4])
        self.quantizer = VectorQuantizer(config.quantizer, model_dim, key=keys[5])
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of the text's next tokens; ``speech`` reads the other streams."""
        return self.text(batch, dropout_key=dropout_key)

    @property
    def text(self) -> SpeechEncoderDecoder:
        """Model of text to text around the same weights, for use inside a traced function."""
        reads = jax.tree.map(lambda leaf: leaf, self.encoder_text)  # other modules around the same arrays
        reads.tokens = nnx.data(self.decoder_text.tokens)
        model = jax.tree.map(lambda leaf: leaf, self.speech)
        model.encoder_input, model.decoder_input = reads, self.decoder_text
        model.heads, model.postnet = self.heads, None
        return model

    def mix(
        self,
        encoded: EncodedSpeech,
        *,
        rate: float,
        temperature: Float[Array, ""] | float,
        key: Key[Array, ""],
        has_noise: bool,
    ) -> tuple[EncodedSpeech, CodebookUse]:
        """Return the encoder's output with a share of positions quantized, and how evenly codebooks are used.

        Args:
          encoded: Output of the encoder for speech or text.
          rate: Share of the real positions.
          temperature: Temperature of the quantizer's gradient.
          key: Random key of the positions, and of noise.
          has_noise: Draws entries by their probability; ``False`` takes the most probable ones.
        """
        place_key, noise_key = jax.random.split(key)
        x = gather_output(encoded.output)
        quantized = self.quantizer(x, temperature=temperature, key=noise_key if has_noise else None)
        real = real_positions(encoded)
        is_quantized = draw_positions(place_key, real, rate)
        mixed = jnp.where(is_quantized[..., None], quantized.vectors, x)
        return encoded._replace(output=mixed), codebook_use(quantized, real)


def real_positions(encoded: EncodedSpeech) -> Bool[Array, "B M"]:
    """Return True where the encoder's output is not padding."""
    if encoded.segment_ids is None:
        return jnp.ones(encoded.output.shape[:2], bool)
    return encoded.segment_ids > 0
