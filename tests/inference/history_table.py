"""A real decodable small enough to enumerate: the next token depends on everything read so far."""

import jax
import jax.numpy as jnp
import numpy as np

NUM_STATES = 97


class HistoryTable:
    """Each row has its own table of logits; a state mixed from all tokens read picks the line."""

    def __init__(self, seed: int, num_rows: int, vocab_size: int, sharpness: float = 1.0):
        draw = np.random.default_rng(seed)
        tables = draw.normal(size=(num_rows, NUM_STATES, vocab_size)) * sharpness
        self.tables = jnp.asarray(tables, jnp.float32)

    def start(self):
        num_rows = len(self.tables)
        return {"table": jnp.arange(num_rows), "state": jnp.zeros(num_rows, jnp.int32)}

    def step(self, tokens, cache):
        state = (cache["state"] * 31 + tokens + 1) % NUM_STATES
        return self.tables[cache["table"], state], {"table": cache["table"], "state": state}

    def reorder(self, cache, origins):
        choose = jax.vmap(lambda beams, which: beams[which])
        return jax.tree.map(lambda leaf: choose(leaf.reshape(len(origins), -1), origins).ravel(), cache)

    def keep_inputs(self, cache, inputs, num_inputs):
        return jax.tree.map(lambda leaf: leaf.reshape(num_inputs, -1)[inputs].ravel(), cache)

    def log_probs_after(self, row: int, tokens: list[int]) -> np.ndarray:
        """Log-probabilities of the token after ``tokens``, in float32 like the model's."""
        state = 0
        for token in tokens:
            state = (state * 31 + token + 1) % NUM_STATES
        return np.asarray(jax.nn.log_softmax(self.tables[row, state]))
