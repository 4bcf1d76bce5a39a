"""Directories of a run's checkpoints, one for each step, named by its number."""

import os
from collections.abc import Collection

from etils import epath

from t5x_like.checkpoints.manifest import MANIFEST, is_finished, problem_in
from t5x_like.io.files import PathLike, as_path, write_json

_SAVED, _ASIDE = "newest_step.json", ".set-aside"


def absolute(directory: PathLike) -> epath.Path:
    """Return the absolute path, which Orbax needs; bucket addresses are absolute already."""
    text = os.fspath(directory)
    return as_path(text if "://" in text else os.path.abspath(text))


def list_steps(directory: epath.Path) -> list[int]:
    """Return all steps with a directory, finished or not, in ascending order."""
    if not directory.exists():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if _is_step(path.name) and path.is_dir())


def _is_step(name: str) -> bool:
    """Return whether a directory has the name of a step; ``0100`` is a copy that a person made."""
    return name.isdecimal() and name == str(int(name))


def finished_steps(directory: epath.Path) -> list[int]:
    """Return the steps whose save was completed, in ascending order."""
    return [step for step in list_steps(directory) if is_finished(directory / str(step))]


def newest_whole(directory: epath.Path, candidates: list[int]) -> tuple[int | None, list[str]]:
    """Return the first undamaged step of the candidates, and the problems of those before it.

    Args:
      directory: Folder of the checkpoints.
      candidates: Steps, newest first.
    """
    skipped = []
    for step in candidates:
        problem = problem_in(directory / str(step))
        if problem is None:
            return step, skipped
        skipped.append(f"step {step} can't be used: {problem}")
    return None, skipped


def find_checkpoints(directory: epath.Path) -> tuple[epath.Path, int | None]:
    """Return the directory of steps for a run or a single step, and the step that is named."""
    if (directory / "leaves.json").exists() and _is_step(directory.name):
        return directory.parent, int(directory.name)
    if not list_steps(directory) and (directory / "checkpoints").exists():
        return directory / "checkpoints", None
    return directory, None


def whole_step(directory: epath.Path, step: int | None = None) -> epath.Path:
    """Return the directory of the newest undamaged step, or of exactly ``step``. Every file of it is read.

    Args:
      directory: A run, its ``checkpoints`` directory, or one step.
      step: ``None`` for the newest.

    Raises:
      ValueError: There is no such step, or it is damaged.
    """
    parent, named = find_checkpoints(directory)
    step = named if step is None else step
    candidates = [saved_step for saved_step in list_steps(parent)[::-1] if step in (None, saved_step)]
    chosen, skipped = newest_whole(parent, candidates)
    if chosen is None:
        wanted = "checkpoint" if step is None else f"step {step}"
        raise ValueError("\n  ".join([f"{parent} has no undamaged {wanted}", *skipped]))
    return parent / str(chosen)


def note_saved(directory: epath.Path, step: int) -> None:
    """Note next to the steps that one was saved. A run that has lost all of them is then not taken for a new one.

    Args:
      directory: Folder of the checkpoints.
      step: Step that was saved.
    """
    write_json(directory / _SAVED, {"step": step})


def lost_steps(directory: epath.Path) -> str | None:
    """Return in words the remains of a run whose saved steps can no longer be used; ``None`` for a new one."""
    if finished_steps(directory):
        return None
    unfinished = list_steps(directory)
    aside = [path.name for path in set_aside(directory)]
    noted = (directory / _SAVED).exists()
    if not noted and not aside and len(unfinished) < 2:
        return None  # at most its first save was interrupted
    reasons = {
        f"{_SAVED}: a step was saved": noted,
        f"directories of steps without {MANIFEST}: {', '.join(map(str, unfinished))}": unfinished,
        f"steps set aside: {', '.join(aside)}": aside,
    }
    return "; ".join(words for words, is_there in reasons.items() if is_there)


def make_room(directory: epath.Path, step: int) -> None:
    """Rename later checkpoints to ``<step>.set-aside`` after a run returned to an earlier step.

    Args:
      directory: Folder of the checkpoints.
      step: First step to rename.
    """
    for later in list_steps(directory):
        if later < step:
            continue
        path = directory / str(later)
        if is_finished(path):
            aside = directory / f"{later}{_ASIDE}"
            _remove(aside)
            path.rename(aside)
        else:
            _remove(path)


def set_aside(directory: epath.Path) -> list[epath.Path]:
    """Return the directories of finished steps that ``make_room`` has moved out of the way."""
    return sorted(directory.glob(f"*{_ASIDE}"), key=lambda path: path.name) if directory.exists() else []


def prune(directory: epath.Path, keep: int, protected: int | None = None) -> None:
    """Delete all but the newest ``keep`` finished steps, and the remains of interrupted saves.

    Args:
      directory: Where the steps are.
      keep: Number of steps.
      protected: A step that is kept as well.
    """
    delete_all_but({*finished_steps(directory)[-keep:], protected}, directory)


def delete_all_but(kept: Collection[int | None], directory: epath.Path) -> None:
    """Delete all other steps, finished or not.

    Args:
      kept: Steps to keep.
      directory: Folder of the checkpoints.
    """
    for step in list_steps(directory):
        if step not in kept:
            _remove(directory / str(step))


def remove_unfinished(directory: epath.Path, step: int) -> None:
    """Delete the files of an unfinished save.

    Args:
      directory: Folder of the checkpoints.
      step: Step that may be unfinished; a finished one stays.
    """
    if not is_finished(directory / str(step)):
        _remove(directory / str(step))


def _remove(path: epath.Path) -> None:
    """Delete a step, the manifest first, so that a half-deleted step never looks finished; of a link only the link."""
    if os.path.islink(path):
        os.unlink(path)
    elif path.exists():
        (path / MANIFEST).unlink(missing_ok=True)
        path.rmtree()
