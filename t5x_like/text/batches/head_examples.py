"""Tokenized rows with labels for heads, in memory."""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from t5x_like.text.batches.in_memory import RaggedArrayBuilder
from t5x_like.text.heads.head_format import HeadExample, HeadFormat, HeadRow
from t5x_like.text.heads.input_format import InputFormat, InputFraming
from t5x_like.text.objectives.objective import Example

_ROWS_AT_ONCE = 1024  # rows given to the tokenizer together


class HeadExamples:
    """Tokenized examples in flat arrays.

    Attributes:
      head_format: Format of the rows that the head reads.
      input_format: Special ids and lengths of the inputs.
      num_choices: Number of input rows per example, for choices and pairs in both orders; 0 for one row.
      cut: Indices of the rows whose texts were cut to fit.
      labels: Class of each example, int32 [N].
      values: Number to predict, float32 [N].
      spans: First and last token of the answer, int32 [N, 2].
      origins: Index of the row that each example comes from, int64 [N].
      offsets: Start of the example's window in the context, in tokens, int64 [N].
    """

    def __init__(
        self,
        head_format: HeadFormat,
        input_format: InputFormat,
        examples: Iterable[HeadExample],
        vocab_size: int,
    ) -> None:
        self.head_format, self.input_format = head_format, input_format
        tokens, classes, starts, ends = (
            RaggedArrayBuilder(size) for size in (vocab_size, 2**16, 2**31, 2**31)
        )
        seconds, labels, values, spans, origins, offsets = [], [], [], [], [], []
        counts, cut = set[int](), set[int]()
        for each in examples:  # one by one: ReCoRD has more than a million
            tokens.extend(row.tokens for row in each.rows)
            seconds += [row.second for row in each.rows]
            labels.append(each.label)
            values.append(each.value)
            spans.append(each.span)
            origins.append(each.origin)
            offsets.append(each.offset)
            classes.extend([_or_empty(each.classes) + 1])  # plus 1, so that no value is negative
            starts.extend([_or_empty(each.starts)])
            ends.extend([_or_empty(each.ends)])
            counts.add(len(each.rows))
            if any(row.num_cut for row in each.rows):
                cut.add(each.origin)
        if len(counts) > 1:
            listed = " or ".join(map(str, sorted(counts)))
            raise ValueError(f"rows have {listed} choices; all must have equally many")
        most = max(counts, default=0)
        self.num_choices = most if head_format.has_choices or most > 1 else 0
        self.cut = frozenset(cut)
        self.labels, self._seconds = np.array(labels, np.int32), np.array(seconds, np.int32)
        self.values = np.array(values, np.float32)
        self.spans = np.array(spans, np.int32).reshape(-1, 2)
        self.origins, self.offsets = np.array(origins, np.int64), np.array(offsets, np.int64)
        self._tokens, self._classes, self._starts, self._ends = (
            builder.build() for builder in (tokens, classes, starts, ends)
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_cut(self) -> int:
        """Number of rows whose texts were cut to fit."""
        return len(self.cut)

    def part(self, rows: Sequence[int]) -> "HeadExamples":
        """Return the examples of some rows, renumbered in the given order."""
        first, last = (np.searchsorted(self.origins, rows, side) for side in ("left", "right"))
        numbers = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        choices = self.num_choices or 1
        choice_rows = (numbers[:, None] * choices + np.arange(choices)).reshape(-1)
        found = copy.copy(self)
        found.cut = frozenset(new for new, row in enumerate(rows) if row in self.cut)
        found.origins = np.repeat(np.arange(len(rows)), last - first)
        for name in ("labels", "values", "spans", "offsets"):
            setattr(found, name, getattr(self, name)[numbers])
        found._seconds, found._tokens = self._seconds[choice_rows], self._tokens.part(choice_rows)
        for name in ("_classes", "_starts", "_ends"):
            setattr(found, name, getattr(self, name).part(numbers))
        return found

    @property
    def checksum(self) -> int:
        """Hash of all tokens and labels."""
        digest = hashlib.blake2b(digest_size=7)
        columns = (
            self._seconds,
            self.labels,
            self.values,
            self.spans,
            self._classes.flat,
            self._classes.ends,
        )
        for column in (self._tokens.flat, self._tokens.ends, *columns):
            digest.update(repr(column.shape).encode() + np.ascontiguousarray(column).tobytes())
        return int.from_bytes(digest.digest(), "big")

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of each example's longest row, int64 [N]."""
        return self._tokens.lengths.reshape(len(self), -1).max(axis=1)

    def example(self, number: int) -> Example:
        """Return one example for ``make_batch``."""
        choices = self.num_choices or 1
        rows = [self._row(number * choices + choice) for choice in range(choices)]
        labeled: dict[str, Any] = {
            "label": int(self.labels[number]),
            "value": float(self.values[number]),
            "span": (int(self.spans[number, 0]), int(self.spans[number, 1])),
        }
        if self.head_format.has_label_sets:
            labeled["classes"] = self._indicators(number)
        if self.num_choices:
            return Example(choices=tuple(rows), **labeled)
        if self.head_format.tags_tokens:
            classes = self._classes[number] - 1
            weights = (classes >= 0).astype(np.float32)
            return rows[0]._replace(targets=np.maximum(classes, 0), weights=weights)
        return rows[0]._replace(**labeled)

    def context_start(self, number: int) -> int:
        """Return the first token of the context in which the answer may lie."""
        return 0 if self.input_format.context_first else int(self._seconds[number])

    def cls_position(self, number: int) -> int:
        """Return the position of the class token, which represents unanswerable questions."""
        return self.input_format.cls_position(int(self._tokens.lengths[number]))

    def character_offsets(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the character offsets at which each token of the context begins and ends."""
        return self._starts[number], self._ends[number]

    def _indicators(self, number: int) -> np.ndarray:
        """Return 1 for each class of an example, int32 [C]; -1 everywhere if it is unlabeled."""
        classes = self._classes[number] - 1
        if (classes < 0).any():
            return np.full(self.head_format.num_outputs, -1, np.int32)
        indicators = np.zeros(self.head_format.num_outputs, np.int32)
        indicators[classes] = 1
        return indicators

    def _row(self, number: int) -> Example:
        tokens = self._tokens[number]
        return self.head_format.input_row(tokens, int(self._seconds[number]), self.input_format)


def make_examples(
    head_format: HeadFormat,
    rows: Iterable[HeadRow],
    tokenizer: Any,
    *,
    length: int,
    stride: int = 128,
    framing: InputFraming | None = None,
) -> HeadExamples:
    """Tokenize rows for a head.

    Contexts longer than the row are read in overlapping windows, as BERT reads SQuAD's (Devlin et al. 2019, §4.2 and
    their code). Other texts are cut; ``num_cut`` counts their rows.

    Args:
      head_format: Format of the rows that the head reads.
      rows: Texts and labels.
      tokenizer: Tokenizer of the texts.
      length: Maximum row length in tokens.
      stride: Distance between two windows in tokens.
      framing: Special tokens around the texts; None for those of the vocabulary.

    Raises:
      ValueError: Rows have different numbers of choices, or vocabulary, length or framing don't suit the head.
    """
    input_format = head_format.input_format(tokenizer, length, framing)
    if input_format.both_orders and not head_format.is_pair:
        raise ValueError(
            "both_orders reads a pair of texts in both orders, for a class or a number of the pair; this task has no "
            "such pair, leave both_orders out of its InputFraming"
        )

    def encoded() -> Iterator[HeadExample]:
        remaining, first = iter(rows), 0
        while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
            yield from head_format.encode(chunk, first, tokenizer, input_format, stride=stride)
            first += len(chunk)

    return HeadExamples(head_format, input_format, encoded(), tokenizer.vocab_size)


def _or_empty(array: np.ndarray | None) -> np.ndarray:
    return np.zeros(0, np.int32) if array is None else array
