"""Saves a run so that it can be continued to the bit, and restores what can be trusted.

A step is one folder::

    <directory>/<step>/state/             arrays, written by Orbax from all processes
                       leaves.json        name, shape and dtype of each array
                       loader_state.json  where in the data the run is
                       config.txt         the resolved configuration
                       manifest.json      length and checksum of every file; written last
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from etils import epath

from t5x_like.checkpoints.arrays import ArrayStore
from t5x_like.checkpoints.manifest import write_manifest
from t5x_like.checkpoints.state_names import describe, name_leaves, refill, refuse_differences
from t5x_like.checkpoints.steps import (
    absolute,
    find_checkpoints,
    finished_steps,
    list_steps,
    make_room,
    newest_whole,
    prune,
)
from t5x_like.io.files import PathLike, read_json, write_json, write_text
from t5x_like.model.lazy_array import Index, LazyArray


class RestoredCheckpoint(NamedTuple):
    """A restored step. ``skipped`` says, a line each, which newer steps could not be used and why."""

    step: int
    state: Any
    loader_state: Any
    config_text: str
    skipped: tuple[str, ...]


class Checkpoints:
    """The checkpoints of one run in ``directory``, of which the newest ``keep`` finished ones stay.

    Saving happens in the background: `save` returns when the arrays are copied off the devices. With several
    processes, all of them call every method, on a directory they all see.

    >>> with Checkpoints("runs/a/checkpoints") as checkpoints:
    ...     checkpoints.save(10, state, loader_state=loader.state(), config_text=text)
    ...     restored = checkpoints.restore(like=abstract_state)
    """

    def __init__(self, directory: PathLike, keep: int = 3):
        if keep < 1:
            raise ValueError(f"keep is {keep}; keep at least 1 checkpoint to be able to resume")
        self.directory = absolute(directory)
        self._keep = keep
        self._store = ArrayStore()
        self._finisher: threading.Thread | None = None
        self._failure: tuple[int, Exception] | None = None
        self._current: int | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except OSError:
            if kind is None:  # otherwise the error that got us here says more
                raise

    def save(self, step: int, state: Any, *, loader_state: Any = None, config_text: str = "") -> None:
        """Starts saving ``state``, any pytree of arrays; its memory may be reused at once.

        Waits for the save before it to finish. Saving the step just saved or restored again does nothing.

        Raises:
          OSError: the save before this one failed.
        """
        self.wait()
        if step == self._current:
            return
        leaves = name_leaves(state)
        described = describe(leaves)
        directory = self.directory / str(step)
        if jax.process_index() == 0:
            make_room(self.directory, step)
            directory.mkdir(parents=True)
            write_json(directory / "leaves.json", described)
            write_json(directory / "loader_state.json", loader_state)
            write_text(directory / "config.txt", config_text)
        _meet(f"room for step {step}")
        _check_seen(directory)
        self._store.start_writing(directory / "state", leaves)
        self._current = step
        self._finisher = threading.Thread(target=self._finish, args=(step,), name=f"save-{step}")
        self._finisher.start()

    def restore(self, like: Any, step: int | None = None) -> RestoredCheckpoint:
        """Restores the newest step that is whole, or exactly ``step``.

        ``like`` has the containers of the saved state around arrays or ``jax.ShapeDtypeStruct`` with
        shardings. Those need not be the ones it was saved with; without any, arrays go to the first device.

        Raises:
          FileNotFoundError: there is no such step.
          ValueError: no step is whole, or the state differs from ``like``; says how.
        """
        self.wait()
        chosen, skipped = self._choose(step)
        directory = self.directory / str(chosen)
        arrays = self._read(chosen, name_leaves(like))
        self._current = chosen
        return RestoredCheckpoint(
            step=chosen,
            state=refill(like, arrays),
            loader_state=read_json(directory / "loader_state.json"),
            config_text=(directory / "config.txt").read_text(encoding="utf-8"),
            skipped=tuple(skipped),
        )

    def all_steps(self) -> list[int]:
        """The finished steps, in ascending order."""
        return finished_steps(self.directory)

    def latest_step(self) -> int | None:
        """The newest finished step, or ``None``. Whether it is undamaged shows when it is restored."""
        return max(self.all_steps(), default=None)

    def wait(self) -> None:
        """Returns when nothing is being saved any more.

        Raises:
          OSError: the last save failed.
        """
        if self._finisher:
            self._finisher.join()
            self._finisher = None
        if self._failure:
            (step, error), self._failure, self._current = self._failure, None, None
            raise OSError(
                f"step {step} could not be saved in {self.directory}: {error}; "
                f"steps saved before it: {self.all_steps() or 'none'}"
            ) from error

    def close(self) -> None:
        """Waits for the last save and lets Orbax go."""
        try:
            self.wait()
        finally:
            self._store.close()

    def _finish(self, step: int) -> None:
        try:
            self._store.wait()
            if jax.process_index() == 0:
                write_manifest(self.directory / str(step))
                prune(self.directory, self._keep)
        except Exception as error:
            self._failure = (step, error)

    def _read(self, step: int, wanted: dict[str, Any], only: str = "") -> dict[str, jax.Array]:
        self._refuse(step, wanted, only)
        return self._store.read(self.directory / str(step) / "state", wanted)

    def _refuse(self, step: int, wanted: dict[str, Any], only: str) -> None:
        directory = self.directory / str(step)
        saved = read_json(directory / "leaves.json")
        saved = {name: described for name, described in saved.items() if name.startswith(only)}
        refuse_differences(saved, describe(wanted), where=f"the checkpoint {directory}")

    def _choose(self, step: int | None) -> tuple[int, list[str]]:
        chosen, skipped = None, []
        if jax.process_index() == 0:
            candidates = [found for found in list_steps(self.directory)[::-1] if step in (None, found)]
            chosen, skipped = newest_whole(self.directory, candidates)
        chosen = _as_first_process_says(chosen)
        if chosen is None and skipped:
            raise ValueError(f"no checkpoint in {self.directory} can be used:\n  " + "\n  ".join(skipped))
        if chosen is None:
            wanted = "usable checkpoint" if step is None else f"usable checkpoint of step {step}"
            raise FileNotFoundError(f"{self.directory} has no {wanted}")
        _check_seen(self.directory / str(chosen))
        return chosen, skipped


def restore_params(directory: PathLike, like: Any, step: int | None = None) -> Any:
    """Only the weights (the part ``params`` of the state) of another run, to start afresh from them.

    ``directory`` is a run, its ``checkpoints`` folder, or one step; ``like`` as in `Checkpoints.restore`.

    Raises:
      FileNotFoundError: there is no checkpoint.
      ValueError: names, shapes or dtypes differ (lists all), or no step is whole.
    """
    return restore_step(directory, like, step=step)[1]


def restore_step(directory: PathLike, like: Any, step: int | None = None) -> tuple[int, Any]:
    """The step that ``restore_params`` takes, and its weights.

    Raises:
      FileNotFoundError, ValueError: as ``restore_params``.
    """
    parent, asked = find_checkpoints(absolute(directory))
    with Checkpoints(parent) as checkpoints:
        chosen, _ = checkpoints._choose(asked if step is None else step)
        arrays = checkpoints._read(chosen, name_leaves({"params": like}), only="params/")
    return chosen, refill({"params": like}, arrays)["params"]


@contextmanager
def lazy_params(directory: PathLike, like: Any, step: int | None = None) -> Iterator[Any]:
    """The weights of ``restore_params`` as unread arrays, each of which is read whole whenever it is asked for.

    Raises:
      FileNotFoundError, ValueError: as ``restore_params``.
    """
    parent, asked = find_checkpoints(absolute(directory))
    with Checkpoints(parent) as checkpoints:
        chosen, _ = checkpoints._choose(asked if step is None else step)
        wanted = name_leaves({"params": like})
        checkpoints._refuse(chosen, wanted, only="params/")
        state = checkpoints.directory / str(chosen) / "state"

        def unread(name: str, leaf: Any) -> LazyArray:
            def read(index: Index) -> np.ndarray:
                return checkpoints._store.read_to_host(state, name, leaf)[index]

            return LazyArray(tuple(leaf.shape), read)

        leaves = {name: unread(name, leaf) for name, leaf in wanted.items()}
        yield refill({"params": like}, leaves)["params"]


def _as_first_process_says(step: int | None) -> int | None:
    """Processes must not choose apart: a file may be there for one and not yet for another."""
    if jax.process_count() == 1:
        return step
    from jax.experimental import multihost_utils

    told = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if step is None else step)))
    return None if told == -1 else told


def _check_seen(directory: epath.Path) -> None:
    if not directory.exists():
        raise FileNotFoundError(
            f"process {jax.process_index()} doesn't see {directory}, which process 0 made; "
            "all processes need one shared directory"
        )


def _meet(name: str) -> None:
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)
