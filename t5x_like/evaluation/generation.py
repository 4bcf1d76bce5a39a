"""How predictions are drawn from a model: greedy, sampled or by beam search."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.inference.beam_search import T5LengthPenalty, beam_search
from t5x_like.inference.sampling import sample
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.partitioning.shard import replicated


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How long, and how. ``temperature`` 0 with one beam is greedy decoding.

    ``length_penalty_alpha`` is T5's (Wu et al. 2016, https://arxiv.org/abs/1609.08144, eq. 14): scores are divided by
    ``((5 + length) / 6) ** alpha``. T5 decodes its long tasks with 4 beams and 0.6 (Raffel et al. 2020, §3.1.2).
    """

    max_new_tokens: int = 64
    num_beams: int = 1
    length_penalty_alpha: float = 0.6
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.num_beams < 1:
            raise ValueError(
                f"max_new_tokens={self.max_new_tokens} and num_beams={self.num_beams} must be at least 1"
            )
        if self.temperature < 0:
            raise ValueError(
                f"temperature is {self.temperature}; give 0 for greedy decoding or a positive number"
            )
        if self.temperature > 0 and self.num_beams > 1:
            raise ValueError("sampling (temperature > 0) and beam search (num_beams > 1) exclude each other")


def make_generator(
    graphdef: Any,
    generation: Generation,
    mesh: Mesh,
    *,
    eos_token_id: int | tuple[int, ...],
    start_token_id: int = 0,
    prompts_follow: int | None = None,
) -> Callable[[Any, Batch], np.ndarray]:
    """The compiled function ``(params, batch) -> ids`` that reads the encoder streams of ``batch``, on the mesh.

    The answer is int32 [B, max_new_tokens], padded with 0 after the end of sequence, whole on every process.
    """

    def generate(params: Any, batch: Batch) -> jax.Array:
        model = parameters.merge(graphdef, params)
        return decode(
            model,
            batch,
            generation,
            eos_token_id=eos_token_id,
            start_token_id=start_token_id,
            prompts_follow=prompts_follow,
        )

    compiled = jax.jit(generate, out_shardings=replicated(mesh))
    return lambda params, batch: np.asarray(compiled(params, batch))


def decode(
    model: Any,
    batch: Batch,
    generation: Generation,
    *,
    eos_token_id: int | tuple[int, ...],
    start_token_id: int = 0,
    prompts_follow: int | None = None,
) -> jax.Array:
    """Reads the encoder's stream, then writes one token at a time: int32 [B, max_new_tokens].

    A decoder goes on from it as from a prompt, before which it reads ``prompts_follow``, if given; an encoder-decoder
    starts with ``start_token_id``: T5's is padding, 0.
    """
    inputs, segment_ids = batch.encoder_input_tokens, batch.encoder_segment_ids
    if isinstance(model, EncoderDecoder):
        encoded = model.encode(inputs, segment_ids)
        cache = model.start_cache(encoded, segment_ids, max_length=generation.max_new_tokens)
        start_tokens = jnp.full(encoded.shape[0], start_token_id, jnp.int32)
    else:
        if prompts_follow is not None:
            inputs = jnp.pad(inputs, ((0, 0), (1, 0)), constant_values=prompts_follow)
            segment_ids = (
                None if segment_ids is None else jnp.pad(segment_ids, ((0, 0), (1, 0)), constant_values=1)
            )
        start_tokens, cache = model.start_cache(inputs, segment_ids, max_new_tokens=generation.max_new_tokens)
    if generation.num_beams > 1:
        return beam_search(
            model.decode_step,
            model.reorder_cache,
            cache,
            start_tokens=start_tokens,
            max_new_tokens=generation.max_new_tokens,
            eos_token_id=eos_token_id,
            num_beams=generation.num_beams,
            length_penalty=T5LengthPenalty(generation.length_penalty_alpha),
            early_stopping="never",  # T5X's rule: go on while a beam could still win at the length limit
        ).tokens[:, 0]
    return sample(
        model.decode_step,
        cache,
        start_tokens=start_tokens,
        max_new_tokens=generation.max_new_tokens,
        eos_token_id=eos_token_id,
        key=jax.random.key(generation.seed),
        temperature=generation.temperature,
        top_k=generation.top_k,
        top_p=generation.top_p,
    ).tokens
