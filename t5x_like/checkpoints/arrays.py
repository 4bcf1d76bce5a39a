"""Saves and reads arrays with Orbax; every process writes and reads its own part."""

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.sharding import Sharding, SingleDeviceSharding
from jaxtyping import PyTree

from t5x_like.checkpoints.local_steps import LocalSteps
from t5x_like.checkpoints.state_names import name_leaves, nest
from t5x_like.model.lazy_array import LazyArray


class ArrayStore:
    """Writes arrays in the background, one directory at a time. Orbax is imported at the first use."""

    def __init__(self) -> None:
        self._checkpointer = None
        self._copies = LocalSteps()

    def start_writing(self, directory: epath.Path, leaves: dict[str, Any]) -> None:
        """Start writing ``leaves``, and return when they are copied off the devices; their memory may be reused.

        Lazy arrays must not be mixed with others. They are written one after the other before this returns.

        Args:
          directory: New folder of the arrays.
          leaves: Arrays by name.
        """
        directory = self._copies.to_write(directory)
        if any(isinstance(leaf, LazyArray) for leaf in leaves.values()):
            from t5x_like.checkpoints.lazy_array_writer import write_lazy_arrays  # imports Orbax

            write_lazy_arrays(directory, {name: leaf for name, leaf in leaves.items() if leaf.size})
            return
        import orbax.checkpoint as ocp

        # Orbax refuses empty arrays; their shape and dtype are saved elsewhere.
        arrays = {
            name: leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
            for name, leaf in leaves.items()
            if np.size(leaf)
        }
        self._open().save(directory, args=ocp.args.PyTreeSave(nest(arrays)))

    def wait(self) -> None:
        """Wait until all processes have written, and raise their errors."""
        if self._checkpointer:
            self._checkpointer.wait_until_finished()
        self._copies.send()

    def read(self, directory: epath.Path, wanted: dict[str, Any]) -> dict[str, jax.Array]:
        """Read arrays by name.

        Args:
          directory: Where they were written.
          wanted: Their shapes and dtypes, which must be those on disk, and shardings.
        """
        import orbax.checkpoint as ocp

        arguments = {
            name: ocp.ArrayRestoreArgs(
                restore_type=jax.Array, dtype=leaf.dtype, sharding=_sharding(leaf), global_shape=leaf.shape
            )
            for name, leaf in wanted.items()
            if np.prod(leaf.shape)
        }
        request = ocp.args.PyTreeRestore(
            item=nest({name: wanted[name] for name in arguments}),
            restore_args=nest(arguments),
            partial_restore=True,
        )
        arrays = (
            name_leaves(self._open().restore(self._copies.to_read(directory), args=request))
            if arguments
            else {}
        )
        return {name: arrays[name] if name in arrays else zeros_like(leaf) for name, leaf in wanted.items()}

    def read_to_host(self, directory: epath.Path, name: str, like: PyTree) -> np.ndarray:
        """Read one array into host memory.

        Args:
          directory: Where it was written.
          name: Its name.
          like: Its shape and dtype, which must be those on disk.
        """
        if not np.prod(like.shape):
            return np.empty(like.shape, like.dtype)
        import orbax.checkpoint as ocp

        request = ocp.args.PyTreeRestore(
            item=nest({name: like}),
            restore_args=nest({name: ocp.RestoreArgs(restore_type=np.ndarray)}),
            partial_restore=True,
        )
        return name_leaves(self._open().restore(self._copies.to_read(directory), args=request))[name]

    def close(self) -> None:
        """Wait for Orbax's threads and end them."""
        if self._checkpointer:
            self._checkpointer.close()
            self._checkpointer = None
        self._copies.close()

    def _open(self) -> PyTree:
        if self._checkpointer is None:
            import orbax.checkpoint as ocp

            logging.getLogger("absl").addFilter(_is_not_of_orbax)
            self._checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
        return self._checkpointer


def _is_not_of_orbax(record: logging.LogRecord) -> bool:
    """Return False for errors that Orbax's threads log with tracebacks; ``ArrayStore.wait`` raises them."""
    return not (record.levelno >= logging.ERROR and "orbax" in record.pathname)


def _sharding(leaf: object) -> Sharding:
    return getattr(leaf, "sharding", None) or SingleDeviceSharding(jax.local_devices()[0])


def zeros_like(leaf: Any) -> jax.Array:
    """Return zeros on the devices of an array or its shape."""
    return jnp.zeros(leaf.shape, leaf.dtype, device=_sharding(leaf))
