"""Steps on disk: their state, size and date, and deleting those that are no longer needed."""

from typing import Literal, NamedTuple

from etils import epath

from t5x_like.checkpoints.manifest import MANIFEST, files_of, is_finished
from t5x_like.checkpoints.steps import finished_steps, list_steps, newest_whole, set_aside
from t5x_like.io.files import changed_seconds


class SavedStep(NamedTuple):
    """A step's directory.

    Attributes:
      name: Name of the directory.
      step: Number of the step.
      state: Finished; unfinished, while it is saved and after the run was stopped in between; or set aside, when the
        run continued from an earlier step.
      num_bytes: Size of its files.
      saved: When it was finished or last changed, in seconds since 1970.
    """

    name: str
    step: int
    state: Literal["finished", "unfinished", "set aside"]
    num_bytes: int
    saved: float


def saved_steps(directory: epath.Path) -> list[SavedStep]:
    """Return all steps of a directory, in ascending order; those set aside follow.

    Steps that a run deletes meanwhile are left out.
    """
    steps = []
    for path in [*(directory / str(step) for step in list_steps(directory)), *set_aside(directory)]:
        try:
            steps.append(_saved_step(path))
        except FileNotFoundError:
            continue
    return steps


def _saved_step(path: epath.Path) -> SavedStep:
    finished = is_finished(path)
    state = "finished" if finished else "unfinished"
    size_of_manifest = (path / MANIFEST).stat().length if finished else 0
    return SavedStep(
        name=path.name,
        step=int(path.name.partition(".")[0]),
        state=state if path.name.isdecimal() else "set aside",
        num_bytes=size_of_manifest + sum(file.stat().length for _, file in files_of(path)),
        saved=changed_seconds(path / MANIFEST if finished else path),
    )


def steps_to_keep(directory: epath.Path, keep: int) -> list[int]:
    """Return the newest ``keep`` finished steps, and the newest undamaged one, which is found by reading files.

    Args:
      directory: Folder of the checkpoints.
      keep: Number of newest steps, at least 1.

    Raises:
      ValueError: ``keep`` is below 1, or no step is undamaged.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}; keep at least 1 checkpoint to be able to resume")
    finished = finished_steps(directory)
    whole, skipped = newest_whole(directory, finished[::-1])
    if whole is None:
        listed = "\n  ".join(["", *skipped])
        raise ValueError(f"{directory} has no undamaged checkpoint; nothing was deleted{listed}")
    return sorted({*finished[-keep:], whole})
