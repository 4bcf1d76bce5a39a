"""Precision, recall and F1 of chunks in tagged sentences, times 100, by seqeval.

CoNLL-2000's chunking and CoNLL-2003's names (Tjong Kim Sang and Buchholz 2000, https://aclanthology.org/W00-0726); the
rules are those of the shared tasks' ``conlleval``.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores, require_pairs

Tags = Sequence[str | None]  # of a sentence; true ones are None for words without a label

# Last words and single words of other schemes (Ratinov and Roth 2009, https://aclanthology.org/W09-1119).
_SIDES_OF_BIOES = {"L-": "E-", "U-": "S-", "W-": "S-"}


def chunk_f1(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> Scores:
    """Compute precision, recall and F1 over all chunks, and the accuracy of tags.

    A chunk is right if its type and both ends are right. An ``I`` after nothing, or after another type, begins a chunk,
    so BIO, IOB1, BIOES and BILOU are read alike. Tags without a side, such as parts of speech, are chunks of equal
    ones, as in XTREME's evaluate.py. Undefined scores are 0.

    Args:
      targets: Sentences as lists of tags: ``B-LOC``, ``I-LOC``, ``O``; None for words without a label, which don't
        count.
      predictions: Predicted tags of the same sentences.

    Raises:
      ValueError: A sentence has different numbers of predicted and true tags.
    """
    return scores_from_counts(chunk_counts(targets, predictions).sum(0))


def chunk_counts(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> np.ndarray:
    """Count chunks and tags of each sentence.

    Args:
      targets: True IOB2 tags of each sentence; None for words without a label.
      predictions: Predicted tags of each sentence.

    Returns:
      [sentences, 5]: right, predicted and true chunks, right tags and all tags.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes seconds to import

    require_pairs(targets, predictions)
    counts = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* seems not to be NE tag")  # a prediction may be any text
        for index, (truth, guess) in enumerate(zip(targets, predictions, strict=True)):
            if len(truth) != len(guess):
                raise ValueError(
                    f"sentence {index} has {len(truth)} tags but {len(guess)} predicted ones; give one for each word"
                )
            truth, guess = labeled_tags(truth, guess)
            true, predicted = (
                set(get_entities([_with_side(tag) for tag in tags])) for tags in (truth, guess)
            )
            right_tags = sum(left == right for left, right in zip(truth, guess, strict=True))
            counts.append((len(true & predicted), len(predicted), len(true), right_tags, len(truth)))
    return np.array(counts)


def _with_side(tag: str) -> str:
    """Return a tag with a side that seqeval knows: BIOES' letters for BILOU's and BMEWO's, and one where it has none.

    Without a side, seqeval would cut the first letter from its type.
    """
    if len(tag) > 1 and "-" not in tag:
        return f"{tag[0]}-{tag}"
    return _SIDES_OF_BIOES.get(tag[:2], tag[:2]) + tag[2:]


def labeled_tags(truth: Tags, guess: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the true and predicted tags of a sentence's words that have a label.

    Args:
      truth: True tags; None for words without a label.
      guess: Predicted tag of each word.
    """
    pairs = [(true, predicted) for true, predicted in zip(truth, guess, strict=True) if true is not None]
    return [true for true, _ in pairs], [predicted for _, predicted in pairs]


def scores_from_counts(counts: np.ndarray) -> Scores:
    """Return the scores of summed counts, as from ``chunk_counts``."""
    right, predicted, true, right_tags, tags = counts.tolist()
    return {
        "precision": 100.0 * right / max(predicted, 1),
        "recall": 100.0 * right / max(true, 1),
        "f1": 200.0 * right / max(predicted + true, 1),
        "tag_accuracy": 100.0 * right_tags / max(tags, 1),
    }


def argument_f1(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> Scores:
    """Compute precision, recall and F1 over the arguments of predicates (Carreras and Màrquez 2005, §2.2).

    An argument is right if its role and all its words are right. ``C-A1`` continues the last ``A1`` before it; both are
    one argument. The predicate, ``V``, is given and doesn't count, as in the overall scores of the shared task
    (https://aclanthology.org/W05-0620).

    Args:
      targets: Tags of each predicate's sentence: ``B-A0``, ``I-A0``, ``B-C-A1``, ``O``.
      predictions: Predicted tags of the same sentences.

    Raises:
      ValueError: A sentence has different numbers of predicted and true tags.
    """
    counts = _argument_counts(targets, predictions).sum(0)
    scores = scores_from_counts(np.array([*counts, 0, 0]))
    return {name: scores[name] for name in ("precision", "recall", "f1")}


def _argument_counts(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> np.ndarray:
    """Count right, predicted and true arguments of each sentence, [sentences, 3]."""
    require_pairs(targets, predictions)
    counts = []
    for index, (truth, guess) in enumerate(zip(targets, predictions, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(
                f"sentence {index} has {len(truth)} tags but {len(guess)} predicted ones; give one for each word"
            )
        true, predicted = map(_arguments, labeled_tags(truth, guess))
        counts.append((len(true & predicted), len(predicted), len(true)))
    return np.array(counts)


def _arguments(tags: Sequence[str]) -> set[tuple[str, tuple[tuple[int, int], ...]]]:
    """Return roles with the first and last words of their parts."""
    from seqeval.metrics.sequence_labeling import get_entities  # takes seconds to import

    arguments: list[tuple[str, list[tuple[int, int]]]] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* seems not to be NE tag")
        entities = get_entities(list(tags))
    for role, start, end in entities:
        continued = [parts for name, parts in arguments if f"C-{name}" == role]
        if continued:
            continued[-1].append((start, end))
        else:
            arguments.append((role, [(start, end)]))
    return {(role, tuple(parts)) for role, parts in arguments if role not in ("V", "C-V")}
