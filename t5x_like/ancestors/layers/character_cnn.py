"""Word embeddings from characters by a convolutional network (Kim et al. 2016; Peters et al. 2018, §3.4).

https://arxiv.org/abs/1508.06615, https://arxiv.org/abs/1802.05365.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.linear import FanIn, Linear, Normal

# AllenNLP's ELMoCharacterMapper: 256 bytes, 5 special ids and padding at 0; 50 ids for each word.
NUM_CHARACTERS = 262
CHARACTERS_PER_WORD = 50

# Weight of the table of character ids, below that of the embedding.
CHARACTER_IDS = "character_ids"

# Uniform distributions of ELMo's code: characters between -1 and 1, filters between -0.05 and 0.05.
_CHARACTER_STDDEV, _FILTER_STDDEV = 3**-0.5, 0.05 / 3**0.5
# Fresh highway layers pass most of their input on, as in ELMo's code.
_CARRY_BIAS = -2.0


@config_class
class CharacterCNNConfig:
    """Convolutions over a word's characters, highway layers and a projection. Defaults are ELMo's.

    Attributes:
      output_dim: Width of word embeddings.
      character_dim: Width of character embeddings.
      filters: Width and number of filters of each convolution.
      num_highway_layers: Highway layers between convolutions and projection (Srivastava et al. 2015).
    """

    output_dim: int = 512
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    num_highway_layers: int = 2

    def __post_init__(self) -> None:
        for name in ("output_dim", "character_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if self.num_highway_layers < 0:
            raise ValueError(f"num_highway_layers is {self.num_highway_layers}; give 0 or a positive number")
        wrong = [each for each in self.filters if len(each) != 2 or min(each) < 1]
        if not self.filters or wrong or max(width for width, _ in self.filters) > CHARACTERS_PER_WORD:
            raise ValueError(
                f"filters are {self.filters}; give pairs of a width of at most {CHARACTERS_PER_WORD} characters and a "
                "number of filters, such as ((1, 32), (2, 32))"
            )

    @property
    def num_filters(self) -> int:
        """Number of filters of all widths."""
        return sum(num_filters for _, num_filters in self.filters)


class Highway(nnx.Module):
    """Mixes ``relu(transform(x))`` and ``x`` by a gate: the sigmoid of ``carry(x)``, which weighs the first."""

    def __init__(self, dim: int, *, key: Key[Array, ""]):
        transform_key, carry_key = jax.random.split(key)

        def dense(key: Key[Array, ""]) -> Linear:
            return Linear(dim, dim, axes=("embed_factor", "mlp"), key=key, init=FanIn(), bias=True)

        self.transform, self.carry = dense(transform_key), dense(carry_key)
        self.carry.bias = nnx.Param(jnp.full((dim,), _CARRY_BIAS, jnp.float32), axes=("mlp",))

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        gate = jax.nn.sigmoid(self.carry(x))
        return gate * jax.nn.relu(self.transform(x)) + (1.0 - gate) * x


class CharacterCNN(nnx.Module):
    """Computes word embeddings from character ids."""

    def __init__(self, config: CharacterCNNConfig, *, key: Key[Array, ""]):
        table_key, filters_key, highway_key, projection_key = jax.random.split(key, 4)
        self.characters = Embedding(
            NUM_CHARACTERS,
            config.character_dim,
            key=table_key,
            stddev=_CHARACTER_STDDEV,
            axes=("characters", "embed_factor"),
        )
        # Kernels have the rows of a filter's first character, then those of its second one, and so on.
        self.convolutions = nnx.Dict(
            {
                str(index): Linear(
                    width * config.character_dim,
                    num_filters,
                    axes=("embed_factor", "mlp"),
                    key=jax.random.fold_in(filters_key, index),
                    init=Normal(_FILTER_STDDEV),
                    bias=True,
                )
                for index, (width, num_filters) in enumerate(config.filters)
            }
        )
        self.highways = nnx.Dict(
            {
                str(index): Highway(config.num_filters, key=jax.random.fold_in(highway_key, index))
                for index in range(config.num_highway_layers)
            }
        )
        self.projection = Linear(
            config.num_filters, config.output_dim, axes=("mlp", "embed"), key=projection_key, bias=True
        )
        self.config = config

    def __call__(self, ids: Int[Array, "*rows C"], dtype: jnp.dtype) -> Float[Array, "*rows D"]:
        """Return embeddings of words; an id outside the table gives not-a-number.

        Args:
          ids: Ids of each word's characters, from ``ancestors.word_vectors.character_table``.
          dtype: Type of the activations.
        """
        rows = ids.shape[:-1]
        x_WCE = self.characters(ids.reshape(-1, ids.shape[-1]), dtype)
        x = jnp.concatenate(
            [self._pooled(x_WCE, index) for index in range(len(self.config.filters))], axis=-1
        )
        for index in range(self.config.num_highway_layers):
            x = self.highways[str(index)](x)
        return self.projection(x).reshape(*rows, -1)

    def _pooled(self, x: Float[Array, "W C E"], index: int) -> Float[Array, "W F"]:
        """Return the largest output of each filter over all places of a word, and 0 where it is negative."""
        kernel, bias = self.convolutions[str(index)].merged()
        assert bias is not None
        (width, num_filters), character_dim = self.config.filters[index], x.shape[-1]
        filtered = jax.lax.conv_general_dilated(
            x,
            kernel.reshape(width, character_dim, num_filters).astype(x.dtype),
            window_strides=(1,),
            padding="VALID",
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        return jax.nn.relu(jnp.max(filtered, axis=1) + bias.astype(x.dtype)[None])


class CharacterEmbedding(nnx.Module):
    """Embeds words of a vocabulary by their characters.

    The ids of each word's characters are a constant table, int32 [V, C]. A fresh model has zeros there: training, or
    ``word_vectors.character_table``, fills it from the vocabulary. Integers are never trained.
    """

    def __init__(self, config: CharacterCNNConfig, vocab_size: int, *, key: Key[Array, ""]):
        table = jnp.zeros((vocab_size, CHARACTERS_PER_WORD), jnp.int32)
        self.character_ids = nnx.Param(table, axes=("vocab", "characters"))
        self.cnn = CharacterCNN(config, key=key)

    def __call__(self, tokens: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L D"]:
        """Return embeddings of tokens; a token outside the vocabulary gives not-a-number."""
        table = self.character_ids[...]
        tokens = jnp.where(tokens >= 0, tokens, len(table))
        ids = jnp.take(table, tokens, axis=0, mode="fill", fill_value=-1)
        return self.cnn(ids, dtype)
