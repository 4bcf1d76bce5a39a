"""Token embeddings, which may also be the output layer."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key


class Embedding(nnx.Module):
    """A table [V, D] with rows of unit variance."""

    def __init__(self, vocab_size: int, model_dim: int, *, key: Key[Array, ""]):
        self.table = nnx.Param(jax.random.normal(key, (vocab_size, model_dim)), axes=("vocab", "embed"))

    def __call__(self, tokens: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L D"]:
        """Looks tokens up. An id outside the table gives not-a-number, which no loss survives unnoticed."""
        return jnp.take(self.table[...].astype(dtype), tokens, axis=0, mode="fill", fill_value=jnp.nan)

    def logits(self, x: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        """Scores every token by the inner product with its row, in float32."""
        return jnp.matmul(x, self.table[...].astype(x.dtype).T, preferred_element_type=jnp.float32)
