"""The small shipped vocabulary, which replaces T5's where that can't be reached and tasks are only looked at."""

import dataclasses
import functools
import logging

from t5x_like.io.paths import find_file
from t5x_like.text.benchmarks.task import T5_VOCABULARY
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.vocabularies.opening import open_tokenizer

_log = logging.getLogger(__name__)

SHIPPED_VOCABULARY = "data/vocabulary/spiece.model"


def with_vocabulary_in_reach(task: FileTask[object]) -> FileTask[object]:
    """Return a task with its own vocabulary, or with the shipped one if its own is T5's and can't be reached.

    So tasks can be inspected without a network. A warning says so, because pretrained weights are useless with another
    vocabulary. Training from a recipe refuses instead.
    """
    if task.vocabulary != T5_VOCABULARY or _is_in_reach(task.vocabulary, task.num_sentinels):
        return task
    return dataclasses.replace(task, vocabulary=find_file(SHIPPED_VOCABULARY))


def warn_of_shipped_vocabulary(path: str, error: Exception) -> None:
    """Log that the shipped vocabulary replaces another one.

    Args:
      path: Path of the vocabulary that can't be reached.
      error: The reason.
    """
    _log.warning(
        "T5's vocabulary %s can't be reached (%s). The small shipped one is used instead: good for "
        "trying tasks out, useless with T5's weights. Copy T5's here and name it: "
        "export T5X_LIKE_VOCABULARY=path/to/spiece.model",
        path,
        (str(error).strip() or type(error).__name__).splitlines()[0],
    )


@functools.cache
def _is_in_reach(vocabulary: str, num_sentinels: int) -> bool:
    """Return whether a vocabulary can be opened; every task of a mixture asks, and a bucket answers slowly."""
    try:
        open_tokenizer(vocabulary, num_sentinels)
    except Exception as error:  # each file system has its own exceptions
        warn_of_shipped_vocabulary(vocabulary, error)
        return False
    return True
