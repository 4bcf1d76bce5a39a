"""The folders of a run's checkpoints, one for each saved step, named by its number."""

import os

from etils import epath

from t5x_like.checkpoints.manifest import MANIFEST, is_finished, problem_in
from t5x_like.io.files import PathLike, as_path


def absolute(directory: PathLike) -> epath.Path:
    """Orbax insists on absolute local paths; bucket addresses are absolute already."""
    text = os.fspath(directory)
    return as_path(text if "://" in text else os.path.abspath(text))


def list_steps(directory: epath.Path) -> list[int]:
    """Every step with a folder, finished or not, in ascending order."""
    if not directory.exists():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal() and path.is_dir())


def finished_steps(directory: epath.Path) -> list[int]:
    """The steps whose save got to its end, in ascending order."""
    return [step for step in list_steps(directory) if is_finished(directory / str(step))]


def newest_whole(directory: epath.Path, candidates: list[int]) -> tuple[int | None, list[str]]:
    """The first of ``candidates`` (newest first) that is as it was written, and why not those before it."""
    skipped = []
    for step in candidates:
        problem = problem_in(directory / str(step))
        if problem is None:
            return step, skipped
        skipped.append(f"step {step} can't be used: {problem}")
    return None, skipped


def find_checkpoints(directory: epath.Path) -> tuple[epath.Path, int | None]:
    """The folder of steps in (or around) ``directory``, which may be a run or a single step."""
    if (directory / "leaves.json").exists() and directory.name.isdecimal():
        return directory.parent, int(directory.name)
    if not list_steps(directory) and (directory / "checkpoints").exists():
        return directory / "checkpoints", None
    return directory, None


def make_room(directory: epath.Path, step: int) -> None:
    """Clears the way for ``step``: a run that went back leaves its later steps as ``<step>.set-aside``."""
    for later in list_steps(directory):
        if later < step:
            continue
        path = directory / str(later)
        if is_finished(path):
            aside = directory / f"{later}.set-aside"
            _remove(aside)
            path.rename(aside)
        else:
            _remove(path)


def prune(directory: epath.Path, keep: int) -> None:
    """Deletes all but the newest ``keep`` finished steps, and the remains of saves that were cut short."""
    kept = finished_steps(directory)[-keep:]
    for step in list_steps(directory):
        if step not in kept:
            _remove(directory / str(step))


def _remove(path: epath.Path) -> None:
    """Deletes a step; the manifest goes first, so that a half-deleted step never looks finished."""
    if path.exists():
        (path / MANIFEST).unlink(missing_ok=True)
        path.rmtree()
