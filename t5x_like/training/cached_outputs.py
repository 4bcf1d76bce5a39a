"""Outputs of a frozen model kept on disk: computed by the first run that needs them, read by later ones.

Each file belongs to one step of training.
"""

import io
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.io.files import as_path, read_json, write_bytes, write_json
from t5x_like.model import parameters
from t5x_like.model.families.family import Predictions, predict
from t5x_like.model.families.segment_memory import ModelWithMemory
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import batch_sharding

_FILE = "recorded.json"

Outputs = dict[str, jax.Array]  # by name; the first axis is that of the batch's rows


class OutputCache(NamedTuple):
    """A directory of outputs, and the function that takes them from predictions.

    Attributes:
      directory: Directory of one file for each step.
      field: Name of the option that gives the directory, for messages.
      facts: Settings that the outputs depend on.
      outputs: Returns the outputs, from predictions and the batch that they are for.
    """

    directory: str
    field: str
    facts: dict[str, Any]
    outputs: Callable[[Predictions, Batch], Outputs]


class CachedOutputs:
    """Outputs of a frozen model for the batches of a run, from the cache's directory where they are there.

    Args:
      cache: Where and what.
      name: Name of the model in the run, such as "teacher".
      graphdef: Structure of the model, which computes outputs that are missing; they are then written.
      params: Its weights.
      identity: Hash of its weights' files.
      mesh: Devices.

    Raises:
      ValueError: The directory was written for another model or other settings; or the run has several processes, or
        the model a segment memory.
    """

    def __init__(
        self,
        cache: OutputCache,
        name: str,
        graphdef: nnx.GraphDef,
        params: parameters.Parameters,
        identity: str,
        *,
        mesh: Mesh,
    ) -> None:
        self._directory, self._params, self._mesh = as_path(cache.directory), params, mesh
        self._field = cache.field
        if jax.process_count() > 1:
            raise ValueError(
                f"{cache.field} is read and written by one process; leave it out, or run on one machine"
            )
        model = parameters.merge(graphdef, params)
        if isinstance(model, ModelWithMemory) and model.new_memory(1) is not None:
            raise ValueError(
                f"{cache.field} can't keep what a {name} with segment memory predicts; leave it out"
            )
        facts = {name: identity, **cache.facts}
        path = self._directory / _FILE
        kept = read_json(path) if path.exists() else facts
        differing = [fact for fact in facts if kept.get(fact) != facts[fact]]
        if differing:
            listed = "; ".join(
                f"{fact} is {kept.get(fact)!r} there and {facts[fact]!r} here" for fact in differing
            )
            raise ValueError(
                f"{cache.directory} has other predictions of a {name}: {listed}. Give another {cache.field}"
            )
        write_json(path, facts)

        def compute(params: Parameters, batch: Batch) -> Outputs:
            return cache.outputs(predict(parameters.merge(graphdef, params), batch), batch)

        self._compute = jax.jit(compute)

    def of_step(self, step: int, batch: Batch) -> Outputs:
        """Return the outputs for the batch of a step, on the mesh.

        Args:
          step: Step that trains on the batch.
          batch: The batch.

        Raises:
          ValueError: The file of that step belongs to another batch.
        """
        path, checksum = self._directory / f"{step:08d}.npz", _checksum(batch)
        if path.exists():
            with np.load(io.BytesIO(path.read_bytes())) as file:
                arrays = dict(file)
            if int(arrays.pop("checksum")) != checksum:
                raise ValueError(
                    f"{path} is of another batch than this run has at step {step}: its data, seed or batch size "
                    f"differ. Give another {self._field}"
                )
            return jax.device_put(arrays, batch_sharding(self._mesh))
        outputs = self._compute(self._params, batch)
        file = io.BytesIO()
        arrays = {name: np.asarray(output) for name, output in outputs.items()}
        np.savez(file, **arrays, checksum=np.uint32(checksum))  # pyright: ignore[reportArgumentType]
        write_bytes(path, file.getvalue())
        return jax.device_put(outputs, batch_sharding(self._mesh))


def _checksum(batch: Batch) -> int:
    """Return a checksum of everything that a model reads of a batch."""
    checksum = 0
    declared = batch.declared or DeclaredStreams()
    streams = {
        **batch._replace(declared=None)._asdict(),
        **declared.token,
        **declared.row,
        **declared.example,
    }
    for name, array in streams.items():
        if array is not None:
            checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), checksum))
    return checksum
