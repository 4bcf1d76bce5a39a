"""Texts of several requests, written in rolling batches that prompts join as they come."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import jax
import numpy as np

from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.rolling_batch import PromptRow, RollingBatch, WrittenRow, rolls
from t5x_like.model import parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.serving.request_fields import RequestError

_STEPS = 16  # tokens of each row between two looks at new requests
_STREAMED_STEPS = 4
_LOWEST_TEMPERATURE = 0.01  # lower ones overflow


class Draws(NamedTuple):
    """Sampling settings of a request; see ``PromptRow``."""

    temperature: float
    top_k: int
    top_p: float
    seed: int


class TextWriter:
    """Writes ids after prompts. Models whose rows can't begin at different times write one prompt after another.

    Args:
      pretrained: A model that can write.
      num_rows: The most rows of a batch.
      end_ids: Ids that end a text.
    """

    def __init__(self, pretrained: Pretrained, *, num_rows: int, end_ids: tuple[int, ...]):
        opened = pretrained.checkpoint
        self._pretrained, self._family, self._end_ids = pretrained, opened.family, end_ids
        self._mesh, self._positions = opened.mesh, opened.max_positions
        self._graphdef, self._params = parameters.split(pretrained.model)
        # Each compiles programs, so there are few.
        self._row_counts = [*(1 << power for power in range((num_rows - 1).bit_length())), num_rows]
        self._batches: dict[LogitsProcessors | None, RollingBatch] = {}
        self._done: list[WrittenRow] = []
        try:
            self._rolls = rolls(self._graphdef, self._params)
        except ValueError:  # such as of a model that fills blanks in the middle of texts
            self._rolls = False

    @property
    def programs(self) -> set[object]:
        """Shapes of programs that were compiled."""
        return {shape for batch in self._batches.values() for shape in batch.programs}

    def add(
        self, name: Hashable, ids: list[int], *, max_new_tokens: int, draws: Draws, num_texts: int
    ) -> None:
        """Let a prompt be continued.

        Args:
          name: Its name; its texts are called by it and their index.
          ids: Token ids.
          max_new_tokens: The most tokens of a text.
          draws: Sampling settings.
          num_texts: Number of its texts.

        Raises:
          RequestError: The model can't continue it.
        """
        if not self._rolls:
            self._done += self._alone(name, ids, max_new_tokens, draws, num_texts)
            return
        in_encoder = self._family == "encoder_decoder"
        processors = self._pretrained.logits_processors(1 if in_encoder else len(ids))
        if processors not in self._batches:
            self._batches[processors] = RollingBatch(
                self._graphdef,
                self._mesh,
                row_counts=self._row_counts,
                is_decoder=not in_encoder,
                start_id=self._pretrained.special_ids.decoder_start,
                end_ids=self._end_ids,
                draws=True,
                limit=self._positions,
                processors=processors,
            )
        for index in range(num_texts):
            key = jax.random.fold_in(jax.random.key(draws.seed), index)
            row = PromptRow(
                ids,
                max_new_tokens,
                temperature=draws.temperature and max(draws.temperature, _LOWEST_TEMPERATURE),
                top_k=draws.top_k,
                top_p=draws.top_p,
                key=np.asarray(jax.random.key_data(key)),
            )
            self._batches[processors].add((name, index), row)

    def drop(self, name: Hashable) -> None:
        """Leave a text out that nobody waits for.

        Args:
          name: Name of the prompt, and index of the text.
        """
        for batch in self._batches.values():
            batch.drop(name)

    def clear(self) -> None:
        """Forget all prompts."""
        self._done.clear()
        for batch in self._batches.values():
            batch.clear()

    def advance(self, *, streams: bool) -> list[WrittenRow]:
        """Write some tokens, and return the texts so far.

        Args:
          streams: Somebody waits for parts of texts, so there are few tokens.
        """
        rows, self._done = self._done, []
        with self._pretrained.matmul_precision():
            for batch in self._batches.values():
                rows += batch.advance(self._params, max_steps=_STREAMED_STEPS if streams else _STEPS)
        return rows

    def _alone(
        self, name: Hashable, ids: list[int], max_new_tokens: int, draws: Draws, num_texts: int
    ) -> list[WrittenRow]:
        sampling: dict[str, Any] = {"do_sample": False, "num_beams": 1}
        if draws.temperature:
            sampling = {
                "do_sample": True,
                "temperature": max(draws.temperature, _LOWEST_TEMPERATURE),
                "top_k": draws.top_k,
                "top_p": draws.top_p,
                "num_return_sequences": num_texts,
                "seed": draws.seed,
            }
        try:
            rows = self._pretrained.generate(
                np.array([ids]), max_new_tokens=max_new_tokens, eos_token_id=list(self._end_ids), **sampling
            )
        except ValueError as error:
            raise RequestError(str(error)) from error
        start = 1 if self._family == "encoder_decoder" else len(ids)
        return [
            WrittenRow((name, index), self._to_end(row), has_ended=True)
            for index, row in enumerate(rows[:, start:].tolist())
        ]

    def _to_end(self, row: list[int]) -> list[int]:
        """Return the ids up to the end of text, that included."""
        ends = [index for index, token_id in enumerate(row) if token_id in self._end_ids]
        return row[: ends[0] + 1] if ends else row
