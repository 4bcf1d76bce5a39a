"""Prefix tuning: learned keys and values before those of every attention layer (Li and Liang 2021).

https://arxiv.org/abs/2101.00190.
"""

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model.adapters.targets import key_for, num_stacked
from t5x_like.model.families.decoder import Decoder
from t5x_like.model.families.encoder import Encoder
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.embedding import LearnedPositions
from t5x_like.model.layers.linear import FanIn, Linear
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.relative_attention import RelativeAttention, RelativeAttentionConfig

_STDDEV = 0.02  # of fresh keys and values
_INIT = FanIn(scale=3**-0.5)  # as linear layers of PyTorch, in which the authors wrote the reparametrization


@config_class
class PrefixTuning:
    """Gives every attention layer learned keys and values, which all queries may attend to.

    In an encoder-decoder these are self-attention of both stacks and cross-attention. Positions and norms of keys don't
    act on them. Weights of an attention layer at ``<path>`` are ``<path>/prefix/keys`` and ``<path>/prefix/values``
    [length, kv_heads * head_dim], float32. Reparametrized they are ``<path>/prefix/vectors`` [length, hidden_dim],
    ``<path>/prefix/hidden`` and ``<path>/prefix/out``, whose outputs are keys, then values.

    Attributes:
      length: Number of keys.
      hidden_dim: Reparametrizes keys and values through ``out(tanh(hidden(vectors)))`` of this width (§4.3), which
        trains more stably. Every layer has such an MLP of its own; in the paper all layers share vectors and
        ``hidden``. ``None`` trains keys and values themselves.
      shift_positions: Learned positions of tokens begin after the prefix, as in the authors' code and in PEFT, where it
        is a cache of earlier tokens.
    """

    length: int = 10
    hidden_dim: int | None = 512
    shift_positions: bool = False

    adds: ClassVar[str] = "keys and values to attention"

    def __post_init__(self) -> None:
        for name in ("length", "hidden_dim"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; give a positive number")

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        return ("*/prefix/*",)

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
        """Give every attention layer a fresh prefix; returns the model.

        Raises:
          ValueError: There are no learned positions to shift, or too few.
        """
        if self.shift_positions:
            self._shift_positions(model)
        attentions = list(modules_of(model, Attention, RelativeAttention))
        if not attentions:
            raise ValueError(
                "prefixes are keys and values of attention, of which this model has none; take LoRA"
            )
        for path, attention in attentions:
            keys = jax.random.split(key_for(key, path), num_stacked(attention))
            config = attention.config
            attention.prefix = nnx.data(
                jax.vmap(lambda key, config=config: Prefix(self, config, key=key))(keys)
            )
        return model

    def _shift_positions(self, model: nnx.Module) -> None:
        has_embedding = isinstance(model, Encoder | Decoder)
        learned = model.config.embeddings.positions if has_embedding else None
        if not has_embedding or learned is None or learned.max_position_embeddings <= self.length:
            has = "no" if learned is None else str(learned.max_position_embeddings)
            raise ValueError(
                f"shift_positions moves learned positions behind a prefix of {self.length}, and this model has {has} "
                "such positions; leave it out"
            )
        count, offset = learned.max_position_embeddings - self.length, learned.offset + self.length
        learned = LearnedPositions(max_position_embeddings=count, offset=offset)
        embeddings = replace(model.config.embeddings, positions=learned)
        model.embedding.config = embeddings
        model.config = replace(model.config, embeddings=embeddings)  # pyright: ignore[reportAttributeAccessIssue]


class Prefix(nnx.Module):
    """Keys and values of one attention layer."""

    def __init__(
        self,
        config: PrefixTuning,
        attention: AttentionConfig | RelativeAttentionConfig,
        *,
        key: Key[Array, ""],
    ):
        width, hidden_dim = attention.kv_heads * attention.head_dim, config.hidden_dim
        keys = jax.random.split(key, 3)

        def vectors(key: Key[Array, ""], width: int, axis: str, stddev: float) -> nnx.Param:
            drawn = stddev * jax.random.normal(key, (config.length, width))
            return nnx.Param(drawn, axes=("adapter", axis))

        direct = (width, "joined_kv_heads", _STDDEV)
        self.keys = vectors(keys[0], *direct) if hidden_dim is None else None
        self.values = vectors(keys[1], *direct) if hidden_dim is None else None

        def layer(hidden_dim: int, width: int, axis: str, key: Key[Array, ""]) -> Linear:
            return Linear(hidden_dim, width, axes=("adapter", axis), key=key, init=_INIT, bias=True)

        self.vectors = vectors(keys[0], hidden_dim, "adapter", 1.0) if hidden_dim else None
        self.hidden = layer(hidden_dim, hidden_dim, "adapter", keys[1]) if hidden_dim else None
        self.out = layer(hidden_dim, 2 * width, "joined_kv_heads", keys[2]) if hidden_dim else None

    def __call__(self) -> tuple[Float[Array, "P GK"], Float[Array, "P GK"]]:
        """Return keys and values."""
        if self.keys is not None and self.values is not None:
            return self.keys[...], self.values[...]
        assert self.vectors is not None
        assert self.hidden is not None
        assert self.out is not None
        keys, values = jnp.split(self.out(jnp.tanh(self.hidden(self.vectors[...]))), 2, axis=-1)
        return keys, values
