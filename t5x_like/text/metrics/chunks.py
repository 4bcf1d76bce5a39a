"""Entities and phrases in rows of tags: precision, recall and F1 as conlleval and seqeval count them, times 100.

CoNLL-2000's chunking and CoNLL-2003's names (Tjong Kim Sang and Buchholz 2000, https://aclanthology.org/W00-0726;
the rules are those of the shared tasks' ``conlleval``).
"""

from collections.abc import Sequence
from typing import NamedTuple

from t5x_like.text.metrics.classification import Scores, require_pairs

_OUTSIDE = ("O", ".")
# In the tags B begins, I goes on, E ends and S stands alone. Pairs of what was before and what is now:
_ENDS = {(before, now) for before in "ES" for now in "BIESO."} | {
    (before, now) for before in "BI" for now in "BSO"
}
_BEGINS = {(before, now) for before in "ESO" for now in "EI"}


class Chunk(NamedTuple):
    """A chunk's kind, and its first and last word."""

    kind: str
    first: int
    last: int


def chunks_of(tags: Sequence[str]) -> list[Chunk]:
    """The chunks of one sentence, tagged ``B-LOC``, ``I-LOC``, ``O`` (BIO, IOB1 or BIOES).

    An ``I`` that follows nothing, or another kind, begins a chunk: so IOB1 is read rightly, and no tag is invalid.
    """
    found: list[Chunk] = []
    first, before, kind_before = 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        now, kind = tag[:1], tag[1:].split("-", maxsplit=1)[-1] or "_"
        other_kind = kind_before != kind
        if (before, now) in _ENDS or (before not in _OUTSIDE and other_kind):
            found.append(Chunk(kind_before, first, place - 1))
        if now in ("B", "S") or (before, now) in _BEGINS or (now not in _OUTSIDE and other_kind):
            first = place
        before, kind_before = now, kind
    return found


def chunk_f1(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Scores:
    """Precision, recall and F1 over all chunks, and the accuracy of tags. Rows are sentences, lists of tags.

    A chunk counts if its kind and both of its ends are right. What there is nothing of counts 0, as in conlleval.

    Raises:
      ValueError: a sentence with more or fewer predicted than true tags.
    """
    require_pairs(targets, predictions)
    counts = _Counts()
    for number, (truth, guess) in enumerate(zip(targets, predictions, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(
                f"sentence {number} has {len(truth)} tags but {len(guess)} predicted ones; give one for each word"
            )
        true_chunks, guessed = set(chunks_of(truth)), set(chunks_of(guess))
        counts.right += len(true_chunks & guessed)
        counts.true += len(true_chunks)
        counts.guessed += len(guessed)
        counts.tags_right += sum(left == right for left, right in zip(truth, guess, strict=True))
        counts.tags += len(truth)
    precision, recall = _share(counts.right, counts.guessed), _share(counts.right, counts.true)
    return {
        "precision": precision,
        "recall": recall,
        "f1": _share(2 * counts.right, counts.guessed + counts.true),
        "tag_accuracy": _share(counts.tags_right, counts.tags),
    }


class _Counts:
    right = true = guessed = tags_right = tags = 0


def _share(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
