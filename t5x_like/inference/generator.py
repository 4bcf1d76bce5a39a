"""Generation: continuations of prompts by greedy decoding, sampling or beam search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.audio.recording import Recording
from t5x_like.batch import bucket_length
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.inference.beam_search import T5LengthPenalty, beam_search
from t5x_like.inference.ctc_decoding import JointCtc, JointCtcDecoder
from t5x_like.inference.length_batches import Ids, length_batches, pad_prompts, place_rows
from t5x_like.inference.rolling_batch import PromptRow, RollingBatch, rolls
from t5x_like.inference.sampling import check_temperature, check_truncation, row_keys, sample
from t5x_like.model import parameters
from t5x_like.model.layers.stack import unrolled
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import replicated, row_groups

# Batches of fewer rows are computed whole to the end: a second loop would take longer to compile than it saves.
_MIN_ROWS = 16


@config_class
class GenerationConfig:
    """Length of continuations, and how to search for them. The default is greedy decoding.

    Attributes:
      max_new_tokens: Limit of the length.
      num_beams: Beams of beam search; 1 for greedy decoding or sampling. T5 uses 4 for its long tasks (Raffel et al.
        2020, §3.1.2).
      length_penalty_alpha: Beam search divides scores by ``((5 + length) / 6) ** alpha`` (Wu et al. 2016,
        https://arxiv.org/abs/1609.08144, eq. 14).
      temperature: Divides logits before sampling; 0 for greedy decoding.
      top_k: Samples from the best ``top_k`` tokens; ``None`` for all.
      top_p: Samples from the smallest set of tokens with this probability; ``None`` for all.
      seed: Seed of the draws.
      ctc_weight: Share of CTC in the scores of a text for speech, of models with its head; SpeechT5 decodes by both
        (Ao et al. 2022, §3.2). The blank is the last id. 0 for the decoder alone.
    """

    max_new_tokens: int = 64
    num_beams: int = 1
    length_penalty_alpha: float = 0.6
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    ctc_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.num_beams < 1:
            raise ValueError(
                f"max_new_tokens={self.max_new_tokens} and num_beams={self.num_beams} must be at least 1"
            )
        check_temperature(self.temperature)
        check_truncation(self.top_k, self.top_p)
        if self.temperature > 0 and self.num_beams > 1:
            raise ValueError("sampling (temperature > 0) and beam search (num_beams > 1) exclude each other")
        JointCtc(weight=self.ctc_weight)  # raises for a weight that is no share
        if self.temperature > 0 and self.ctc_weight > 0:
            raise ValueError("sampling (temperature > 0) reads no CTC; leave ctc_weight out")
        if self.temperature == 0:
            refuse_unused(
                self, "top_k", "top_p", because="temperature=0 draws nothing", advice="give a temperature"
            )
        if self.num_beams == 1:
            refuse_unused(self, "length_penalty_alpha", because="num_beams=1", advice="give more beams")

    @property
    def is_greedy(self) -> bool:
        """True for the default search, whatever the length."""
        return self.num_beams == 1 and self.temperature == 0 and self.ctc_weight == 0

    def without_effect(self, changes: Mapping[str, Any]) -> dict[str, object]:
        """Return the defaults of fields that have no effect in the search that changes choose.

        Args:
          changes: New values of some fields, such as one beam.
        """
        default = {each.name: each.default for each in fields(GenerationConfig)}
        names: list[str] = []
        if changes.get("num_beams", 1) > 1:
            names.append("temperature")
        if changes.get("temperature", 0) > 0:
            names += ["num_beams", "ctc_weight"]
        search = {name: default[name] for name in names} | dict(changes)
        if search.get("num_beams", self.num_beams) == 1:
            names.append("length_penalty_alpha")
        if search.get("temperature", self.temperature) == 0:
            names += ["top_k", "top_p"]
        return {name: default[name] for name in names}

    def search_settings(self, end_ids: Sequence[int]) -> dict[str, Any]:
        """Return arguments of ``beam_search`` or ``sample``."""
        common = {"max_new_tokens": self.max_new_tokens, "eos_token_id": tuple(end_ids)}
        if self.num_beams == 1:
            return common | {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        return common | {
            "num_beams": self.num_beams,
            "length_penalty": T5LengthPenalty(self.length_penalty_alpha),
            "early_stopping": "never",  # as in T5X: continue while a beam could still win at the length limit
        }


def continue_prompts(
    model: Any,
    prompts: jax.Array,
    mask: jax.Array,
    key: Any,
    *,
    start_id: int,
    settings: dict[str, Any],
    num_last_inputs: int | None = None,
) -> tuple[jax.Array, jax.Array | None]:
    """Encode prompts or read them into the cache, then generate their continuations; for ``jax.jit``.

    Args:
      model: A model that can generate.
      prompts: int32 [B, M]; an encoder-decoder encodes them, a decoder continues them.
      mask: int32 [B, M]; 1 where a prompt has a token.
      key: Random key for sampling; without it, or at temperature 0, decoding is greedy.
      start_id: First id that an encoder-decoder's decoder reads; T5's is 0. The mask of a generative encoder.
      settings: Arguments of ``beam_search``, if ``num_beams`` is among them, else of ``sample``.
      num_last_inputs: See ``decode_until_done``.

    Returns:
      New tokens, int32 [B, (num_return_sequences,) max_new_tokens], and the scores of beams.
    """
    model = unrolled(model)
    first, cache = model.prefill(prompts, mask, max_new_tokens=settings["max_new_tokens"], start_id=start_id)
    settings = settings | {"keep_inputs": model.keep_inputs, "num_last_inputs": num_last_inputs}
    if (processors := settings.get("processors")) is not None:
        settings["before"] = processors.history_before(prompts, mask, first)
    if "num_beams" in settings:
        settings["are_log_probs"] = getattr(model, "gives_log_probs", False)
        beams = beam_search(model.decode_step, model.reorder_cache, cache, start_tokens=first, **settings)
        return beams.tokens, beams.scores
    return sample(model.decode_step, cache, key=key, start_tokens=first, **settings).tokens, None


class Generator:
    """Generates from a model, compiled once for each configuration and shape.

    Rows that end make room for the next prompts (``RollingBatch``). Beams, and models whose rows must begin together,
    continue one batch after another.

    Args:
      graphdef: The model's structure.
      mesh: Devices.
      is_decoder: Prompts are padded on the left, as decoders need them.
      start_id: See ``continue_prompts``.
    """

    def __init__(self, graphdef: nnx.GraphDef, mesh: Mesh, *, is_decoder: bool, start_id: int = 0):
        def generate(
            params: Parameters,
            prompts: jax.Array,
            mask: jax.Array,
            key: jax.Array | None,
            *,
            config: GenerationConfig,
            end_ids: tuple[int, ...],
        ) -> jax.Array:
            model: Any = parameters.merge(graphdef, params)
            if config.ctc_weight > 0:
                model = JointCtcDecoder(model, JointCtc(weight=config.ctc_weight, end_ids=end_ids))
            tokens, scores = continue_prompts(
                model,
                prompts,
                mask,
                key,
                start_id=start_id,
                settings=config.search_settings(end_ids),
                num_last_inputs=_num_last_inputs(len(prompts), mesh),
            )
            return tokens if scores is None else tokens[:, 0]

        self._graphdef, self._mesh = graphdef, mesh
        self._is_decoder, self._start_id = is_decoder, start_id
        self._rolls: bool | None = None
        self._rolling: dict[tuple[object, ...], RollingBatch] = {}
        self._generate = jax.jit(
            generate, static_argnames=("config", "end_ids"), out_shardings=replicated(mesh)
        )

    def __call__(
        self,
        params: Parameters,
        prompts: Sequence[Ids],
        config: GenerationConfig,
        *,
        end_ids: Sequence[int],
        batch_size: int,
        limit: int,
        key: jax.Array | None = None,
    ) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each prompt once it is done, and the ids that follow it, before the first of ``end_ids``.

        Args:
          params: The model's weights, on the mesh.
          prompts: Ids of prompts of at most ``limit`` tokens.
          config: Length and search.
          end_ids: Ids that end a continuation.
          batch_size: The most rows of the compiled program.
          limit: Longest prompt in tokens.
          key: Random key of the draws; that of ``config.seed`` if not given.
        """
        keys = None
        if config.temperature > 0:
            keys = row_keys(jax.random.key(config.seed) if key is None else key, len(prompts))
        if self._rolls is None:
            self._rolls = not _are_recordings(prompts) and rolls(self._graphdef, params)
        if self._rolls and config.num_beams == 1:
            yield from self._roll(params, prompts, config, keys, tuple(end_ids), batch_size, limit)
            return
        config = replace(config, seed=0)  # one program for all seeds
        for indices in length_batches([len(ids) for ids in prompts], batch_size):
            rows = [prompts[index] for index in indices]
            length = bucket_length(max(map(len, rows)), limit)
            padded = pad_prompts(rows, length=length, batch_size=batch_size, on_the_left=self._is_decoder)
            placed = place_rows(padded, self._mesh)
            of_rows = None if keys is None else keys[np.resize(indices, batch_size)]
            with jax.set_mesh(self._mesh):  # by which kernels are split
                tokens = self._generate(params, *placed, of_rows, config=config, end_ids=tuple(end_ids))
            tokens = np.asarray(tokens)
            for index, row in zip(indices, tokens.tolist(), strict=False):
                yield index, _before_end(row, end_ids)

    def _roll(
        self,
        params: Parameters,
        prompts: Sequence[Ids],
        config: GenerationConfig,
        keys: jax.Array | None,
        end_ids: tuple[int, ...],
        batch_size: int,
        limit: int,
    ) -> Iterator[tuple[int, list[int]]]:
        is_drawn = config.temperature > 0
        settings = (end_ids, batch_size, limit, is_drawn)
        if settings not in self._rolling:
            fewer = batch_size // 4
            self._rolling[settings] = RollingBatch(
                self._graphdef,
                self._mesh,
                row_counts=(fewer, batch_size) if batch_size >= _MIN_ROWS else (batch_size,),
                is_decoder=self._is_decoder,
                start_id=self._start_id,
                end_ids=end_ids,
                draws=is_drawn,
                limit=limit,
            )
        rolling = self._rolling[settings]
        key_data = None if keys is None else np.asarray(jax.random.key_data(keys))
        for indices in length_batches([len(ids) for ids in prompts], batch_size):
            for index in indices:
                row = PromptRow(
                    prompts[index],
                    config.max_new_tokens,
                    temperature=config.temperature,
                    top_k=config.top_k or 0,
                    top_p=1.0 if config.top_p is None else config.top_p,
                    key=None if key_data is None else key_data[index],
                )
                rolling.add(index, row)
        try:
            while rolling.num_prompts:
                for written in rolling.advance(params):
                    yield written.name, _before_end(written.ids, end_ids)
        finally:
            rolling.clear()


def _are_recordings(prompts: Sequence[Ids]) -> bool:
    return any(isinstance(prompt, Recording) for prompt in prompts)


def _num_last_inputs(num_rows: int, mesh: Mesh) -> int | None:
    """Return a quarter of the rows; ``None`` for few rows, and where the mesh would not divide it."""
    num_last = num_rows // 4
    return num_last if num_rows >= _MIN_ROWS and num_last % row_groups(mesh) == 0 else None


def _before_end(ids: list[int], end_ids: Sequence[int]) -> list[int]:
    return ids[: next((index for index, token_id in enumerate(ids) if token_id in end_ids), len(ids))]
