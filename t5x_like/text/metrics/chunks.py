"""Precision, recall and F1 of chunks in tagged sentences, times 100, by seqeval.

CoNLL-2000's chunking and CoNLL-2003's names (Tjong Kim Sang and Buchholz 2000, https://aclanthology.org/W00-0726); the
rules are those of the shared tasks' ``conlleval``.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores, require_pairs


def chunk_f1(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Scores:
    """Compute precision, recall and F1 over all chunks, and the accuracy of tags.

    A chunk is right if its type and both ends are right. An ``I`` after nothing, or after another type, begins a chunk,
    so BIO, IOB1 and BIOES are read alike. Undefined scores are 0.

    Args:
      targets: Sentences as lists of tags: ``B-LOC``, ``I-LOC``, ``O``.
      predictions: The same for predicted tags.

    Raises:
      ValueError: A sentence has different numbers of predicted and true tags.
    """
    return scores_from_counts(chunk_counts(targets, predictions).sum(0))


def chunk_counts(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> np.ndarray:
    """Count chunks and tags of each sentence.

    Returns:
      [sentences, 5]: right, predicted and true chunks, right tags and all tags.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes seconds to import

    require_pairs(targets, predictions)
    counts = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* seems not to be NE tag")  # a prediction may be any text
        for number, (truth, guess) in enumerate(zip(targets, predictions, strict=True)):
            if len(truth) != len(guess):
                raise ValueError(
                    f"sentence {number} has {len(truth)} tags but {len(guess)} predicted ones; give one for each word"
                )
            true, predicted = (set(get_entities(list(tags))) for tags in (truth, guess))
            right_tags = sum(left == right for left, right in zip(truth, guess, strict=True))
            counts.append((len(true & predicted), len(predicted), len(true), right_tags, len(truth)))
    return np.array(counts)


def scores_from_counts(counts: np.ndarray) -> Scores:
    """Return the scores of summed counts, as from ``chunk_counts``."""
    right, predicted, true, right_tags, tags = counts.tolist()
    return {
        "precision": 100.0 * right / max(predicted, 1),
        "recall": 100.0 * right / max(true, 1),
        "f1": 200.0 * right / max(predicted + true, 1),
        "tag_accuracy": 100.0 * right_tags / max(tags, 1),
    }
