"""LoRA: low-rank updates of linear layers and embeddings (Hu et al. 2021, https://arxiv.org/abs/2106.09685)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.adapters.targets import (
    key_for,
    merge_embeddings,
    merge_linears,
    targeted_embeddings,
    targeted_linears,
)
from t5x_like.model.layers.dropout import check_rate, dropout
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.linear import Linear


@config_class
class LoRA:
    """Adds ``scale * dropout(x) @ a @ b`` to the outputs of linear layers; fresh ``b`` are 0.

    Weights of a layer at ``<path>`` are ``<path>/lora/a`` [in, rank] and ``<path>/lora/b`` [rank, out], in float32,
    with the leading dimensions of its kernel: those of stacked layers, then of experts. With ``dora`` there is also
    ``<path>/lora/magnitude`` [out].

    An embedding table [V, D] has ``a`` [V, rank] and ``b`` [rank, D]; there ``a`` begins at 0, as in PEFT.

    Attributes:
      rank: Inner width of the update.
      alpha: The update is multiplied by ``alpha / rank``.
      targets: Patterns of paths of linear layers, by default queries and values (§4.2). ``"*/query"`` matches
        ``encoder/layers/0/self_attention/query``. A pattern that matches no linear layer may name embedding tables:
        ``"embedding/tokens"``.
      dropout_rate: Dropout of the update's inputs, in layers of the stacks.
      rank_stabilized: Multiplies by ``alpha / sqrt(rank)`` (Kalajdzievski 2023, https://arxiv.org/abs/2312.03732).
      dora: Trains the length of each column of the updated kernel apart (Liu et al. 2024,
        https://arxiv.org/abs/2402.09353). A fresh one changes outputs by rounding.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("*/query", "*/value")
    dropout_rate: float = 0.0
    rank_stabilized: bool = False
    dora: bool = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank is {self.rank}; give a positive number")
        if not self.targets:
            raise ValueError("targets is empty; give patterns of linear layers, such as '*/query'")
        check_rate("dropout_rate", self.dropout_rate)

    @property
    def scale(self) -> float:
        """Factor of the update."""
        return self.alpha / (self.rank**0.5 if self.rank_stabilized else self.rank)

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        return ("*/lora/*",)

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
        """Give the targeted layers fresh updates; returns the model.

        Raises:
          ValueError: A pattern matches no layer, or the rank exceeds the width of one.
        """
        embeddings = targeted_embeddings(model, self.targets)
        if embeddings and self.dora:
            raise ValueError(
                f"dora=True is for linear layers, not for {min(embeddings)}; leave one of them out"
            )
        others = [pattern for pattern, _ in embeddings.values()]
        for path, linear in targeted_linears(model, self.targets, what="targets", others=others).items():
            self._check_rank(path, linear.kernel.shape[-2:])
            linear.adapt("lora", LowRankUpdate(self, linear, key=key_for(key, path)))
        for path, (_, embedding) in embeddings.items():
            self._check_rank(path, (embedding.num_rows, embedding.table.shape[-1]))
            embedding.adapt("lora", LowRankRows(self, embedding, key=key_for(key, path)))
        return model

    def _check_rank(self, path: str, widths: tuple[int, ...]) -> None:
        if self.rank > min(widths):
            raise ValueError(
                f"rank={self.rank} exceeds a width of {path}, which maps {widths[0]} to {widths[1]}; give a rank "
                f"of at most {min(widths)}, or targets without it"
            )

    def merge(self, model: nnx.Module) -> nnx.Module:
        """Add the updates to kernels and tables and remove them; returns the model.

        Raises:
          ValueError: An embedding has an update, and the output layer scores with its table.
        """
        return merge_linears(merge_embeddings(model))


class LowRankUpdate(nnx.Module):
    """The update of one linear layer, or of a stack of them.

    ``a`` is drawn as the authors' code does, uniformly within ``1 / sqrt(num_inputs)``.
    """

    def __init__(self, config: LoRA, linear: Linear, *, key: Key[Array, ""]):
        kernel, axes = linear.kernel, linear.kernel.get_metadata()["axes"]
        *stack, num_inputs, num_outputs = kernel.shape
        bound = num_inputs**-0.5
        a = jax.random.uniform(key, (*stack, num_inputs, config.rank), jnp.float32, -bound, bound)
        self.a = nnx.Param(a, axes=(*axes[:-1], "adapter"))
        self.b = nnx.Param(
            jnp.zeros((*stack, config.rank, num_outputs), jnp.float32), axes=(*axes[:-2], "adapter", axes[-1])
        )
        self.magnitude = (
            nnx.Param(_lengths(kernel[...]), axes=(*axes[:-2], axes[-1])) if config.dora else None
        )
        self.dropout_key: Key[Array, ...] | None = None
        self.config = config

    def __call__(
        self, linear: Linear, x: Float[Array, "*rows D"], output_dtype: jnp.dtype | None
    ) -> Float[Array, "*rows F"]:
        """Return the layer's output with the update."""
        y = linear.project(x, output_dtype)
        x = dropout(x, self.config.dropout_rate, self.dropout_key)
        update = (x @ self.a[...].astype(x.dtype)) @ self.b[...].astype(x.dtype)
        update = (self.config.scale * update).astype(y.dtype)
        if self.magnitude is None:
            return y + update
        kernel = linear.kernel[...] + self.config.scale * (self.a[...] @ self.b[...])
        # §4.3: the length is a constant for the gradient, which saves memory.
        factor = (self.magnitude[...] / jax.lax.stop_gradient(_lengths(kernel))).astype(y.dtype)
        factor = factor.reshape((1,) * (y.ndim - 1) + (-1,))
        bias = jnp.zeros((), y.dtype) if linear.bias is None else linear.bias[...].astype(y.dtype)
        return y + (factor - 1) * (y - bias.reshape((1,) * (y.ndim - 1) + (-1,))) + factor * update

    def merged(self, linear: Linear) -> tuple[Float[Array, "*stack D F"], Float[Array, "*stack F"] | None]:
        """Return kernel and bias that contain the update."""
        kernel = linear.kernel[...] + self.config.scale * (self.a[...] @ self.b[...])
        if self.magnitude is not None:
            kernel = kernel * (self.magnitude[...] / _lengths(kernel))[..., None, :]
        return kernel, None if linear.bias is None else linear.bias[...]

    def set_dropout_key(self, key: Key[Array, ""]) -> None:
        """Drop inputs with ``key`` in the following call; experts get a key each."""
        stack = self.a.shape[:-2]
        self.dropout_key = nnx.data(jax.random.split(key, stack) if stack else key)


class LowRankRows(nnx.Module):
    """The update of an embedding table: ``a`` begins at 0, ``b`` is drawn from a normal distribution, as in PEFT."""

    def __init__(self, config: LoRA, embedding: Embedding, *, key: Key[Array, ""]):
        num_rows, width = embedding.table.shape
        rows, columns = embedding.table.get_metadata()["axes"]
        self.a = nnx.Param(jnp.zeros((num_rows, config.rank), jnp.float32), axes=(rows, "adapter"))
        self.b = nnx.Param(
            jax.random.normal(key, (config.rank, width), jnp.float32), axes=("adapter", columns)
        )
        self.config = config

    def __call__(
        self, embedding: Embedding, ids: Int[Array, "B L"], dtype: jnp.dtype
    ) -> Float[Array, "B L D"]:
        """Return what is added to the vectors of ``ids``."""
        rows = embedding.rows_of(self.a[...].astype(dtype), ids)
        return self.config.scale * (rows @ self.b[...].astype(dtype))

    def merged(self, embedding: Embedding) -> Float[Array, "V D"]:
        """Return the table that contains the update."""
        return embedding.table[...] + self.config.scale * (self.a[...] @ self.b[...])


def _lengths(kernel: Float[Array, "*stack D F"]) -> Float[Array, "*stack F"]:
    """Return the length of each column."""
    return jnp.linalg.norm(kernel, axis=-2)
