"""Saves a run so that it continues to the bit, and restores the newest step that is undamaged.

A step is one directory::

    <directory>/<step>/state/             arrays, written by Orbax from all processes
                       leaves.json        name, shape and dtype of each array
                       loader_state.json  position in the data
                       config.txt         the resolved configuration
                       manifest.json      the step, length and checksum of every file; written last
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import jax
import numpy as np
from etils import epath
from jaxtyping import PyTree

from t5x_like.checkpoints.arrays import ArrayStore, zeros_like
from t5x_like.checkpoints.manifest import write_manifest, write_through
from t5x_like.checkpoints.state_names import describe, name_leaves, refill, refuse_differences
from t5x_like.checkpoints.steps import (
    absolute,
    find_checkpoints,
    finished_steps,
    list_steps,
    lost_steps,
    make_room,
    newest_whole,
    note_saved,
    prune,
    remove_unfinished,
)
from t5x_like.io.files import PathLike, read_json, write_json, write_text
from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.weight_patterns import earlier_path

# Path of sums that are logged. Those that a version adds begin at 0 where an earlier one saved the step.
_SUMS = "totals/measures/"


class RestoredCheckpoint(NamedTuple):
    """A restored step.

    Attributes:
      step: Its number.
      state: State of the training.
      loader_state: Position in the data.
      config_text: Resolved configuration of the run.
      skipped: One line for each newer step that can't be used, with the reason.
    """

    step: int
    state: Any
    loader_state: Any
    config_text: str
    skipped: tuple[str, ...]


class Checkpoints:
    """Checkpoints of one run. Saving happens in the background.

    With several processes, all call every method, on a directory that is visible to all.

    Args:
      directory: Where steps are saved.
      keep: Number of finished steps that are kept, the newest ones.

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
        self._newest: int | None = None  # saved or restored by this object
        self._protected: int | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except OSError:
            if kind is None:  # otherwise the error that got us here says more
                raise

    def save(self, step: int, state: PyTree, *, loader_state: object = None, config_text: str = "") -> None:
        """Start saving, and return when the arrays are copied off the devices; their memory may be reused.

        Waits for the save before it. Saving the step just saved or restored again does nothing.

        Args:
          step: Number of the step.
          state: Any pytree of arrays.
          loader_state: Position in the data, as JSON.
          config_text: Resolved configuration of the run.

        Raises:
          OSError: The save before this one failed, or this one could not begin. What it has written is deleted.
        """
        self.wait()
        if step == self._current:
            return
        leaves = name_leaves(state)
        described, directory = describe(leaves), self.directory / str(step)
        try:
            self._prepare(directory, described, loader_state, config_text)
            self._store.start_writing(directory / "state", leaves)
        except (OSError, ValueError, RuntimeError) as error:  # the last two are Orbax's and TensorStore's
            self._give_up(step)
            raise self._not_saved(step, error) from error
        self._current = step
        self._finisher = threading.Thread(target=self._finish, args=(step,), name=f"save-{step}")
        self._finisher.start()

    def _prepare(
        self, directory: epath.Path, described: Mapping[str, object], loader_state: object, config_text: str
    ) -> None:
        problem = None
        if jax.process_index() == 0:
            try:
                make_room(self.directory, int(directory.name))
                directory.mkdir(parents=True)
                write_json(directory / "leaves.json", described)
                write_json(directory / "loader_state.json", loader_state)
                write_text(directory / "config.txt", config_text)
            except OSError as error:
                problem = error
        if _any_process(problem is not None):
            raise problem or OSError("process 0 could not write")
        _check_seen(directory)

    def restore(self, like: PyTree, step: int | None = None) -> RestoredCheckpoint:
        """Restore the newest step that is undamaged, or exactly ``step``.

        Args:
          like: The saved state's containers around arrays or ``jax.ShapeDtypeStruct``. Their shardings may differ from
            the saved ones; without any, arrays are placed on the first device.
          step: ``None`` for the newest.

        Raises:
          FileNotFoundError: There is no such step.
          ValueError: No step is undamaged, or the state differs from ``like``; the differences are listed.
        """
        self.wait()
        chosen, skipped = self._choose(step)
        directory = self.directory / str(chosen)
        arrays = self._read(chosen, name_leaves(like))
        self._current = self._newest = chosen
        return RestoredCheckpoint(
            step=chosen,
            state=refill(like, arrays),
            loader_state=read_json(directory / "loader_state.json"),
            config_text=(directory / "config.txt").read_text(encoding="utf-8"),
            skipped=tuple(skipped),
        )

    def all_steps(self) -> list[int]:
        """Return the finished steps, in ascending order."""
        return finished_steps(self.directory)

    def latest_step(self) -> int | None:
        """Return the newest finished step, or ``None``. Restoring checks for damage."""
        return max(self.all_steps(), default=None)

    def protect(self, *, before: int) -> None:
        """Keep the newest step up to ``before``, however many newer ones are saved."""
        if self._newest is not None and self._newest <= before:
            self._protected = self._newest

    def set_aside(self, *, after: int) -> None:
        """Rename the finished steps after a step to ``<step>.set-aside``, so that a run continues from it."""
        if jax.process_index() == 0:
            make_room(self.directory, after + 1)

    def refuse_lost_steps(self) -> None:
        """Check before a run begins at step 0 that it isn't an older one whose steps are lost.

        Raises:
          ValueError: With what is there.
        """
        lost = lost_steps(self.directory)
        if lost is not None:
            raise ValueError(
                f"{self.directory} holds a run whose checkpoints can't be used ({lost}). Nothing was changed there. "
                "Bring back their files, so that it continues; or begin anew in another MODEL_DIR, or delete this one"
            )

    def wait(self) -> None:
        """Wait until nothing is being saved.

        Raises:
          OSError: The last save failed, on this process or another.
        """
        self._join(together=True)

    def check(self) -> None:
        """Raise the error of a save that has failed, without waiting; several processes learn of it in ``wait``.

        Raises:
          OSError: The last save failed.
        """
        if self._failure and jax.process_count() == 1:
            self._join(together=False)

    def close(self) -> None:
        """Wait for the last save and close Orbax."""
        try:
            self._join(together=False)
        finally:
            self._store.close()

    def _join(self, *, together: bool) -> None:
        if self._finisher:
            self._finisher.join()
            self._finisher = None
        failure, self._failure = self._failure, None
        failed = failure is not None
        if not (_any_process(failed) if together else failed):
            return
        step, error = failure or (self._current, OSError("another process could not write"))
        self._current = None
        raise self._not_saved(step, error) from error

    def _not_saved(self, step: int | None, error: Exception) -> OSError:
        reason = re.sub(r" \[tensorstore_spec='.*?'\]", "", str(error))  # some thousand characters
        return OSError(
            f"step {step} could not be saved in {self.directory}: {reason}; "
            f"steps saved before it: {self.all_steps() or 'none'}"
        )

    def _give_up(self, step: int) -> None:
        """Free the space of a save that failed; the disk may be full."""
        if jax.process_index() == 0:
            with suppress(OSError):
                remove_unfinished(self.directory, step)

    def _finish(self, step: int) -> None:
        try:
            self._store.wait()
            if jax.process_index() == 0:
                write_manifest(self.directory / str(step))
                write_through(self.directory / str(step))
                note_saved(self.directory, step)
                self._newest = step
                prune(self.directory, self._keep, self._protected)
        except Exception as error:
            self._give_up(step)
            self._failure = (step, error)

    def _read(self, step: int, wanted: dict[str, object], only: str = "") -> dict[str, jax.Array]:
        saved_names = self._saved_names(step, wanted, only)
        saved = {own: wanted[name] for name, own in saved_names.items()}
        arrays = self._store.read(self.directory / str(step) / "state", saved)
        return {
            name: arrays[saved_names[name]] if name in saved_names else zeros_like(leaf)
            for name, leaf in wanted.items()
        }

    def _saved_names(self, step: int, wanted: dict[str, Any], only: str) -> dict[str, str]:
        """Return the names under which a step has the wanted arrays; earlier versions had others for some.

        Sums to log are left out if an earlier version saved none.

        Raises:
          ValueError: The step has other arrays than these.
        """
        directory = self.directory / str(step)
        saved = read_json(directory / "leaves.json")
        saved = {name: described for name, described in saved.items() if name.startswith(only)}
        names = {name: earlier_path(name) for name in wanted.keys() - saved.keys()}
        names = {name: earlier for name, earlier in names.items() if earlier in saved}
        saved |= {name: saved.pop(earlier) for name, earlier in names.items()}
        wanted = {name: leaf for name, leaf in wanted.items() if name in saved or not name.startswith(_SUMS)}
        refuse_differences(saved, describe(wanted), where=f"the checkpoint {directory}")
        return {name: names.get(name, name) for name in wanted}

    def _choose(self, step: int | None) -> tuple[int, list[str]]:
        chosen, skipped = None, []
        if jax.process_index() == 0:
            candidates = [
                saved_step for saved_step in list_steps(self.directory)[::-1] if step in (None, saved_step)
            ]
            chosen, skipped = newest_whole(self.directory, candidates)
        chosen = _as_first_process_says(chosen)
        if chosen is None and skipped:
            raise ValueError(f"no checkpoint in {self.directory} can be used:\n  " + "\n  ".join(skipped))
        if chosen is None:
            wanted = "usable checkpoint" if step is None else f"usable checkpoint of step {step}"
            saved = ", ".join(map(str, self.all_steps())) or "none"
            raise FileNotFoundError(f"{self.directory} has no {wanted}; saved steps: {saved}")
        _check_seen(self.directory / str(chosen))
        return chosen, skipped


def restore_step(
    directory: PathLike, like: PyTree, step: int | None = None, *, part: str = "params"
) -> tuple[int, PyTree]:
    """Return the step of another run, and its weights (the part ``params`` of the state).

    Args:
      directory: A run, its ``checkpoints`` directory, or one step.
      like: Containers of the weights; see ``Checkpoints.restore``.
      step: Step to choose; ``None`` for the newest.
      part: Another part of the state that is like the weights, such as their ``average``.

    Raises:
      FileNotFoundError: There is no checkpoint.
      ValueError: Names, shapes or dtypes differ (all are listed), or no step is undamaged.
    """
    parent, named = find_checkpoints(absolute(directory))
    with Checkpoints(parent) as checkpoints:
        chosen, _ = checkpoints._choose(named if step is None else step)
        arrays = checkpoints._read(chosen, name_leaves({part: like}), only=f"{part}/")
    return chosen, refill({part: like}, arrays)[part]


@contextmanager
def lazy_params(
    directory: PathLike, like: PyTree, step: int | None = None, *, part: str = "params"
) -> Iterator[PyTree]:
    """Yield the weights of ``restore_step`` as lazy arrays; each access reads the whole array.

    Args:
      directory: Run, its ``checkpoints`` directory, or one step.
      like: Containers of the weights; see ``Checkpoints.restore``.
      step: Step to choose; ``None`` for the newest.
      part: Part of the state to read; see ``restore_step``.
    """
    parent, named = find_checkpoints(absolute(directory))
    with Checkpoints(parent) as checkpoints:
        chosen, _ = checkpoints._choose(named if step is None else step)
        wanted = name_leaves({part: like})
        saved_names = checkpoints._saved_names(chosen, wanted, only=f"{part}/")
        state = checkpoints.directory / str(chosen) / "state"

        def lazy(name: str, leaf: Any) -> LazyArray:
            def read(index: Index) -> np.ndarray:
                return checkpoints._store.read_to_host(state, saved_names[name], leaf)[index]

            return LazyArray(tuple(leaf.shape), read)

        leaves = {name: lazy(name, leaf) for name, leaf in wanted.items()}
        yield refill({part: like}, leaves)[part]


def _as_first_process_says(step: int | None) -> int | None:
    """Return the first process's choice: a file may be visible to one process and not yet to another."""
    if jax.process_count() == 1:
        return step
    from jax.experimental import multihost_utils

    chosen = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if step is None else step)))
    return None if chosen == -1 else chosen


def _check_seen(directory: epath.Path) -> None:
    if not directory.exists():
        raise FileNotFoundError(
            f"process {jax.process_index()} doesn't see {directory}, which process 0 made; "
            "all processes need one shared directory"
        )


def _any_process(value: bool) -> bool:
    """Return whether ``value`` is true on any process; all wait for each other."""
    if jax.process_count() == 1:
        return value
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.bool_(value))))
