"""A teacher's predictions kept on disk: computed by the first student's run, read by later ones.

Each file belongs to one step: it holds the most likely tokens of every target position, and all scores of other heads.
"""

import io
import itertools
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.io.files import as_path, read_json, write_bytes, write_json
from t5x_like.model import parameters
from t5x_like.model.families.family import Predictions, predict
from t5x_like.model.families.segment_memory import ModelWithMemory
from t5x_like.partitioning.shard import batch_sharding
from t5x_like.training.loop import TrainStep
from t5x_like.training.losses.distillation import TopLogits, top_logits
from t5x_like.training.state import State
from t5x_like.training.teacher import Teacher

_FILE = "recorded.json"
_HEAD = "heads/"


class RecordedLogits:
    """Predictions of a teacher for the batches of a run, from ``Distillation.logits_dir`` where they are there.

    Args:
      teacher: computes those that are missing, which are then written.
      vocab_size: number of token ids of the student.
      mesh: the devices.

    Raises:
      ValueError: the directory was written for another teacher, temperature or number of logits; or the run has
        several processes or a teacher with segment memory.
    """

    def __init__(self, teacher: Teacher, *, vocab_size: int, mesh: Mesh) -> None:
        config = teacher.distillation
        assert config.logits_dir is not None
        self._directory, self._params, self._mesh = as_path(config.logits_dir), teacher.params, mesh
        if jax.process_count() > 1:
            raise ValueError(
                "logits_dir is read and written by one process; leave it out, or run on one machine"
            )
        model = parameters.merge(teacher.graphdef, teacher.params)
        if isinstance(model, ModelWithMemory) and model.new_memory(1) is not None:
            raise ValueError(
                "logits_dir can't keep what a teacher with segment memory predicts; leave it out"
            )
        facts = {
            "teacher": teacher.identity,
            "temperature": config.temperature,
            "num_logits": config.num_logits,
            "vocab_size": vocab_size,
        }
        path = self._directory / _FILE
        there = read_json(path) if path.exists() else facts
        differing = [name for name in facts if there.get(name) != facts[name]]
        if differing:
            listed = "; ".join(
                f"{name} is {there.get(name)!r} there and {facts[name]!r} here" for name in differing
            )
            raise ValueError(
                f"{config.logits_dir} has other predictions of a teacher: {listed}. Give another logits_dir"
            )
        write_json(path, facts)

        def compute(params: Any, batch: Batch) -> Predictions:
            found = predict(parameters.merge(teacher.graphdef, params), batch)
            return top_logits(found, batch, config, vocab_size=vocab_size)

        self._compute = jax.jit(compute)

    def predictions(self, step: int, batch: Batch) -> Predictions:
        """Return the teacher's predictions for the batch of a step, on the mesh.

        Raises:
          ValueError: the file of that step belongs to another batch.
        """
        path, checksum = self._directory / f"{step:08d}.npz", _checksum(batch)
        if path.exists():
            with np.load(io.BytesIO(path.read_bytes())) as file:
                arrays = dict(file)
            if int(arrays.pop("checksum")) != checksum:
                raise ValueError(
                    f"{path} is of another batch than this run has at step {step}: its data, seed or batch size "
                    "differ. Give another logits_dir"
                )
            return jax.device_put(_from_arrays(arrays), batch_sharding(self._mesh))
        found = self._compute(self._params, batch)
        file = io.BytesIO()
        np.savez(file, **_to_arrays(found), checksum=np.uint32(checksum))  # pyright: ignore[reportArgumentType]
        write_bytes(path, file.getvalue())
        return jax.device_put(found, batch_sharding(self._mesh))

    def given_to(self, steps: Mapping[int, TrainStep], *, start_step: int) -> dict[int, TrainStep]:
        """Return compiled steps of a run, from ``start_step`` on, with predictions as their argument ``recorded``."""
        numbers = itertools.count(start_step)

        def with_predictions(compiled: Callable[..., State]) -> TrainStep:
            return lambda state, batch: compiled(
                state, batch, recorded=self.predictions(next(numbers), batch)
            )

        return {start: with_predictions(compiled) for start, compiled in steps.items()}


def _to_arrays(found: Predictions) -> dict[str, np.ndarray]:
    arrays = {f"{_HEAD}{name}": np.asarray(scores) for name, scores in (found.heads or {}).items()}
    top: Any = found.logits  # TopLogits
    return (
        arrays if top is None else arrays | {name: np.asarray(each) for name, each in top._asdict().items()}
    )


def _from_arrays(arrays: dict[str, Any]) -> Predictions:
    heads = {name.removeprefix(_HEAD): each for name, each in arrays.items() if name.startswith(_HEAD)}
    top: Any = {name: each for name, each in arrays.items() if not name.startswith(_HEAD)}
    return Predictions(logits=TopLogits(**top) if top else None, heads=heads)  # pyright: ignore[reportArgumentType]


def _checksum(batch: Batch) -> int:
    """Return a checksum of everything that a teacher reads of a batch."""
    checksum = 0
    for name, array in batch._asdict().items():
        if array is not None:
            checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), checksum))
    return checksum
