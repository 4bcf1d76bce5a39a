"""Hidden states of a pretrained model as features of another one.

CoVe takes the last layer (McCann et al. 2017), ELMo a mixture of all (Peters et al. 2018).
"""

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.ancestors.layers.scalar_mix import ScalarMix, ScalarMixConfig
from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.parameters import ModelConfig

FEATURES_MODEL = "features/model"  # folder of the pretrained model's weights

Place = Literal["inputs", "outputs"]


@config_class
class FeatureMix:
    """Learned weighted sums of a pretrained model's layers (Peters et al. 2018, §3.2 and §3.3).

    Attributes:
      places: ``"inputs"`` joins word embeddings, ``"outputs"`` what heads read. Each place has weights of its own.
      layer_norm: See ``ScalarMixConfig``.
      l2_weight: See ``ScalarMixConfig``; 0.001 lets weights of layers differ, 1 keeps them nearly equal (§5.1).
      dropout_rate: Dropout of the sums.
    """

    places: tuple[Place, ...] = ("inputs",)
    layer_norm: bool = False
    l2_weight: float = 0.001
    dropout_rate: float = 0.5

    def __post_init__(self) -> None:
        if not self.places or len(set(self.places)) < len(self.places):
            raise ValueError(f"places of features are {self.places}; give 'inputs', 'outputs' or both")
        check_rate("dropout_rate", self.dropout_rate)


@config_class
class FeaturesConfig:
    """Features of each token from a pretrained model, which stays as it is and reads the same tokens.

    Attributes:
      model: Configuration of the pretrained model, of any architecture. Of an encoder-decoder, the encoder is used.
      mix: Mixture of all layers (ELMo); ``None`` for the outputs of the last one next to word embeddings (CoVe).
    """

    model: Any
    mix: FeatureMix | None = None

    @property
    def dim(self) -> int:
        """Width of the features in each place."""
        return _hidden_shape(self.model)[1]

    def dim_at(self, place: Place) -> int:
        """Return the width of the features in a place; 0 if there are none."""
        places = ("inputs",) if self.mix is None else self.mix.places
        return self.dim if place in places else 0


class Features(NamedTuple):
    """Features of a batch.

    Attributes:
      inputs: Features next to word embeddings; ``None`` for none.
      outputs: Features next to what heads read; ``None`` for none.
      penalty: L2 penalty of the mixtures' weights.
    """

    inputs: Float[Array, "B L F"] | None
    outputs: Float[Array, "B L F"] | None
    penalty: Float[Array, ""]


class PretrainedFeatures(nnx.Module):
    """Computes features; see ``FeaturesConfig``. The pretrained model has no dropout, and is frozen by default."""

    def __init__(self, config: FeaturesConfig, *, key: Key[Array, ""]):
        self.model = config.model.build(key)
        mix = config.mix
        self.mixes = mix and nnx.Dict(
            {
                place: ScalarMix(
                    ScalarMixConfig(
                        num_layers=_hidden_shape(config.model)[0],
                        layer_norm=mix.layer_norm,
                        l2_weight=mix.l2_weight,
                    )
                )
                for place in mix.places
            }
        )
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Features:
        """Return the features of the tokens in a batch's encoder stream."""
        hidden = _hidden_states(self.model, batch)
        if self.mixes is None or self.config.mix is None:
            return Features(hidden[-1], None, jnp.zeros(()))
        ids, rate = batch.encoder_segment_ids, self.config.mix.dropout_rate
        real = None if ids is None else ids > 0
        mixed = {
            place: dropout(mix(hidden, real), rate, fold(dropout_key, index))
            for index, (place, mix) in enumerate(self.mixes.items())
        }
        penalty = sum((mix.penalty() for mix in self.mixes.values()), start=jnp.zeros(()))
        return Features(mixed.get("inputs"), mixed.get("outputs"), penalty)


def _hidden_states(model: nnx.Module, batch: Batch) -> Float[Array, "N B L F"]:
    """Return the inputs and the outputs of a model's layers on the encoder stream of a batch."""
    inputs = Batch(
        encoder_input_tokens=batch.encoder_input_tokens,
        encoder_segment_ids=batch.encoder_segment_ids,
        encoder_positions=batch.encoder_positions,
        token_types=batch.token_types,
    )
    with named_activations.record(("*/hidden_states",)) as captured:
        model(inputs)
    stack = "encoder" if "encoder/hidden_states" in captured else "decoder"
    return captured[f"{stack}/hidden_states"]


@functools.lru_cache(maxsize=16)
def _hidden_shape(config: ModelConfig) -> tuple[int, int]:
    """Return the number of a model's hidden states and their width."""

    def run(key: Key[Array, ""], tokens: jax.Array) -> Float[Array, "N B L F"]:
        return _hidden_states(config.build(key), Batch(encoder_input_tokens=tokens))

    tokens = jax.ShapeDtypeStruct((1, 2), jnp.int32)
    shape = jax.eval_shape(run, jax.random.key(0), tokens).shape
    return shape[0], shape[-1]
