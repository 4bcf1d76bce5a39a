"""Rolling batches: a row whose text has ended makes room for the next prompt, while the other rows go on."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from t5x_like.inference.length_batches import Ids, pad_prompts, place_rows
from t5x_like.inference.logits_processors import NO_TOKEN, LogitsProcessors
from t5x_like.inference.sampling import Drawn, RowDraws, choose_by_row, next_tokens
from t5x_like.model import parameters
from t5x_like.model.layers.rolling_cache import can_roll, empty_rolling, join_rolling, resize_rolling
from t5x_like.model.layers.stack import unrolled
from t5x_like.model.layers.top_k import argmax
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.rules import BATCH_MESH_AXES
from t5x_like.partitioning.shard import batch_sharding, replicated, row_groups

_SHORTEST = 32  # tokens
_AHEAD = 8  # tokens of a row that there is always room for
_PARTS = 4  # of the rows of a batch that prompts join together


class PromptRow(NamedTuple):
    """A prompt that waits for a row.

    Attributes:
      ids: Token ids.
      max_new_tokens: The most tokens to write.
      temperature: Divides logits; 0 takes the best token.
      top_k: Keeps the best tokens; 0 for all.
      top_p: Then keeps the fewest tokens with this probability; 1 for all.
      key: Data of the random key, uint32 [K]; ``None`` where nothing is drawn.
    """

    ids: Ids
    max_new_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    key: np.ndarray | None = None


class WrittenRow(NamedTuple):
    """Tokens of a row so far.

    Attributes:
      name: Name of the prompt.
      ids: Ids, an end included.
      has_ended: No further ones follow.
    """

    name: Any
    ids: list[int]
    has_ended: bool


class _Sizes(NamedTuple):
    """Sizes of the arrays of a batch; programs are compiled for each.

    Attributes:
      rows: Rows.
      slots: Tokens that a row sees.
      encoded: Tokens of an encoder; 0 without one.
      new: Tokens that a row writes.
      before: Tokens that processors count before these.
    """

    rows: int = 0
    slots: int = _SHORTEST
    encoded: int = 0
    new: int = 0
    before: int = 0


class RollingBatch:
    """Rows that read and write together; each leaves when it ends, and the next prompt joins.

    Args:
      graphdef: Structure of the model.
      mesh: Devices.
      row_counts: Numbers of rows that programs are compiled for, in rising order. The last is the most.
      is_decoder: Prompts are continued, and not encoded.
      start_id: First id that an encoder-decoder's decoder reads.
      end_ids: Ids that end a text.
      draws: Rows may have a temperature.
      limit: Tokens of the longest prompt, to which prompts are padded at most; ``None`` for any.
      processors: Changes of logits; ``None`` for none.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        mesh: Mesh,
        *,
        row_counts: Sequence[int],
        is_decoder: bool,
        start_id: int,
        end_ids: Sequence[int],
        draws: bool,
        limit: int | None = None,
        processors: LogitsProcessors | None = None,
    ) -> None:
        self._mesh, self._is_decoder, self._limit, self._processors = mesh, is_decoder, limit, processors
        self._graphdef, self._start_id, self._end_ids = graphdef, start_id, tuple(end_ids)
        self._choose = choose_by_row if draws else lambda logits, _: argmax(logits)
        groups = row_groups(mesh)
        self._row_counts = [-(-count // groups) * groups for count in row_counts]
        self._few = max(self._row_counts[-1] // _PARTS // groups, 1) * groups
        self._join = jax.jit(self._joined, donate_argnums=1)
        self._decode = jax.jit(self._decoded, donate_argnums=1, out_shardings=(None, replicated(mesh)))
        self._resize = jax.jit(self._resized, static_argnames="sizes")
        self.programs: set[tuple[object, ...]] = set()  # shapes of those that were compiled
        self._waiting: deque[tuple[Hashable, PromptRow]] = deque()
        self._dropped: set[Hashable] = set()
        self._shapes: Any = None
        self.clear()

    @property
    def num_prompts(self) -> int:
        """Prompts that wait or are continued."""
        return len(self._waiting) + len(self._active)

    def add(self, name: Hashable, row: PromptRow) -> None:
        """Let a prompt wait for a row.

        Args:
          name: Its name in ``WrittenRow``.
          row: The prompt.
        """
        self._waiting.append((name, row))

    def drop(self, name: Hashable) -> None:
        """Leave a prompt out, whose progress is not wanted any more."""
        self._waiting = deque(each for each in self._waiting if each[0] != name)
        if name in self._active.values():
            self._dropped.add(name)

    def clear(self) -> None:
        """Forget all prompts, also after a failure on the device, and free the memory of their cache."""
        self._waiting.clear()
        self._dropped.clear()
        self._drawn: Drawn | None = None
        self._sizes = _Sizes()
        self._active: dict[int, Hashable] = {}
        self._rows: dict[int, PromptRow] = {}
        self._counts: dict[int, int] = {}  # new tokens of each active row

    def advance(self, params: Parameters, *, max_steps: int | None = None) -> list[WrittenRow]:
        """Continue the rows until there is room for waiting prompts, and return those that have ended.

        Args:
          params: Weights.
          max_steps: Tokens of a row at most; progress is then returned of all rows. ``None`` for any number.
        """
        self._admit(params)
        if not self._active:
            return []
        assert self._drawn is not None
        num_rows = self._sizes.rows
        dropped = np.zeros(num_rows, bool)
        for row, name in self._active.items():
            dropped[row] = name in self._dropped
        # Without waiting prompts, until fewer rows would do.
        fewer = max((count for count in self._row_counts if count < len(self._active)), default=0)
        left = num_rows - self._few if self._waiting else fewer
        num_ended = num_rows - max(min(left, len(self._active) - 1), 0)
        most = self._num_steps()
        steps = most if max_steps is None else min(most, max_steps)
        self.programs.add(self._sizes)
        self._drawn, report = self._decode(params, self._drawn, dropped, np.int32(steps), np.int32(num_ended))
        ended, counts, tokens = map(np.asarray, report)
        self._counts = {row: int(counts[row]) for row in self._active}
        progress = []
        for row, name in list(self._active.items()):
            if not ended[row] and max_steps is None:
                continue
            if ended[row]:
                del self._active[row], self._rows[row], self._counts[row]
            if name in self._dropped:
                self._dropped.discard(name)
            else:
                progress.append(WrittenRow(name, tokens[row, : counts[row]].tolist(), bool(ended[row])))
        return progress

    def _admit(self, params: Parameters) -> None:
        """Let prompts join if several of them have room, or all."""
        number = min(len(self._waiting), self._row_counts[-1] - len(self._active))
        if number < min(self._few, len(self._waiting)):
            number = 0
        joining = [self._waiting[index] for index in range(number)]
        rows = [(row, self._counts[index]) for index, row in self._rows.items()]
        rows += [(row, 0) for _, row in joining]
        if not rows:
            return
        if self._drawn is None:
            self._drawn = self._empty(params)
        sizes = self._fitting(rows)
        if sizes != self._sizes:
            kept = np.full(sizes.rows, self._sizes.rows, np.int32)
            kept[: len(self._active)] = list(self._active)
            self._drawn = self._resize(self._drawn, kept, sizes=sizes)
            self._sizes = sizes
            self._active = dict(enumerate(self._active.values()))
            self._rows = dict(enumerate(self._rows.values()))
            self._counts = dict(enumerate(self._counts.values()))
        size = next((count for count in self._row_counts if count >= min(number, self._few)), self._few)
        for start in range(0, number, size):
            self._add_rows(params, joining[start : start + size], size)
        for _ in joining:
            self._waiting.popleft()

    def _add_rows(self, params: Parameters, joining: Sequence[tuple[Hashable, PromptRow]], size: int) -> None:
        free = [row for row in range(self._sizes.rows) if row not in self._active][: len(joining)]
        rows = [row for _, row in joining]
        length = self._padded_length(max(len(row.ids) for row in rows))
        prompts = pad_prompts(
            [row.ids for row in rows], length=length, batch_size=size, on_the_left=self._is_decoder
        )
        no_key = np.zeros(_key_size(), np.uint32)

        def column(values: Sequence[Any], dtype: type) -> Any:
            filled = np.zeros((size, *np.shape(values[0])), dtype)
            filled[: len(values)] = values
            return filled

        places = np.full(size, self._sizes.rows, np.int32)
        places[: len(free)] = free
        draws = RowDraws(
            keys=column([no_key if row.key is None else row.key for row in rows], np.uint32),
            temperature=column([row.temperature for row in rows], np.float32),
            top_k=column([row.top_k for row in rows], np.int32),
            top_p=column([row.top_p for row in rows], np.float32),
        )
        limits = column([row.max_new_tokens for row in rows], np.int32)
        self.programs.add((self._sizes, prompts[0].shape))
        with jax.set_mesh(self._mesh):  # by which kernels are split
            self._drawn = self._join(
                params, self._drawn, *place_rows(prompts, self._mesh), places, limits, draws
            )
        for row, (name, prompt) in zip(free, joining, strict=True):
            self._active[row], self._rows[row], self._counts[row] = name, prompt, 0

    def _num_before(self, row: PromptRow) -> int:
        """Return the slots of a row before its new tokens."""
        return len(row.ids) + self._num_virtual if self._is_decoder else 0

    def _num_steps(self) -> int:
        """Return the steps until a row would see more slots than there are."""
        lengths = {row: self._num_before(prompt) for row, prompt in self._rows.items()}
        return min(
            (
                self._sizes.slots - lengths[row] - self._counts[row]
                for row, prompt in self._rows.items()
                if lengths[row] + prompt.max_new_tokens > self._sizes.slots
            ),
            default=np.iinfo(np.int32).max,
        )

    def _fitting(self, rows: Sequence[tuple[PromptRow, int]]) -> _Sizes:
        """Return the sizes that rows need; those of now where these are not more than twice as large.

        There are slots for about twice the new tokens that rows have, as most texts end before their limit.

        Args:
          rows: Prompts with the numbers of their new tokens.
        """
        longest = self._padded_length(max(len(row.ids) for row, _ in rows))
        new = max(row.max_new_tokens for row, _ in rows)
        read = longest + self._num_virtual if self._is_decoder else 0

        def slots(factor: int, ahead: int) -> int:
            seen = (
                self._num_before(row) + min(row.max_new_tokens, factor * count + ahead) for row, count in rows
            )
            return max(*seen, read)

        needed = _Sizes(
            rows=next(count for count in self._row_counts if count >= len(rows)),
            # Powers of two, so that there are few; all that rows may need, if that is less.
            slots=min(_power_of_two(slots(2, _SHORTEST)), _rounded(slots(0, new))),
            encoded=0 if self._is_decoder else longest + self._num_virtual,
            new=_rounded(new),
            before=0 if self._processors is None else longest if self._processors.counts_prompt else 1,
        )
        least = needed._replace(slots=slots(1, _AHEAD))
        fits = [
            now >= fewest and (each * 2 > now or not each)
            for now, fewest, each in zip(self._sizes, least, needed, strict=True)
        ]
        return self._sizes if all(fits[1:]) and self._sizes.rows == needed.rows else needed

    def _padded_length(self, length: int) -> int:
        rounded = _rounded(length)
        return rounded if self._limit is None else max(min(rounded, self._limit), length)

    def _empty(self, params: Parameters) -> Drawn:
        if self._shapes is None:
            prompts = jax.ShapeDtypeStruct((1, 2), jnp.int32)
            self._shapes = jax.eval_shape(self._prefill, params, prompts, prompts)[1]
        shapes = self._shapes
        first = shapes.layers[0]
        # Prompts of 2 tokens have a slot more in a decoder.
        self._num_virtual = (
            (first.own if self._is_decoder else first.encoded).keys.shape[-2] - 2 - self._is_decoder
        )
        no_rows = jnp.zeros(0, jnp.int32)
        empty = Drawn(
            last=no_rows,
            ended=jnp.zeros(0, bool),
            counts=no_rows,
            limits=no_rows,
            tokens=jnp.zeros((0, 0), jnp.int32),
            before=jnp.zeros((0, 0), jnp.int32),
            log_probs=jnp.zeros(0, jnp.float32),
            draws=RowDraws(
                keys=jnp.zeros((0, _key_size()), jnp.uint32),
                temperature=jnp.zeros(0, jnp.float32),
                top_k=no_rows,
                top_p=jnp.zeros(0, jnp.float32),
            ),
            cache=empty_rolling(shapes),
        )
        return jax.tree.map(np.asarray, empty)  # arrays of one process have no place on a mesh of several

    def _prefill(self, params: Parameters, prompts: Array, mask: Array) -> tuple[Array, Any]:
        model = unrolled(parameters.merge(self._graphdef, params))
        return model.prefill(prompts, mask, max_new_tokens=1, start_id=self._start_id)

    def _joined(
        self,
        params: Parameters,
        drawn: Drawn,
        prompts: Int[Array, "J M"],
        mask: Int[Array, "J M"],
        rows: Int[Array, " J"],
        limits: Int[Array, " J"],
        draws: RowDraws,
    ) -> Drawn:
        first, cache = self._prefill(params, prompts, mask)
        before = jnp.zeros((len(rows), 0), jnp.int32)
        if self._processors is not None:
            before = self._processors.history_before(prompts, mask, first)
            missing = drawn.before.shape[1] - before.shape[1]
            before = jnp.pad(before, ((0, 0), (missing, 0)), constant_values=NO_TOKEN)
        no_text = jnp.zeros((len(rows), drawn.tokens.shape[1]), jnp.int32)
        zeros = jnp.zeros(len(rows), jnp.int32)
        new = Drawn(
            first, zeros > 0, zeros, limits, no_text, before, zeros.astype(jnp.float32), draws, cache=None
        )
        joined = jax.tree.map(
            lambda old, new: old.at[rows].set(new, mode="drop"), drawn._replace(cache=None), new
        )
        return self._on_mesh(joined._replace(cache=join_rolling(drawn.cache, cache, rows)))

    def _decoded(
        self, params: Parameters, drawn: Drawn, dropped: Array, max_steps: Array, num_ended: Array
    ) -> tuple[Drawn, tuple[Array, Array, Array]]:
        model = unrolled(parameters.merge(self._graphdef, params))

        def continues(state: tuple[Array, Drawn]) -> Array:
            index, drawn = state
            return (index < max_steps) & (jnp.sum(drawn.ended) < num_ended)

        def advance(state: tuple[Array, Drawn]) -> tuple[Array, Drawn]:
            index, drawn = state
            # A row that has ended sees nothing, so that it never passes the last position.
            cache = drawn.cache
            cache = cache._replace(starts=jnp.where(drawn.ended, cache.index, cache.starts))
            return index + 1, next_tokens(
                model.decode_step,
                drawn._replace(cache=cache),
                self._choose,
                eos_ids=self._end_ids,
                pad_token_id=0,
                processors=self._processors,
            )

        drawn = self._on_mesh(drawn._replace(ended=drawn.ended | dropped))
        _, drawn = jax.lax.while_loop(continues, advance, (jnp.zeros((), jnp.int32), drawn))
        return self._on_mesh(drawn), (drawn.ended, drawn.counts, drawn.tokens)

    def _resized(self, drawn: Drawn, rows: Array, *, sizes: _Sizes) -> Drawn:
        """Return the rows with the given former indices in arrays of other sizes."""
        is_kept = rows < len(drawn.ended)

        def keep(each: Array) -> Array:
            if not len(each):
                return jnp.zeros((len(rows), *each.shape[1:]), each.dtype)
            return jnp.take(each, rows, axis=0, mode="clip")

        kept = jax.tree.map(keep, drawn._replace(cache=None))
        before = kept.before[:, max(kept.before.shape[1] - sizes.before, 0) :]
        missing = max(sizes.before - before.shape[1], 0), max(sizes.new - kept.tokens.shape[1], 0)
        return self._on_mesh(
            kept._replace(
                ended=kept.ended | ~is_kept,
                tokens=jnp.pad(kept.tokens, ((0, 0), (0, missing[1])))[:, : sizes.new],
                before=jnp.pad(before, ((0, 0), (missing[0], 0)), constant_values=NO_TOKEN),
                cache=resize_rolling(drawn.cache, rows, num_slots=sizes.slots, num_encoded=sizes.encoded),
            )
        )

    def _on_mesh(self, drawn: Drawn) -> Drawn:
        """Split rows among devices, and the heads of keys and values along ``model`` if it divides them."""
        if self._mesh.size == 1:
            return drawn
        parts = self._mesh.shape["model"]

        def place(each: Array) -> Array:
            return jax.lax.with_sharding_constraint(each, batch_sharding(self._mesh))

        def place_heads(each: Array) -> Array:
            heads = "model" if each.shape[-3] % parts == 0 else None
            spec = PartitionSpec(*(None,) * (each.ndim - 4), BATCH_MESH_AXES, heads)
            return jax.lax.with_sharding_constraint(each, NamedSharding(self._mesh, spec))

        cache = drawn.cache
        mask = cache.encoded_mask
        placed = jax.tree.map(place, drawn._replace(cache=None))
        return placed._replace(
            cache=cache._replace(
                layers=jax.tree.map(place_heads, cache.layers),
                beam_indices=place(cache.beam_indices),
                starts=place(cache.starts),
                encoded_mask=None if mask is None else place(mask),
            )
        )


def rolls(graphdef: nnx.GraphDef, params: Parameters) -> bool:
    """Return whether a model's rows may begin at different times.

    Args:
      graphdef: Structure of the model.
      params: Its weights.
    """
    prompts = jax.ShapeDtypeStruct((1, 2), jnp.int32)

    def prefill(params: Parameters, prompts: Array, mask: Array) -> tuple[Array, Any]:
        return parameters.merge(graphdef, params).prefill(prompts, mask, max_new_tokens=1, start_id=0)

    return can_roll(jax.eval_shape(prefill, params, prompts, prompts)[1])


def _key_size() -> int:
    return jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape[-1]


def _power_of_two(length: int) -> int:
    """Return the next power of two."""
    return max(1 << (length - 1).bit_length(), _SHORTEST)


def _rounded(length: int) -> int:
    """Return the next of four lengths between powers of two, so that few programs are compiled."""
    if length <= _SHORTEST:
        return _SHORTEST
    part = _power_of_two(length) // 8
    return -(-length // part) * part
