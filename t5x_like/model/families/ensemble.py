"""Several models with the same weights' shapes that predict together."""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import Predictions
from t5x_like.model.heads import whole_logits

# Probabilities are averaged, or logits before the softmax, as T5's ensembles do (Raffel et al. 2020, §3.6).
Mean = Literal["probabilities", "logits"]


@config_class
class EnsembleConfig:
    """Configuration of an ensemble.

    Attributes:
      members: Configuration of each model, such as one that reads rows from their end.
      mean: Average of their predictions.
    """

    members: tuple[Any, ...]
    mean: Mean = "probabilities"

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.members[0].vocab_size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "members":
            raise AttributeError(name)
        return getattr(self.members[0], name)

    def build(self, key: Key[Array, ""]) -> "Ensemble":
        """Build the models with fresh weights drawn from ``key``."""
        keys = jax.random.split(key, len(self.members))
        built = [member.build(each) for member, each in zip(self.members, keys, strict=True)]
        return Ensemble(built, mean=self.mean)


class Ensemble(nnx.Module):
    """Models whose predictions of tokens are averaged; with a cache each, they generate one text together."""

    def __init__(self, members: Sequence[Any], *, mean: Mean = "probabilities"):
        self.by_number = nnx.Dict({f"{index:03d}": member for index, member in enumerate(members)})
        self.mean: Mean = mean

    @property
    def members(self) -> list[Any]:
        """The models."""
        return list(self.by_number.values())

    def __call__(self, batch: Batch, **options: Any) -> Predictions:
        """Return logits whose softmax is the mean of the members' probabilities; other outputs are left out."""
        all_logits = []
        for member_index, member in self.by_number.items():
            with named_activations.scope(member_index):
                all_logits.append(whole_logits(member(batch, **options).logits))
        return Predictions(logits=mean_scores(all_logits, self.mean))

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], **options: int
    ) -> tuple[Int[Array, " B"], list[Any]]:
        """Read prompts for generation.

        Args:
          prompts: Token ids.
          mask: 1 for real tokens.
          **options: Options of ``PromptContinuation.prefill``.
        """
        started = [member.prefill(prompts, mask, **options) for member in self.members]
        return started[0][0], [cache for _, cache in started]

    def decode_step(
        self, tokens: Int[Array, " R"], caches: list[Any]
    ) -> tuple[Float[Array, "R V"], list[Any]]:
        """Read one token of each row, and return averaged scores of the next one and the updated caches.

        Args:
          tokens: Next token of each row.
          caches: Cache of each member.
        """
        pairs = zip(self.members, caches, strict=True)
        steps = [member.decode_step(tokens, cache) for member, cache in pairs]
        return mean_scores([logits for logits, _ in steps], self.mean), [cache for _, cache in steps]

    def reorder_cache(self, caches: list[Any], origins: Int[Array, "B J"]) -> list[Any]:
        """Return the caches in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``.

        Args:
          caches: Cache of each member.
          origins: Index of each new beam's former beam.
        """
        return [
            member.reorder_cache(cache, origins) for member, cache in zip(self.members, caches, strict=True)
        ]

    def keep_inputs(self, caches: Sequence[object], inputs: Int[Array, " C"], num_inputs: int) -> list[Any]:
        """Return the caches of some of the inputs.

        Args:
          caches: Cache of each member.
          inputs: Indices of the inputs to keep.
          num_inputs: Number of inputs in the caches.
        """
        pairs = zip(self.members, caches, strict=True)
        return [member.keep_inputs(cache, inputs, num_inputs) for member, cache in pairs]


def first_member(model: Any) -> Any:
    """Return the first model of an ensemble, and any other model as it is."""
    return model.members[0] if isinstance(model, Ensemble) else model


def mean_scores(scores: Sequence[Array], mean: Mean, *, axis: int = -1, where: Array | None = None) -> Array:
    """Average scores of several models.

    Args:
      scores: Logits of each model.
      mean: "logits" for their mean, "probabilities" for the logarithm of the mean of their softmax.
      axis: Axis of the softmax.
      where: True for scores that take part in it.
    """
    logits = jnp.stack(scores).astype(jnp.float32)
    if mean == "logits":
        return logits.mean(0)
    axis = axis if axis < 0 else axis + 1
    log_probabilities = jax.nn.log_softmax(logits, axis=axis, where=where)
    return jax.nn.logsumexp(log_probabilities, axis=0) - jnp.log(len(scores))


def mean_of_sigmoids(scores: Sequence[Array], mean: Mean) -> Array:
    """Average scores of classes that don't exclude each other.

    Args:
      scores: Logits of each model.
      mean: "logits" for their mean, "probabilities" for the logit of the mean of their sigmoids.
    """
    logits = jnp.stack(scores).astype(jnp.float32)
    if mean == "logits":
        return logits.mean(0)
    likely, unlikely = (jax.nn.logsumexp(jax.nn.log_sigmoid(each), axis=0) for each in (logits, -logits))
    return likely - unlikely
