"""What the harness asks of a model, in token ids: how likely a continuation is, and how the model itself goes on."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch
from t5x_like.evaluation.encoding import Pair, answer_batch, prompt_batch
from t5x_like.evaluation.evaluator import local_rows
from t5x_like.evaluation.generation import Generation, make_generator
from t5x_like.model import parameters
from t5x_like.partitioning.shard import place, replicated
from t5x_like.pretrained.checkpoint import Checkpoint


class Asked(NamedTuple):
    """Ids that are read, and ids whose likelihood after them is wanted. Neither may be empty."""

    context: tuple[int, ...]
    continuation: tuple[int, ...]


class Likelihood(NamedTuple):
    """In nats; and whether greedy decoding would have written the continuation."""

    log_likelihood: float
    is_greedy: bool


class Answerer:
    """One model's compiled programs for ``batch_size`` rows of at most ``max_length`` tokens.

    What is too long loses its beginning, as in the harness: its last tokens tell most about what follows.
    """

    def __init__(self, model: Checkpoint, *, batch_size: int, max_length: int):
        self.model = model
        self.batch_size = batch_size
        self.max_length = max_length
        self._score = _make_scorer(model)
        self._generators: dict[tuple[Generation, tuple[int, ...]], Callable[[Any, Batch], np.ndarray]] = {}

    def score(
        self, asked: Sequence[Asked], answered: Callable[[int, Likelihood], object] = lambda *_: None
    ) -> list[Likelihood]:
        """The likelihood of each continuation; ``answered`` hears of each as it is known.

        Rows of like length share batches, the longest first; what is asked twice is answered once.

        Raises:
          ValueError: a continuation without a token, or longer than the model can read.
        """
        places: dict[Asked, list[int]] = {}
        for number, one in enumerate(asked):
            places.setdefault(self._fitting(one), []).append(number)
        found: list[Likelihood | None] = [None] * len(asked)
        ordered = sorted(places, key=lambda one: len(one.context) + len(one.continuation), reverse=True)
        for start in range(0, len(ordered), self.batch_size):
            rows = ordered[start : start + self.batch_size]
            for row, likelihood in zip(rows, self._score_batch(rows), strict=True):
                for number in places[row]:
                    found[number] = likelihood
                    answered(number, likelihood)
        return [likelihood for likelihood in found if likelihood is not None]

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        generation: Generation,
        *,
        stops: Sequence[str] = (),
        answered: Callable[[int, str], object] = lambda *_: None,
    ) -> list[str]:
        """How the model goes on after each prompt, up to the first of ``stops`` or its own end.

        Raises:
          ValueError: no room for a prompt beside the new tokens.
        """
        room = self._room(generation.max_new_tokens)
        ends = (*self.model.end_ids, *self._ids_of_stops(stops))
        cut = [np.array(prompt[-room:], np.int32) for prompt in prompts]
        texts = [""] * len(cut)
        order = sorted(range(len(cut)), key=lambda number: len(cut[number]), reverse=True)
        for start in range(0, len(order), self.batch_size):
            numbers = order[start : start + self.batch_size]
            batch = prompt_batch(
                [cut[number] for number in numbers],
                batch_size=self.batch_size,
                limit=room,
                on_the_left=self.model.kind == "decoder",
            )
            written = self._generator(generation, ends)(self.model.params, self._place(batch))
            for number, ids in zip(numbers, written.tolist(), strict=False):
                texts[number] = cut_at(self._decoded(ids), stops)
                answered(number, texts[number])
        return texts

    def _fitting(self, asked: Asked) -> Asked:
        if not asked.continuation:
            raise ValueError("a continuation has no token of its own; a task asks how likely nothing is")
        if len(asked.continuation) > self.max_length:
            raise ValueError(
                f"a continuation has {len(asked.continuation)} tokens, the model reads {self.max_length}; raise "
                "max_length if it can read more"
            )
        # A decoder reads all but the last token of the continuation after the context.
        taken = len(asked.continuation) - 1 if self.model.kind == "decoder" else 0
        return Asked(asked.context[-max(self.max_length - taken, 1) :], asked.continuation)

    def _score_batch(self, rows: Sequence[Asked]) -> list[Likelihood]:
        pairs = [Pair(np.array(row.context, np.int32), np.array(row.continuation, np.int32)) for row in rows]
        batch = answer_batch(self.model, pairs, batch_size=self.batch_size, limit=self.max_length)
        sums, greedy = self._score(self.model.params, self._place(batch))
        return [Likelihood(float(sums[row]), bool(greedy[row])) for row in range(len(rows))]

    def _room(self, max_new_tokens: int) -> int:
        """How many tokens of a prompt can be read."""
        if self.model.kind != "decoder":
            return self.max_length
        if max_new_tokens >= self.max_length:
            raise ValueError(
                f"{max_new_tokens} new tokens leave no room for a prompt among the {self.max_length} that the model "
                "reads; lower max_gen_toks"
            )
        return self.max_length - max_new_tokens

    def _generator(self, generation: Generation, ends: tuple[int, ...]) -> Callable[[Any, Batch], np.ndarray]:
        key = (generation, ends)
        if key not in self._generators:
            self._generators[key] = make_generator(
                self.model.graphdef,
                generation,
                self.model.mesh,
                eos_token_id=ends,
                start_token_id=self.model.start_id,
            )
        return self._generators[key]

    def _ids_of_stops(self, stops: Sequence[str]) -> list[int]:
        """Stops that are one id: a row that has written one is done, so that a batch may end early."""
        encoded = [self.model.tokenizer.encode(stop) for stop in stops if stop]
        return [ids[0] for ids, stop in zip(encoded, filter(None, stops), strict=True) if self._is(ids, stop)]

    def _is(self, ids: Sequence[int], stop: str) -> bool:
        return len(ids) == 1 and self.model.tokenizer.decode(ids) == stop

    def _decoded(self, ids: list[int]) -> str:
        """Without what comes after the end: padding there may be a word's id."""
        ends = [place for place, number in enumerate(ids) if number in self.model.end_ids]
        return self.model.tokenizer.decode(ids[: ends[0]] if ends else ids)

    def _place(self, batch: Batch) -> Batch:
        return place(local_rows(batch, self.model.mesh), self.model.mesh)


def cut_at(text: str, stops: Sequence[str]) -> str:
    """``text`` before the first of ``stops``."""
    found = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(found)] if found else text


def rolling(ids: Sequence[int], *, prefix: int, max_length: int) -> list[Asked]:
    """Windows over a long text, in which every token is asked for once and sees as much before it as fits.

    The first window begins after ``prefix``; the last one is as long as the others, and what it has had before is its
    context (the harness' own rule, with a context of one token at the least).
    """
    windows = []
    for start in range(0, len(ids), max_length):
        end = min(start + max_length, len(ids))
        before = [prefix] if start == 0 else list(ids[max(end - max_length - 1, 0) : start])
        windows.append(Asked(tuple(before), tuple(ids[start:end])))
    return windows


def _make_scorer(model: Checkpoint) -> Callable[[Any, Batch], tuple[np.ndarray, np.ndarray]]:
    """Over the real vocabulary: rows that only fill up a table to a round size take no part."""
    vocab_size = model.config.vocab_size

    def score(params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        logits = parameters.merge(model.graphdef, params)(batch).logits[..., :vocab_size].astype(jnp.float32)
        asked = batch.loss_weights > 0
        log_probs = jax.nn.log_softmax(logits, axis=-1)
        chosen = jnp.take_along_axis(log_probs, batch.target_tokens[..., None], axis=-1).squeeze(-1)
        greedy = (logits.argmax(-1) == batch.target_tokens) | ~asked
        return jnp.sum(jnp.where(asked, chosen, 0.0), axis=-1), greedy.all(axis=-1)

    whole = replicated(model.mesh)
    compiled = jax.jit(score, out_shardings=(whole, whole))

    def run(params: Any, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        sums, greedy = compiled(params, batch)
        return np.asarray(sums), np.asarray(greedy)

    return run
