"""Rows of a task for encoders' heads as tokens and labels, held in memory."""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.ragged_array import RaggedArrayBuilder
from t5x_like.text.heads.formats import (
    CandidateRanking,
    HeadFormat,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from t5x_like.text.heads.input_format import Framed, Framing, framing_of
from t5x_like.text.heads.pieces import encode_with_places, encode_words, tokens_of
from t5x_like.text.heads.rows import HeadRow
from t5x_like.text.objectives.objective import Example
from t5x_like.text.vocabularies.ids import ids_of

_AT_ONCE = 1024  # rows given to the tokenizer together


class Made(NamedTuple):
    """One example: a row of an encoder, or one for each choice."""

    rows: tuple[Framed, ...]
    origin: int  # the number of the row that it is of; a long context, or candidates, make several examples
    label: int = -1
    value: float = np.nan
    span: tuple[int, int] = (-1, -1)
    classes: np.ndarray | None = None  # int32 [L], -1 where a token has none
    starts: np.ndarray | None = None  # int32, of the context's tokens: the characters that each stands for
    ends: np.ndarray | None = None
    offset: int = 0  # of a window: where it begins among the context's tokens


class HeadExamples:
    """Examples by number, as small as they can be held."""

    def __init__(self, form: HeadFormat, framing: Framing, made: Iterable[Made], vocab_size: int) -> None:
        self.form, self.framing = form, framing
        tokens, classes, starts, ends = (
            RaggedArrayBuilder(size) for size in (vocab_size, 2**16, 2**31, 2**31)
        )
        seconds, labels, values, spans, origins, offsets = [], [], [], [], [], []
        counts, cut = set[int](), set[int]()
        for each in made:  # one by one: of ReCoRD there are more than a million
            tokens.extend(row.tokens for row in each.rows)
            seconds += [row.second for row in each.rows]
            labels.append(each.label)
            values.append(each.value)
            spans.append(each.span)
            origins.append(each.origin)
            offsets.append(each.offset)
            classes.extend([_or_nothing(each.classes) + 1])  # one more, so that nothing is below 0
            starts.extend([_or_nothing(each.starts)])
            ends.extend([_or_nothing(each.ends)])
            counts.add(len(each.rows))
            if any(row.num_cut for row in each.rows):
                cut.add(each.origin)
        if len(counts) > 1:
            listed = " or ".join(map(str, sorted(counts)))
            raise ValueError(f"rows have {listed} choices; all must have equally many")
        self.num_choices = max(counts, default=0) if isinstance(form, MultipleChoice) else 0
        self.cut = frozenset(cut)  # numbers of the rows whose texts are longer than there is room
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
        """How many rows are longer than there is room."""
        return len(self.cut)

    def part(self, rows: Sequence[int]) -> "HeadExamples":
        """The examples of some rows, which are numbered anew in the order given."""
        first, last = (np.searchsorted(self.origins, rows, side) for side in ("left", "right"))
        numbers = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        choices = self.num_choices or 1
        of_rows = (numbers[:, None] * choices + np.arange(choices)).reshape(-1)
        found = copy.copy(self)
        found.cut = frozenset(new for new, row in enumerate(rows) if row in self.cut)
        found.origins = np.repeat(np.arange(len(rows)), last - first)
        for name in ("labels", "values", "spans", "offsets"):
            setattr(found, name, getattr(self, name)[numbers])
        found._seconds, found._tokens = self._seconds[of_rows], self._tokens.part(of_rows)
        for name in ("_classes", "_starts", "_ends"):
            setattr(found, name, getattr(self, name).part(numbers))
        return found

    @property
    def checksum(self) -> int:
        """Tells other examples from these."""
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
        """int64 [N]: the tokens of each example's longest row."""
        return self._tokens.lengths.reshape(len(self), -1).max(axis=1)

    def example(self, number: int) -> Example:
        """What ``batches.features`` lays out."""
        choices = self.num_choices or 1
        rows = [self._row(number * choices + choice) for choice in range(choices)]
        labelled = {
            "label": int(self.labels[number]),
            "value": float(self.values[number]),
            "span": (int(self.spans[number, 0]), int(self.spans[number, 1])),
        }
        if self.num_choices:
            return Example(choices=tuple(rows), **labelled)
        if isinstance(self.form, TokenClassification):
            classes = self._classes[number] - 1
            weights = (classes >= 0).astype(np.float32)
            return rows[0]._replace(targets=np.maximum(classes, 0), weights=weights)
        return rows[0]._replace(**labelled)

    def context(self, number: int) -> int:
        """Where the context begins in which an answer may lie."""
        return 0 if self.framing.cls_last else int(self._seconds[number])

    def cls_place(self, number: int) -> int:
        """Where the class token stands, at which there is no answer."""
        return self.framing.cls_place(int(self._tokens.lengths[number]))

    def places(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the characters begin and end that each token of the context stands for."""
        return self._starts[number], self._ends[number]

    def _row(self, number: int) -> Example:
        tokens = self._tokens[number]
        types = self.framing.token_types(len(tokens), int(self._seconds[number]))
        return Example(inputs=tokens, token_types=types, weights=np.zeros(len(tokens), np.float32))


def make_examples(
    form: HeadFormat, rows: Iterable[HeadRow], tokenizer: Any, *, length: int, stride: int = 128
) -> HeadExamples:
    """Tokenises rows.

    Contexts that are longer than there is room are read in windows, each ``stride`` tokens after the one before, as
    BERT reads SQuAD's (Devlin et al. 2019, §4.2 and their code). Other texts are cut, which ``num_cut`` counts in rows.

    Raises:
      ValueError: choices of different numbers, or a vocabulary or length that leaves no room.
    """
    framing = framing_of(tokenizer, length)
    made = _make_all(form, rows, tokenizer, framing, stride)
    return HeadExamples(form, framing, made, tokenizer.vocab_size)


def _make_all(
    form: HeadFormat, rows: Iterable[HeadRow], tokenizer: Any, framing: Framing, stride: int
) -> Iterator[Made]:
    rows, number = iter(rows), 0
    while chunk := list(islice(rows, _AT_ONCE)):
        yield from _make(form, chunk, number, tokenizer, framing, stride)
        number += len(chunk)


def _make(
    form: HeadFormat, rows: list[HeadRow], first: int, tokenizer: Any, framing: Framing, stride: int
) -> Iterable[Made]:
    if isinstance(form, TokenClassification):
        return _token_classes(rows, first, tokenizer, framing)
    if isinstance(form, QuestionAnswering):
        return [
            made
            for origin, row, question, context in zip(
                range(first, first + len(rows)),
                rows,
                tokenizer.encode_all([row.texts[0][0] for row in rows]),
                encode_with_places(tokenizer, [row.texts[0][1] for row in rows]),
                strict=True,
            )
            for made in _windows(row, origin, question, context, framing, stride)
        ]
    # A context that many choices or candidates share is tokenised once.
    unique = list(dict.fromkeys(text for row in rows for texts in row.texts for text in texts))
    encoded = dict(zip(unique, tokenizer.encode_all(unique), strict=True))
    return (
        made
        for origin, row in enumerate(rows, start=first)
        for made in _of_texts(
            form, row, origin, [framing.frame([encoded[text] for text in texts]) for texts in row.texts]
        )
    )


def _of_texts(form: HeadFormat, row: HeadRow, origin: int, framed: list[Framed]) -> Iterator[Made]:
    if isinstance(form, CandidateRanking):
        for each, right in zip(framed, row.rights, strict=True):
            yield Made((each,), origin, label=right)
        return
    label = -1 if isinstance(form, Regression) else row.label
    yield Made(tuple(framed), origin, label=label, value=row.value)


_LONGEST_QUESTION = 64  # tokens; what is beyond is cut (Devlin et al. 2019's code)


def _windows(
    row: HeadRow, origin: int, question: list[int], context: Any, framing: Framing, stride: int
) -> Iterable[Made]:
    asked = question[: min(_LONGEST_QUESTION, framing.room(2) // 2)]
    room = framing.room(2) - len(asked)
    answer = tokens_of(context, row.answers[0]) if row.answers else None
    for start in range(0, max(len(context.ids) - room, 0) + stride, stride):
        inside = slice(start, start + room)
        window = context.ids[inside].tolist()
        framed = framing.frame([window, asked] if framing.cls_last else [asked, window])
        framed = framed._replace(num_cut=len(question) - len(asked))
        span = (-1, -1)
        if row.answers is not None:
            nothing = framing.cls_place(len(framed.tokens))  # no answer is at [CLS]
            span = (nothing, nothing)
            if answer and start <= answer[0] and answer[1] < start + room:
                shift = (0 if framing.cls_last else framed.second) - start
                span = (answer[0] + shift, answer[1] + shift)
        starts, ends = context.starts[inside], context.ends[inside]
        yield Made((framed,), origin, span=span, starts=starts, ends=ends, offset=start)
        if start + room >= len(context.ids):
            return


def _token_classes(rows: list[HeadRow], first: int, tokenizer: Any, framing: Framing) -> list[Made]:
    """The first token of each word has its class, the others none (Devlin et al. 2019, §5.3)."""
    unknown = ids_of(tokenizer).unknown
    of_words = encode_words(tokenizer, [row.words for row in rows], 0 if unknown is None else unknown)
    made = []
    for origin, row, words in zip(range(first, first + len(rows)), rows, of_words, strict=True):
        framed = framing.frame([[number for word in words for number in word]])
        tags = [
            tag if part == 0 else -1
            for tag, word in zip(row.tags, words, strict=True)
            for part in range(len(word))
        ]
        kept = len(framed.tokens) - 2
        firsts = [int(part == 0) for word in words for part in range(len(word))][:kept]
        before, after = framing.before, 2 - framing.before  # special ids
        classes = np.array([*[-1] * before, *tags[:kept], *[-1] * after], np.int32)
        # Where words begin, which predictions are read at; ends say nothing here.
        starts = np.flatnonzero([*[0] * before, *firsts]).astype(np.int32)
        made.append(Made((framed,), origin, classes=classes, starts=starts))
    return made


def _or_nothing(array: np.ndarray | None) -> np.ndarray:
    return np.zeros(0, np.int32) if array is None else array
