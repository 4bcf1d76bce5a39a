"""Asks a model: what it writes after prompts, and how likely it finds answers to them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch
from t5x_like.evaluation.encoding import Encoded, Pair, answer_batch, prompt_batch
from t5x_like.evaluation.evaluator import local_rows
from t5x_like.evaluation.generation import Generation, make_generator
from t5x_like.model import parameters
from t5x_like.partitioning.shard import place, replicated
from t5x_like.pretrained.checkpoint import Checkpoint


class Asker:
    """One model's compiled programs for batches of ``batch_size`` prompts of up to ``length`` tokens."""

    def __init__(self, model: Checkpoint, *, batch_size: int, length: int):
        self.model = model
        self.batch_size = batch_size
        self._length = length
        self._generators: dict[Generation, Callable[[Any, Batch], np.ndarray]] = {}
        self._score = _make_scorer(model)

    def write(self, prompts: Sequence[Encoded], generation: Generation) -> list[str]:
        """What the model writes after each of at most ``batch_size`` prompts.

        A decoder's answer is one line, without the space before it.
        """
        if generation not in self._generators:
            self._generators[generation] = make_generator(
                self.model.graphdef,
                generation,
                self.model.mesh,
                eos_token_id=self._ends(),
                start_token_id=self.model.start_id,
            )
        batch = prompt_batch(
            [prompt.ids for prompt in prompts],
            batch_size=self.batch_size,
            limit=self._length,
            on_the_left=self.model.kind == "decoder",
        )
        written = self._generators[generation](self.model.params, self._place(batch))
        texts = [self._text(row) for row in written[: len(prompts)].tolist()]
        return [
            text.strip().partition("\n")[0].strip() if self.model.kind == "decoder" else text
            for text in texts
        ]

    def score(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Log-likelihood of each pair's answer after its prompt, float64 [B], in nats."""
        batch = answer_batch(self.model, pairs, batch_size=self.batch_size, limit=self._length)
        return self.score_batch(batch)[: len(pairs)]

    def score_batch(self, batch: Batch) -> np.ndarray:
        """Log-likelihood of each row's weighted targets, float64 [B], in nats."""
        return self._score(self.model.params, self._place(batch)).astype(np.float64)

    def _ends(self) -> tuple[int, ...]:
        """A decoder, asked for a line, is done when the line is."""
        if self.model.kind != "decoder":
            return self.model.end_ids
        line = self.model.tokenizer.encode("\n")
        return (*self.model.end_ids, *(line if len(line) == 1 else ()))

    def _text(self, ids: list[int]) -> str:
        ends = [place for place, number in enumerate(ids) if number in self.model.end_ids]
        return self.model.tokenizer.decode(ids[: ends[0]] if ends else ids)

    def _place(self, batch: Batch) -> Batch:
        return place(local_rows(batch, self.model.mesh), self.model.mesh)


def _make_scorer(model: Checkpoint) -> Callable[[Any, Batch], np.ndarray]:
    """Over the real vocabulary: rows that only fill up a table to a round size take no part."""
    vocab_size = model.config.vocab_size

    def score(params: Any, batch: Batch) -> jax.Array:
        logits = parameters.merge(model.graphdef, params)(batch).logits[..., :vocab_size]
        log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
        chosen = jnp.take_along_axis(log_probs, batch.target_tokens[..., None], axis=-1).squeeze(-1)
        return jnp.sum(jnp.where(batch.loss_weights > 0, chosen, 0.0), axis=-1)

    compiled = jax.jit(score, out_shardings=replicated(model.mesh))
    return lambda params, batch: np.asarray(compiled(params, batch))
