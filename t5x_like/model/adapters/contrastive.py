"""Contrastive prefixes: one prefix for each attribute of a text, trained together (Qian et al. 2022).

https://arxiv.org/abs/2202.13257.
"""

from typing import Any, ClassVar

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import parameters
from t5x_like.model.adapters.prefix import Prefix, PrefixTuning
from t5x_like.model.adapters.targets import key_for, num_stacked
from t5x_like.model.families.attribute_contrast import AttributeContrast
from t5x_like.model.families.decoder import Decoder
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.modules import modules_of


@config_class
class ContrastivePrefixes:
    """Gives every attention layer of a decoder a prefix for each attribute; a row reads that of its task.

    Texts of each attribute are a task, and the mixture has them in the order of ``attributes``. Besides the loss of the
    language model each prefix learns to give its own texts a higher probability than the others do (§3.1). After
    training, ``t5x-like convert --attribute`` makes a run of one of them, which steers what the model writes.

    Weights are those of ``PrefixTuning``, at ``<path>/prefix/each/…``, after the stacked layers' dimension with one for
    the attributes.

    Attributes:
      attributes: Names of the tasks, in the order of the mixture.
      length: Number of keys of each prefix.
      hidden_dim: Width of the reparametrization; see ``PrefixTuning``.
      shift_positions: Learned positions begin after the prefix; see ``PrefixTuning``.
      discriminative_weight: Factor of the discriminative loss; that of the language model's loss is 1. By default the
        paper's 0.2 to 0.8.
    """

    attributes: tuple[str, ...]
    length: int = 10
    hidden_dim: int | None = 512
    shift_positions: bool = False
    discriminative_weight: float = 0.25

    adds: ClassVar[str] = PrefixTuning.adds

    def __post_init__(self) -> None:
        if len(self.attributes) < 2 or len({*self.attributes}) < len(self.attributes):
            raise ValueError(
                f"attributes={self.attributes}; give the names of two tasks or more, each once, in the mixture's order"
            )
        if self.discriminative_weight < 0:
            raise ValueError(
                f"discriminative_weight is {self.discriminative_weight}; give 0 or a positive number"
            )
        _ = self.prefix  # whose own checks refuse sizes

    @property
    def prefix(self) -> PrefixTuning:
        """Adapter with one of the prefixes."""
        return PrefixTuning(
            length=self.length, hidden_dim=self.hidden_dim, shift_positions=self.shift_positions
        )

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        return ("*/prefix/*",)

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
        """Give every attention layer fresh prefixes; returns the model.

        Raises:
          ValueError: The model is no decoder, or as ``PrefixTuning``.
        """
        if not isinstance(model, Decoder):
            raise ValueError(
                f"ContrastivePrefixes steer what a decoder writes; {type(model).__name__} models take PrefixTuning"
            )
        self.prefix.attach(model, key)
        for path, attention in modules_of(model, Attention):
            keys = jax.random.split(key_for(key, path), (num_stacked(attention), len(self.attributes)))
            each, config = self.prefix, attention.config
            prefixes = jax.vmap(lambda keys, each=each, config=config: Prefixes(each, config, keys=keys))(
                keys
            )
            attention.prefix = nnx.data(prefixes)
        model.contrast = AttributeContrast(
            num_attributes=len(self.attributes), weight=self.discriminative_weight
        )
        return model

    def take(
        self, attribute: str, params: parameters.Parameters
    ) -> tuple[PrefixTuning, parameters.Parameters]:
        """Return the adapter of one attribute, and weights with its prefixes.

        Args:
          attribute: Name of the attribute.
          params: Weights of a model with prefixes for all attributes.

        Raises:
          ValueError: There is no such attribute.
        """
        if attribute not in self.attributes:
            raise ValueError(f"there is no attribute {attribute!r}; there are {', '.join(self.attributes)}")
        index = self.attributes.index(attribute)
        flat: dict[str, Any] = {}
        for path, leaf in parameters.flatten(params).items():
            start, is_prefix, rest = path.partition("/prefix/each/")
            flat[f"{start}/prefix/{rest}" if is_prefix else path] = (
                np.asarray(leaf)[:, index] if is_prefix else leaf
            )
        return self.prefix, parameters.unflatten(flat)


class Prefixes(nnx.Module):
    """Keys and values of one attention layer, for each of several attributes."""

    def __init__(self, config: PrefixTuning, attention: AttentionConfig, *, keys: Key[Array, " K"]):
        self.each = nnx.data(jax.vmap(lambda key: Prefix(config, attention, key=key))(keys))

    def __call__(self) -> tuple[Float[Array, "K P GK"], Float[Array, "K P GK"]]:
        """Return keys and values."""
        return jax.vmap(lambda prefix: prefix())(self.each)
