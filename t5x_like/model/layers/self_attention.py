"""Self-attention of a block: with or without a cache; full, in a sliding window, or in blocks."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model import named_activations
from t5x_like.model.layers.attend import KeysValues
from t5x_like.model.layers.attention import Attention
from t5x_like.model.layers.attention_implementations import IN_BLOCKS, AttentionImplementation
from t5x_like.model.layers.disentangled_attention import DistanceVectors
from t5x_like.model.layers.kv_cache import LayerCache, between_beams, visible_beams, write_at
from t5x_like.model.layers.latent_attention import AttentionSlot, LatentAttention
from t5x_like.model.layers.local_attention import block_length, indices_in_blocks, local_attention
from t5x_like.model.layers.masks import AttentionMask, as_mask, combine_masks, window_mask
from t5x_like.model.layers.positions import DistanceBias, DistanceKeys, RelativeBias
from t5x_like.model.layers.transient_global import GlobalBlocks, TransientGlobal


class AttentionContext(NamedTuple):
    """Inputs that all blocks of a stack share.

    Attributes:
      mask: ``False`` prevents attention; broadcasts to [B, 1, L, M].
      bias: Added to scores; broadcasts to [B, H, L, M]. Or keys of distances, whose products are added.
      distances: Vectors of distances, which scores depend on.
      implementation: Computation of attention that is not local.
      real: True for tokens that are not padding.
      segment_ids: Segments of tokens, given where they are all that ``mask`` contains.
      global_blocks: Inputs of transient-global attention.
      positions: Positions of the tokens.
      bidirectional: Relative positions distinguish earlier from later keys.
      encoded: The encoder's output, for cross-attention.
      encoded_mask: Mask of cross-attention.
      index: Time of the first token; ``None`` without a cache.
      times: Time of the token in each slot of a cache; a token is written in the slot of its time, modulo their number.
      beam_indices: Beams whose keys each beam sees in a cache; see ``DecoderCache``.
    """

    mask: AttentionMask | Bool[Array, "..."] | None = None
    bias: DistanceBias | DistanceKeys | Float[Array, "..."] | None = None
    distances: DistanceVectors | None = None
    implementation: AttentionImplementation = "plain"
    real: Bool[Array, "B L"] | None = None
    segment_ids: Int[Array, "B L"] | None = None
    global_blocks: GlobalBlocks | None = None
    positions: Int[Array, "B L"] | None = None
    bidirectional: bool = False
    encoded: Float[Array, "B M D"] | None = None
    encoded_mask: AttentionMask | Bool[Array, "..."] | None = None
    index: Int[Array, ""] | None = None
    times: Int[Array, " M"] | None = None
    beam_indices: Int[Array, "B J N"] | None = None


def segments_of(context: AttentionContext, shape: tuple[int, int]) -> Int[Array, "B L"]:
    """Return the examples of tokens; where a mask hides more than that, all real tokens count as one example.

    Args:
      context: Inputs of the blocks.
      shape: Rows and their length.
    """
    if context.segment_ids is not None:
        return context.segment_ids
    return jnp.ones(shape, jnp.int32) if context.real is None else context.real.astype(jnp.int32)


class SelfAttention(NamedTuple):
    """Self-attention made of a block's parts.

    Attributes:
      attention: Projections and scale.
      relative_bias: Relative positions of this layer alone; a stack's are in the context.
      transient_global: Summaries of blocks, for transient-global attention.
      dropout_rate: Dropout of attention weights.
    """

    attention: Attention | LatentAttention
    relative_bias: RelativeBias | None
    transient_global: TransientGlobal | None
    dropout_rate: float

    def __call__(
        self,
        x: Float[Array, "B L D"],
        context: AttentionContext,
        cache: LayerCache | None,
        dropout_key: Key[Array, ""] | None,
    ) -> tuple[Float[Array, "B L D"], LayerCache | None]:
        """Return the output, and the cache with the keys and values of ``x``."""
        dropping = {"dropout_rate": self.dropout_rate, "dropout_key": dropout_key}
        config, has_globals = self.attention.config, self.transient_global is not None
        length = local_length(config, x.shape[1], context, has_globals=has_globals)
        if length is not None:
            assert isinstance(self.attention, Attention)
            return self._locally(self.attention, x, context, length, dropping), cache
        keys_values = self.attention.project_keys_values(x, context.positions)
        if cache is not None:
            return self._step(x, context, cache, keys_values)
        indices = jnp.arange(x.shape[1]), jnp.arange(x.shape[1])
        with named_activations.scope("self_attention"):
            output = self.attention(
                x,
                keys_values,
                positions=context.positions,
                mask=self._mask(context, *indices),
                bias=self._bias(context, *indices, by_distance=context.implementation in IN_BLOCKS),
                **_with_distances(context.distances),
                implementation=context.implementation,
                **dropping,
            )
        return output, None

    def _step(
        self, x: Float[Array, "R L D"], context: AttentionContext, cache: LayerCache, new: KeysValues
    ) -> tuple[Float[Array, "R L D"], LayerCache]:
        """Write new keys and values, and attend to all in the cache: the beams of an input are queries of one row."""
        index, beam_indices, positions = context.index, context.beam_indices, context.positions
        assert index is not None
        assert beam_indices is not None
        assert context.times is not None
        length, num_keys = x.shape[1], len(context.times)
        cache = write_at(cache, new, index % num_keys, beam_indices)
        indices = jnp.arange(length) + index, context.times
        mask, bias = self._mask(context, *indices), self._bias(context, *indices, by_distance=False)
        assert not isinstance(mask, AttentionMask), "masks over a cache are arrays"
        distances = context.distances
        num_inputs, num_beams, num_own = beam_indices.shape
        if num_beams > 1:
            visible = visible_beams(beam_indices, num_queries=length, num_shared=num_keys - num_own)
            mask = visible if mask is None else between_beams(mask, beam_indices) & visible
            bias = None if bias is None else between_beams(bias, beam_indices)
            if distances is not None and distances.by_pair is not None:
                distances = distances._replace(by_pair=between_beams(distances.by_pair, beam_indices))
        with named_activations.scope("self_attention"):
            output = self.attention(
                x.reshape(num_inputs, -1, x.shape[-1]),
                cache.own.keys_values,
                positions=None if positions is None else positions.reshape(num_inputs, -1),
                mask=mask,
                bias=bias,
                **_with_distances(distances),
            )
        return output.reshape(x.shape), cache

    def _locally(
        self,
        attention: Attention,
        x: Array,
        context: AttentionContext,
        length: int,
        dropping: dict[str, Any],
    ) -> Float[Array, "B L D"]:
        assert context.segment_ids is not None
        global_keys_values = None
        if self.transient_global is not None:
            assert context.global_blocks is not None
            global_keys_values = self.transient_global(x, attention, context.global_blocks)
        return local_attention(
            attention,
            x,
            context.segment_ids,
            block_length=length,
            positions=context.positions,
            bias=self._bias(context, *indices_in_blocks(length), by_distance=False),
            global_keys_values=global_keys_values,
            **dropping,
        )

    def _mask(self, context: AttentionContext, queries: Array, keys: Array) -> AttentionMask | Array | None:
        window, mask = self.attention.config.window, context.mask
        if window is None:
            return mask
        if context.implementation == "plain":
            assert not isinstance(mask, AttentionMask), "the stack has made an array of it"
            return combine_masks(mask, window_mask(queries, keys, window))
        return as_mask(mask)._replace(window=window)

    def _bias(self, context: AttentionContext, queries: Array, keys: Array, *, by_distance: bool) -> Any:
        if self.relative_bias is None:
            return context.bias
        return self.relative_bias.between(
            queries, keys, bidirectional=context.bidirectional, by_distance=by_distance
        )


def local_length(
    config: AttentionSlot, length: int, context: AttentionContext, *, has_globals: bool
) -> int | None:
    """Return the length of local attention's blocks; ``None`` where attention is not cut into blocks.

    It isn't where its probabilities are captured or edited.

    Args:
      config: Attention of the layers.
      length: Length of the sequence.
      context: Segments.
      has_globals: Attention is transient-global.

    Raises:
      ValueError: Transient-global attention with a mask that is more than segments, or whose probabilities are to be
        captured or edited.
    """
    if named_activations.needs_probabilities():
        if has_globals:
            raise ValueError(
                "the probabilities of transient-global attention can't be captured or edited, because its keys are "
                "neighbors and summaries of blocks; leave self_attention/probabilities of this stack out"
            )
        return None
    if not has_globals:
        return block_length(config.window, length, context.segment_ids)
    if context.segment_ids is None:
        raise ValueError("transient-global attention can't obey an attention_mask; give segment ids alone")
    assert config.window is not None
    return config.window.left + 1


def _with_distances(distances: DistanceVectors | None) -> dict[str, Any]:
    """Return the argument of attention whose scores have terms with distances; latent attention has none."""
    return {} if distances is None else {"distances": distances}
