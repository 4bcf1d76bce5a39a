"""Averages of weights: of a run's last checkpoints, of several runs, or the moving average that a run has kept."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from t5x_like.checkpoints.state_names import describe, refuse_differences
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_unread
from t5x_like.pretrained.output_scale import has_plain_numbers
from t5x_like.pretrained.run_weights import steps_of


@contextmanager
def open_mean(sources: Sequence[PathLike], *, last: int = 1) -> Iterator[Checkpoint]:
    """Open the mean of several checkpoints' weights; while this is open, each use reads them.

    The last checkpoints of one run are averaged as in Vaswani et al. 2017, §6.1. Runs that were fine-tuned from the
    same weights with other seeds or rates make a uniform model soup (Wortsman et al. 2022);
    ``training.model_soup.greedy_soup`` chooses among them.

    Args:
      sources: Directories of the runs.
      last: Number of each run's newest checkpoints.

    Raises:
      ValueError: A run has fewer checkpoints, or they are of different models or classes.
    """
    chosen = [(source, step) for source in sources for step in _last_steps(source, last)]
    with ExitStack() as stack:
        opened = [stack.enter_context(open_unread(source, step=step)) for source, step in chosen]
        require_alike(opened, joined="to be averaged with")
        _require_one_scale(opened)
        flat = [parameters.flatten(each.params) for each in opened]
        means = {path: _mean([weights[path] for weights in flat]) for path in flat[0]}
        yield replace(opened[0], params=parameters.unflatten(means), step=max(step for _, step in chosen))


def require_alike(opened: Sequence[Checkpoint], *, joined: str) -> None:
    """Check that checkpoints are of one model, with the same classes.

    Args:
      opened: Checkpoints to compare.
      joined: Words between the directories of two for a message, such as "to be averaged with".

    Raises:
      ValueError: They are not; names what differs.
    """
    first, *others = opened
    shape = describe(parameters.flatten(first.params))
    for other in others:
        pair = f"{other.directory}, {joined} {first.directory},"
        refuse_differences(describe(parameters.flatten(other.params)), shape, where=pair)
        if other.class_names != first.class_names:
            raise ValueError(
                f"{pair} has a head with other classes, or another order of them: {', '.join(other.class_names)}, and "
                f"there {', '.join(first.class_names)}; only models with equal ones can be averaged"
            )


def _require_one_scale(opened: Sequence[Checkpoint]) -> None:
    """Check that no exported regression is averaged with a standardized one.

    Raises:
      ValueError: One is.
    """
    first, *others = opened
    for other in others:
        if has_plain_numbers(other.fields) != has_plain_numbers(first.fields):
            export, run = (other, first) if has_plain_numbers(other.fields) else (first, other)
            raise ValueError(
                f"{export.directory} is the export of a regression, which predicts the table's own numbers, and "
                f"{run.directory} standardized ones; average the run that was exported, or exports only"
            )


def _last_steps(source: PathLike, last: int) -> list[int]:
    steps = steps_of(source)
    if len(steps) < last:
        listed = f"of the steps {', '.join(map(str, steps))}" if steps else "none at all"
        raise ValueError(
            f"{source} has {len(steps)} checkpoints, {listed}; average at most as many, or train with "
            f"Intervals.keep_checkpoints={last}"
        )
    return steps[-last:]


def _mean(arrays: Sequence[LazyArray | np.ndarray]) -> LazyArray:
    """Return the mean of arrays, added in float64."""

    def read(index: Index) -> np.ndarray:
        total = np.zeros((), np.float64)
        for array in arrays:
            total = total + np.asarray(array[index], np.float64)
        return (total / len(arrays)).astype(np.float32)

    return LazyArray(tuple(arrays[0].shape), read)
