"""Tokenized rows with labels for heads, in memory."""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from t5x_like.batch import FIELDS, DataField
from t5x_like.text.batches.in_memory import RaggedArrayBuilder
from t5x_like.text.fields import token_dtype
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import InputFormat, InputFraming
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.objectives.objective import Example
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_ROWS_AT_ONCE = 1024  # rows given to the tokenizer together


# Columns with one value for each example: labels as in ``Batch``, and where the example comes from.
_VALUES = {
    **{field.example_field: field.dtype for field in FIELDS.values() if field.level == "example"},
    "origin": "int64",
    "offset": "int64",
}
# Columns of any length. Classes are stored plus 1, so that none is negative.
_SEQUENCES = {"classes": "uint16", "starts": "int32", "ends": "int32"}


class LabeledExamples:
    """Tokenized examples in flat arrays.

    Attributes:
      head_format: Format of the rows that the head reads.
      input_format: Special ids and lengths of the inputs.
      num_choices: Number of input rows per example, for choices and pairs in both orders; 0 for one row.
      cut: Indices of the rows whose texts were cut to fit.
      cut_in_all: Tokens that were cut off in all rows, or sentences (``HeadFormat.cut_unit``).
      streams: Declared streams of the examples, without those of tokens, which are the format's.
    """

    def __init__(
        self,
        head_format: HeadFormat,
        input_format: InputFormat,
        examples: Iterable[LabeledExample],
        vocab_size: int,
        *,
        streams: Sequence[DataField] = (),
    ) -> None:
        self.head_format, self.input_format, self.streams = head_format, input_format, tuple(streams)
        dtypes = {name: dtype for name, dtype in _VALUES.items() if name not in _SEQUENCES}
        values: dict[str, list[Any]] = {name: [] for name in dtypes}
        declared: dict[str, list[float]] = {field.name: [] for field in streams}
        of_tokens = {field.name: RaggedArrayBuilder(field.dtype) for field in head_format.streams}
        sequences = {name: RaggedArrayBuilder(dtype) for name, dtype in _SEQUENCES.items()}
        tokens, seconds = RaggedArrayBuilder(token_dtype(vocab_size)), list[int]()
        counts, cut, cut_in_all = set[int](), set[int](), 0
        for each in examples:  # one by one: ReCoRD has more than a million
            tokens.extend(row.tokens for row in each.rows)
            seconds += [row.second for row in each.rows]
            for name, column in values.items():
                column.append(getattr(each, name))
            for field in streams:
                declared[field.name].append(each.declared.get(field.name, field.padding))
            for name, builder in of_tokens.items():
                builder.extend([each.declared[name]])
            for name, builder in sequences.items():
                sequence = getattr(each, name)
                sequence = np.zeros(0, np.int32) if sequence is None else sequence
                builder.extend([sequence + 1 if name == "classes" else sequence])
            counts.add(len(each.rows))
            if any(row.num_cut for row in each.rows):
                cut.add(each.origin)
                cut_in_all += sum(row.num_cut for row in each.rows)
        if len(counts) > 1:
            listed = " or ".join(map(str, sorted(counts)))
            raise ValueError(f"rows have {listed} choices; all must have equally many")
        most = max(counts, default=0)
        self.num_choices = most if head_format.has_choices or most > 1 else 0
        self.cut, self.cut_in_all = frozenset(cut), cut_in_all
        self._seconds, self._tokens = np.array(seconds, np.int32), tokens.build()
        self._values = {name: np.array(column, dtypes[name]) for name, column in values.items()}
        self._values["span"] = self._values["span"].reshape(-1, 2)
        self._declared = {field.name: np.array(declared[field.name], field.dtype) for field in streams}
        self._sequences = {name: builder.build() for name, builder in sequences.items()}
        self._of_tokens = {name: builder.build() for name, builder in of_tokens.items()}

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labels(self) -> np.ndarray:
        """Class of each example, int32 [N]."""
        return self._values["label"]

    @property
    def origins(self) -> np.ndarray:
        """Index of the row that each example comes from, int64 [N]."""
        return self._values["origin"]

    @property
    def offsets(self) -> np.ndarray:
        """Start of the example's window in the context, in tokens, int64 [N]."""
        return self._values["offset"]

    @property
    def num_cut(self) -> int:
        """Number of rows whose texts were cut to fit."""
        return len(self.cut)

    def part(self, rows: Sequence[int]) -> "LabeledExamples":
        """Return the examples of some rows, renumbered in the given order."""
        first, last = (np.searchsorted(self.origins, rows, side) for side in ("left", "right"))
        numbers = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        choices = self.num_choices or 1
        choice_rows = (numbers[:, None] * choices + np.arange(choices)).reshape(-1)
        part = copy.copy(self)
        part.cut = frozenset(new for new, row in enumerate(rows) if row in self.cut)
        part._values = {name: column[numbers] for name, column in self._values.items()}
        part._values["origin"] = np.repeat(np.arange(len(rows)), last - first)
        part._declared = {name: column[numbers] for name, column in self._declared.items()}
        part._seconds, part._tokens = self._seconds[choice_rows], self._tokens.part(choice_rows)
        part._sequences = {name: sequences.part(numbers) for name, sequences in self._sequences.items()}
        part._of_tokens = {name: sequences.part(numbers) for name, sequences in self._of_tokens.items()}
        return part

    @property
    def checksum(self) -> int:
        """Hash of all tokens and labels."""
        digest = hashlib.blake2b(digest_size=7)
        labels = (self._values[name] for name in ("label", "value", "span"))
        classes = self._sequences["classes"]
        of_tokens = (each.flat for each in self._of_tokens.values())
        columns = (self._seconds, *labels, classes.flat, classes.ends, *self._declared.values(), *of_tokens)
        for column in (self._tokens.flat, self._tokens.ends, *columns):
            digest.update(repr(column.shape).encode() + np.ascontiguousarray(column).tobytes())
        return int.from_bytes(digest.digest(), "big")

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of each example's longest row, int64 [N]."""
        return self._tokens.lengths.reshape(len(self), -1).max(axis=1)

    def example(self, index: int) -> Example:
        """Return one example for ``BatchLayout``."""
        choices = self.num_choices or 1
        rows = [self._row(index * choices + choice) for choice in range(choices)]
        labeled: dict[str, Any] = {name: self._values[name][index].item() for name in ("label", "value")}
        labeled["span"] = tuple(self._values["span"][index].tolist())
        declared = {**self._declared, **self._of_tokens}
        labeled["declared"] = {name: column[index] for name, column in declared.items()}
        if self.head_format.label_loss == "multi_label":
            labeled["classes"] = self._indicators(index)
        if self.num_choices:
            return Example(choices=tuple(rows), **labeled)
        if self.head_format.tags_tokens:
            classes = self._sequences["classes"][index] - 1
            weights = (classes >= 0).astype(np.float32)
            return rows[0]._replace(
                targets=np.maximum(classes, 0), weights=weights, declared=labeled["declared"]
            )
        return rows[0]._replace(**labeled)

    def context_start(self, index: int) -> int:
        """Return the first token of the context in which the answer may lie."""
        return 0 if self.input_format.context_first else int(self._seconds[index])

    def cls_position(self, index: int) -> int:
        """Return the position of the class token, which represents unanswerable questions."""
        return self.input_format.cls_position(int(self._tokens.lengths[index]))

    def character_offsets(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the character offsets at which each token of the context begins and ends."""
        return self._sequences["starts"][index], self._sequences["ends"][index]

    def _indicators(self, index: int) -> np.ndarray:
        """Return 1 for each class of an example, int32 [C]; -1 everywhere if it is unlabeled."""
        classes = self._sequences["classes"][index] - 1
        if (classes < 0).any():
            return np.full(self.head_format.num_outputs, -1, np.int32)
        indicators = np.zeros(self.head_format.num_outputs, np.int32)
        indicators[classes] = 1
        return indicators

    def _row(self, index: int) -> Example:
        tokens = self._tokens[index]
        return self.head_format.input_row(tokens, int(self._seconds[index]), self.input_format)


def make_examples(
    head_format: HeadFormat,
    rows: Iterable[LabeledRow],
    tokenizer: Tokenizer,
    *,
    length: int,
    stride: int = 128,
    framing: InputFraming | None = None,
    streams: Sequence[DataField] = (),
) -> LabeledExamples:
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
      streams: Declared streams, whose values the rows have.

    Raises:
      ValueError: Rows have different numbers of choices, or vocabulary, length or framing don't suit the head.
    """
    input_format = head_format.input_format(tokenizer, length, framing)
    if input_format.both_orders and not head_format.is_pair:
        raise ValueError(
            "both_orders reads a pair of texts in both orders, for a class or a number of the pair; this task has no "
            "such pair, leave both_orders out of its InputFraming"
        )

    def encoded() -> Iterator[LabeledExample]:
        remaining, first = iter(rows), 0
        while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
            for each in head_format.encode(chunk, first, tokenizer, input_format, stride=stride):
                yield each._replace(declared={**each.declared, **chunk[each.origin - first].declared})
            first += len(chunk)

    return LabeledExamples(head_format, input_format, encoded(), tokenizer.vocab_size, streams=streams)
