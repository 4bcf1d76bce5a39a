"""Stack of blocks. Weights of equal blocks are stacked along a leading layers axis and run by one scan."""

from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.export
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.automatic_choices import note_choice
from t5x_like.model.layers.attention_implementations import (
    IN_BLOCKS,
    AttentionChoice,
    AttentionImplementation,
    choose_attention,
)
from t5x_like.model.layers.block import Block, BlockConfig, BlockOutput
from t5x_like.model.layers.disentangled_attention import DistanceTable, DistanceTableConfig
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.kv_cache import KeyValueCache, LayerCache, num_slots
from t5x_like.model.layers.layer_pattern import LayerPattern, find_layer_pattern
from t5x_like.model.layers.layer_scan import LayerLoop, scan_layers
from t5x_like.model.layers.linear import Normal, set_adapter_keys
from t5x_like.model.layers.local_attention import indices_in_blocks
from t5x_like.model.layers.masks import as_array
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.positions import (
    RelativeBias,
    RelativeKeys,
    RelativePositions,
    relative_positions_of,
)
from t5x_like.model.layers.remat import Remat, with_remat
from t5x_like.model.layers.routing_sums import RoutingSums, add_routing
from t5x_like.model.layers.self_attention import AttentionContext, local_length
from t5x_like.model.layers.sharing import Sharing, share, shared_block
from t5x_like.model.layers.transient_global import globals_of
from t5x_like.partitioning.activations import (
    constrain_tokens,
    num_context_parts,
    num_parts_of_heads,
    num_parts_of_rows,
)

Model = TypeVar("Model", bound=nnx.Module)


@config_class
class StackConfig:
    """Configuration of a stack.

    Attributes:
      blocks: Block of each layer, from the first on.
      relative_positions: One table of relative positions for all layers: of numbers (T5), of keys (SpeechT5's encoder)
        or of vectors (DeBERTa); ``None`` for none.
      final_norm: Norm after the last block; ``None`` for none.
      output_dropout: Dropout of the stack's output (T5).
      sharing: Weights that layers share (ALBERT); ``None`` gives each its own.
      remat: Values that the backward pass computes again, to save memory.
      scan_layers: Layers run in a loop; ``False`` writes one after another into a longer program.
      attention_implementation: Computation of attention to whole rows. Local attention has its own.
    """

    blocks: tuple[BlockConfig, ...]
    relative_positions: RelativePositions | DistanceTableConfig | None = None
    final_norm: NormConfig | None = None
    output_dropout: bool = False
    sharing: Sharing | None = None
    remat: Remat = "none"
    scan_layers: LayerLoop = "auto"
    attention_implementation: AttentionChoice = "auto"

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("a stack of no layers; give at least 1")
        if self.sharing is not None:
            self.sharing.check(self.blocks)
        kinds = {(block.attention.window, block.transient_global) for block in self.blocks}
        if len(kinds) > 1 and (
            self.relative_positions or any(block.transient_global for block in self.blocks)
        ):
            raise ValueError(
                "layers that share a table of relative positions must see equally far; these differ"
            )

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.blocks)

    @property
    def model_dim(self) -> int:
        """Width of the residual stream."""
        return self.blocks[0].model_dim

    @property
    def depends_on_places(self) -> bool:
        """True if attention depends on the places of tokens in the row, and not only on their positions."""
        windows = any(block.attention.window is not None for block in self.blocks)
        return windows or self.relative_positions is not None

    @property
    def layer_pattern(self) -> LayerPattern:
        """Layers of each slot of ``Stack.layers``."""
        return find_layer_pattern(self.blocks)


class StackOutput(NamedTuple):
    """Outputs of a stack.

    Attributes:
      output: Output of the last block, normalized.
      layer_caches: Updated caches, while decoding.
      routing: Sums over the routers of all layers; ``None`` without experts.
    """

    output: Float[Array, "B L D"]
    layer_caches: tuple[LayerCache, ...] | None
    routing: RoutingSums | None

    def after(self, num_tokens: int) -> "StackOutput":
        """Return the outputs without those of the first tokens, which were virtual."""
        return self._replace(output=self.output[:, num_tokens:]) if num_tokens else self


class _Layer(NamedTuple):
    """Inputs of the layers of a slot, with a leading layers axis."""

    block: Block | None
    number: Array
    cache: LayerCache | None
    key: Any


class _LayerOutput(NamedTuple):
    own: KeyValueCache | None
    routing: RoutingSums | None
    activations: dict[str, Array]


class Stack(nnx.Module):
    """An encoder or a decoder without embeddings. ``layers`` has the stacked block of each slot, by number."""

    def __init__(self, config: StackConfig, *, key: Key[Array, ""]):
        layers_key, bias_key = jax.random.split(key)
        keys = jax.random.split(layers_key, len(config.blocks))

        def build(layers: tuple[int, ...]) -> Block:
            block = config.blocks[layers[0]]
            stacked = jax.vmap(lambda key: Block(block, key=key))(keys[jnp.asarray(layers)])
            return stacked if config.sharing is None else share(stacked, config.sharing)

        # A dict and not a list: split and merged again, the tenth of a list would come after the first.
        self.layers = nnx.Dict(
            {str(slot): build(layers) for slot, layers in enumerate(config.layer_pattern.slots)}
        )
        self.layer_pattern = config.layer_pattern
        relative, block = config.relative_positions, config.blocks[0]
        heads = block.attention.num_heads
        self.distance_table = (
            DistanceTable(relative, config.model_dim, key=bias_key, init=Normal(0.02))
            if isinstance(relative, DistanceTableConfig)
            else None
        )
        self.relative_bias = relative_positions_of(
            None if isinstance(relative, DistanceTableConfig) else relative,
            num_heads=heads,
            head_dim=block.attention.head_dim,
            key=bias_key,
        )
        summaries = block.transient_global
        self.global_bias = summaries and RelativeBias(
            summaries.positions, num_heads=heads, key=jax.random.fold_in(bias_key, 1)
        )
        self.final_norm = None if config.final_norm is None else config.final_norm.build(config.model_dim)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        context: AttentionContext,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> StackOutput:
        """Run whole sequences.

        Args:
          x: Inputs of the first block.
          context: Mask, and positions; without positions they count from 0.
          dropout_key: ``None`` for no dropout.
        """
        context = self.prepared(x, context, is_dropping=dropout_key is not None)
        return self._run(x, context, None, dropout_key)

    def prepared(
        self, x: Float[Array, "B L D"], context: AttentionContext, *, is_dropping: bool
    ) -> AttentionContext:
        """Return the context with the masks, biases and computation that all blocks of whole sequences share.

        Args:
          x: Inputs of the first block.
          context: Mask, and positions; without positions they count from 0.
          is_dropping: Whether dropout is computed.
        """
        indices = jnp.arange(x.shape[1])
        positions = context.positions
        positions = jnp.broadcast_to(indices, x.shape[:2]) if positions is None else positions
        block, summaries = self.config.blocks[0], None
        has_globals = block.transient_global is not None
        length = local_length(block.attention, x.shape[1], context, has_globals=has_globals)
        queries, keys = (indices, indices) if length is None else indices_in_blocks(length)
        if block.transient_global is not None:
            assert context.segment_ids is not None
            assert self.global_bias is not None
            summaries = globals_of(context.segment_ids, block.transient_global, self.global_bias)
        implementation = self._implementation(x, context, is_dropping=is_dropping)
        if implementation == "plain":  # masks of all layers are made once
            encoded = context.encoded
            context = context._replace(
                mask=as_array(context.mask, num_queries=x.shape[1], num_keys=x.shape[1]),
                encoded_mask=as_array(
                    context.encoded_mask,
                    num_queries=x.shape[1],
                    num_keys=0 if encoded is None else encoded.shape[1],
                ),
            )
        by_distance = implementation in IN_BLOCKS and length is None
        table = self.distance_table
        return context._replace(
            bias=self._bias(queries, keys, context, by_distance=by_distance),
            distances=None if table is None else table.of_row(x.shape[1], x.dtype),
            implementation=implementation,
            global_blocks=summaries,
            positions=positions,
        )

    def step(
        self, x: Float[Array, "B L D"], caches: tuple[LayerCache, ...], context: AttentionContext
    ) -> StackOutput:
        """Run tokens while decoding.

        Args:
          x: Inputs of the first block for the tokens whose first is at ``context.index``.
          caches: Keys and values of earlier tokens.
          context: Mask over the cache, and times and positions if they differ from places in it.
        """
        assert context.index is not None
        queries = context.index + jnp.arange(x.shape[1])
        assert context.beam_indices is not None
        times = context.times
        if times is None:
            times = jnp.arange(num_slots(caches[0], context.beam_indices))
        if context.positions is None:
            context = context._replace(positions=jnp.broadcast_to(queries, x.shape[:2]))
        bias = self._bias(queries, times, context, by_distance=False)
        table = self.distance_table
        distances = None if table is None else table.between(queries, times, x.dtype)
        context = context._replace(times=times, bias=bias, distances=distances)
        return self._run(x, context, caches, None)

    def empty_caches(
        self, batch_size: int, max_length: int, encoded: Float[Array, "B M D"] | None, dtype: jnp.dtype
    ) -> tuple[LayerCache, ...]:
        """Return empty caches, with cross-attention's keys and values of ``encoded``.

        Args:
          batch_size: Number of rows.
          max_length: Places for tokens.
          encoded: Output of the encoder; ``None`` for a decoder alone.
          dtype: Type of keys and values.
        """

        def empty(block: Block, layers: tuple[int, ...]) -> LayerCache:
            widths = block.config.attention.cache_widths
            shapes = [(len(layers), batch_size, heads, max_length, width) for heads, width in widths]
            own = KeyValueCache(*(jnp.zeros(shape, dtype) for shape in shapes))
            if encoded is None:
                return LayerCache(own, None)
            encode = jax.vmap(lambda block: block.cross_attention.project_keys_values(encoded))
            return LayerCache(own, KeyValueCache.of(encode(block)))

        caches = tuple(map(empty, self._blocks(), self.layer_pattern.slots))
        num_leading = self.layer_pattern.num_leading
        return (*map(_first, caches[:num_leading]), *caches[num_leading:])

    def unroll(self) -> None:
        """Give each layer a slot of its own; see :func:`unrolled`. Layers that share weights stay as they are."""
        if self.config.sharing is not None:
            return
        slots = zip(self._blocks(), self.layer_pattern.slots, strict=True)
        blocks = {
            layer: jax.tree.map(lambda array, index=index: array[index : index + 1], block)
            for block, layers in slots
            for index, layer in enumerate(layers)
        }
        self.layers = nnx.Dict({str(layer): blocks[layer] for layer in sorted(blocks)})
        self.layer_pattern = LayerPattern(num_leading=len(blocks), period=0, num_repeats=0)

    def _blocks(self) -> list[Block]:
        return [self.layers[str(slot)] for slot in range(len(self.layers))]

    def _implementation(
        self, x: Array, context: AttentionContext, *, is_dropping: bool
    ) -> AttentionImplementation:
        """Return the computation of attention: blocks wherever the mesh splits rows along their length.

        Probabilities that are captured or edited are computed plainly.

        Args:
          x: Inputs of the first block.
          context: Masks, and the encoder's output.
          is_dropping: Whether dropout is computed.

        Raises:
          ValueError: Another computation was asked for there.
        """
        if named_activations.needs_probabilities():
            return "plain"
        implementation, parts = self.config.attention_implementation, num_context_parts(*x.shape[:2])
        if self.distance_table is not None or isinstance(self.config.relative_positions, RelativeKeys):
            if parts > 1 or implementation not in ("auto", "plain"):
                raise ValueError(
                    f"attention_implementation={implementation!r} with context={parts}: scores with vectors of "
                    "distances are only computed plainly, on a mesh with context=1; set 'plain'"
                )
            return "plain"
        if implementation in ("pallas", "cudnn") and parts > 1:
            raise ValueError(
                f"attention_implementation={implementation!r} on a mesh with context={parts}: rows that are split by "
                "length need 'blockwise' (or 'plain', which is the same there)"
            )
        if parts > 1:
            return "blockwise"
        if implementation != "auto":
            return implementation
        implementation, reason = self._chosen(x, context, is_dropping=is_dropping)
        note_choice("attention_implementation", implementation, reason)
        return implementation

    def _chosen(
        self, x: Array, context: AttentionContext, *, is_dropping: bool
    ) -> tuple[AttentionImplementation, str]:
        """Choose the computation of attention, and give the reason; arguments are those of ``_implementation``."""
        lengths = [x.shape[1]] if context.encoded is None else [x.shape[1], context.encoded.shape[1]]
        if any(map(jax.export.is_symbolic_dim, (x.shape[0], *lengths))):
            return "plain", "in a program for any number of rows and tokens"
        shapes = []
        for block in self._blocks():
            rate = block.config.dropout_rate if is_dropping else 0.0
            attended = [(block.self_attention, x.shape[1], context.mask)]
            if block.cross_attention is not None and context.encoded is not None:
                attended.append((block.cross_attention, context.encoded.shape[1], context.encoded_mask))
            shapes += [
                attention.config.shape(
                    x.dtype,
                    (x.shape[1], num_keys),
                    dropout_rate=rate,
                    has_prefix=attention.prefix is not None,
                    mask=mask,
                )
                for attention, num_keys, mask in attended
            ]
        heads = max(block.attention.num_heads for block in self.config.blocks)
        num_kept = self.config.num_layers if self.config.remat == "none" else 1
        on_device = len(x) // num_parts_of_rows(len(x)) * heads // num_parts_of_heads(heads)
        return choose_attention(shapes, num_scores=num_kept * on_device * x.shape[1] * sum(lengths))

    def _bias(self, queries: Array, keys: Array, context: AttentionContext, *, by_distance: bool) -> Any:
        if self.relative_bias is None:
            return context.bias
        return self.relative_bias.between(
            queries, keys, bidirectional=context.bidirectional, by_distance=by_distance
        )

    def _run(
        self,
        x: Array,
        context: AttentionContext,
        caches: tuple[LayerCache, ...] | None,
        dropout_key: Key[Array, ""] | None,
    ) -> StackOutput:
        rate = self.config.blocks[0].dropout_rate
        x = dropout(x, rate, fold(dropout_key, 1), shared_dim=1)
        x, outputs = self._scan(x, context, self._layers(caches, fold(dropout_key, 0)))
        named_activations.keep_layers(self.layer_pattern.slots, [output.activations for output in outputs])
        x = x if self.final_norm is None else self.final_norm(x)
        if self.config.output_dropout:
            x = dropout(x, rate, fold(dropout_key, 2), shared_dim=1)
        return StackOutput(
            output=named_activations.observe_output(x, len(self.config.blocks)),
            layer_caches=caches
            and tuple(cache._replace(own=output.own) for cache, output in zip(caches, outputs, strict=True)),
            routing=add_routing(*(jax.tree.map(jnp.sum, output.routing) for output in outputs)),
        )

    def _layers(
        self, caches: tuple[LayerCache, ...] | None, dropout_key: Key[Array, ""] | None
    ) -> list[_Layer]:
        """Return the layers of every slot, with their caches and dropout keys."""
        keys = None if dropout_key is None else jax.random.split(dropout_key, len(self.config.blocks))
        slots = zip(self._blocks(), self.layer_pattern.slots, strict=True)
        return [
            _Layer(
                block=block if self.config.sharing is None else None,
                number=jnp.asarray(numbers),
                cache=None if caches is None else caches[slot],
                key=None if keys is None else keys[jnp.asarray(numbers)],
            )
            for slot, (block, numbers) in enumerate(slots)
        ]

    def _scan(
        self, x: Array, context: AttentionContext, layers: list[_Layer]
    ) -> tuple[Array, list[_LayerOutput]]:
        """Run the leading layers one by one, and the repeating pattern by a scan."""
        run_layer = with_remat(partial(self._run_layer, context=context), self.config.remat)

        def run_pattern(x: Array, pattern: list[_Layer]) -> tuple[Array, list[_LayerOutput]]:
            outputs = []
            for layer in pattern:
                x, output = run_layer(x, layer)
                outputs.append(output)
            return x, outputs

        num_leading = self.layer_pattern.num_leading
        leading = [
            _first(layer._replace(cache=None))._replace(cache=layer.cache) for layer in layers[:num_leading]
        ]
        x, leading_outputs = run_pattern(x, leading)
        scanned_outputs: list[_LayerOutput] = []
        if layers[num_leading:]:
            x, scanned_outputs = scan_layers(
                run_pattern, x, layers[num_leading:], loop=self.config.scan_layers
            )
        return x, [
            *(
                jax.tree.map(lambda array: array[None], output._replace(own=None))._replace(own=output.own)
                for output in leading_outputs
            ),
            *scanned_outputs,
        ]

    def _run_layer(self, x: Array, layer: _Layer, *, context: AttentionContext) -> tuple[Array, _LayerOutput]:
        block, sharing = layer.block, self.config.sharing
        if block is None:
            assert sharing is not None
            block = shared_block(self._blocks()[0], sharing, layer.number)
        set_adapter_keys(block, layer.key)
        with named_activations.layer(layer.number, len(self.config.blocks)) as activations:
            x = named_activations.observe(named_activations.HIDDEN_STATES, x)
            ran: BlockOutput = block(constrain_tokens(x), context, cache=layer.cache, dropout_key=layer.key)
            x = named_activations.observe("layer_outputs", ran.x)
        # Keys and values of the encoder stay: returned from the scan they would be copied at every token.
        own = None if ran.cache is None else ran.cache.own
        return x, _LayerOutput(own, ran.routing, activations)


def unrolled(model: Model) -> Model:
    """Return a model that computes the same without loops over layers, for a loop over tokens inside jit.

    A loop over layers copies the weights and the cache of each layer, at every token. Without it they are read in
    place. The program grows with the number of layers.
    """
    model = nnx.merge(*nnx.split(model))  # other modules around the same arrays
    for _, stack in modules_of(model, Stack):
        stack.unroll()
    return model


def _first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda array: array[0], tree)
