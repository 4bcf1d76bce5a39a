"""Saves lazy arrays with Orbax, one after the other. On disk they are like those of any run."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore
from etils import epath

from t5x_like.checkpoints.state_names import nest
from t5x_like.model.lazy_array import Index, LazyArray

# Bytes that are compressed at a time; the compressed copy is in memory too.
_CHUNK_BYTES = 64 * 2**20


def write_lazy_arrays(directory: epath.Path, arrays: dict[str, LazyArray]) -> None:
    """Write all arrays. Only one process may call it.

    Args:
      directory: New folder of the arrays.
      arrays: Arrays by name, which are made while they are written.
    """
    known = ((LazyArray, _Handler()), (jax.Array, ocp.type_handlers.get_type_handler(jax.Array)))
    registry = ocp.type_handlers.create_type_handler_registry(*known)
    chunks = {name: _chunks(array) for name, array in arrays.items()}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as checkpointer:
        checkpointer.save(directory, args=ocp.args.PyTreeSave(nest(arrays), save_args=nest(chunks)))


class _Handler(ocp.type_handlers.NumpyHandler):
    """Writes piece by piece; Orbax's own handler needs all arrays in memory."""

    async def serialize(self, values: Sequence[Any], infos: Sequence[Any], args: Any = None) -> Sequence[Any]:
        """Write all values, as Orbax's handler does, but before it returns."""
        for value, info, arg in zip(values, infos, args, strict=True):
            await info.await_path_creation()
            spec = ocp.type_handlers.get_json_tspec_write(
                info,
                use_ocdbt=info.is_ocdbt_checkpoint,
                global_shape=value.shape,
                local_shape=value.shape,
                dtype=value.dtype,
                process_index=0,
                arg=arg,
            )
            stored = await tensorstore.open(
                tensorstore.Spec(spec), create=True, open=True, context=info.ts_context
            )
            for index, piece in _pieces(value, stored.chunk_layout.write_chunk.shape or ()):
                await stored[index].write(piece)
        return []


def _chunks(array: LazyArray) -> ocp.SaveArgs:
    """Return chunks of whole layers where these can be read separately, so that no chunk is written twice."""
    if array.nbytes <= _CHUNK_BYTES:
        return ocp.SaveArgs()
    return ocp.SaveArgs(chunk_byte_size=_CHUNK_BYTES, shard_axes=(0,) if array.by_rows else ())


def _pieces(array: LazyArray, chunk: Sequence[int | None]) -> Iterator[tuple[Index, np.ndarray]]:
    """Yield consecutive rows of chunks with their index."""
    if array.nbytes <= _CHUNK_BYTES:
        yield (), np.asarray(array)
        return
    rows = chunk[0] or 1
    kept = None if array.by_rows else np.asarray(array)
    for start in range(0, array.shape[0], rows):
        index = (slice(start, start + rows), *(slice(None),) * (array.ndim - 1))
        yield index, array[index] if kept is None else kept[index]
