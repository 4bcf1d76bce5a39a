"""Token classification: a class for each word."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.cells import is_single, parsed_cell
from t5x_like.text.heads.head_answers import Answer, Head, Probabilities, Written, softmax
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import InputFormat
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import UNLABELED, as_text, class_number, column_of
from t5x_like.text.heads.token_spans import encode_words
from t5x_like.text.metrics import chunk_f1, sequence_accuracy
from t5x_like.text.metrics.by_name import MetricFunction, class_metrics
from t5x_like.text.metrics.chunks import Tags, labeled_tags
from t5x_like.text.metrics.classification import Scores, require_pairs
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

# F1 of two classes has the name of the chunks' F1, and is not among them.
_OF_WORDS = ("accuracy", "macro_f1", "matthews_corrcoef")
_UNLABELED = (None, -100, "-100")  # besides -1


@dataclass(frozen=True, kw_only=True)
class TokenClassification(HeadFormat):
    """A class for each word.

    Attributes:
      tokens: Column with a list of words.
      tags: Column with the number of each word's class, or its name. Words with -1, -100 or null have no label: they
        train nothing, and metrics leave them out.
      classes: Names of the classes by number.
    """

    tokens: str = "tokens"
    tags: str = "tags"
    classes: tuple[str, ...]

    tags_tokens: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = None
    label_parameters: ClassVar[tuple[str, ...]] = ("tags",)
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (chunk_f1,)

    @property
    def head(self) -> Head:
        return Head("token_classification", len(self.classes))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.classes

    @property
    def input_columns(self) -> tuple[str, ...]:
        return (self.tokens,)

    def read(self, values: RowValues) -> LabeledRow:
        words = cell_words(column_of(values, self.tokens), self.tokens)
        row_tags = listed_cell(values.get(self.tags) or ())
        tags = tuple(
            UNLABELED if tag in _UNLABELED else class_number(tag, self.classes, self.tags) for tag in row_tags
        )
        tags = tags or (UNLABELED,) * len(words)
        if len(tags) != len(words):
            raise ValueError(f"{len(words)} words, but {len(tags)} {self.tags}; give one for each word")
        return LabeledRow(texts=((),), words=words, tags=tags)

    def is_labeled(self, row: LabeledRow) -> bool:
        return any(tag >= 0 for tag in row.tags)

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield rows whose words have their class at the first token (Devlin et al. 2019, §5.3)."""
        del stride
        unknown = ids_of(tokenizer).unk
        word_ids = encode_words(tokenizer, [row.words for row in rows], 0 if unknown is None else unknown)
        for origin, (row, words) in enumerate(zip(rows, word_ids, strict=True), start=first):
            joined = input_format.join([[token_id for word in words for token_id in word]])
            tags = [
                tag if part == 0 else -1
                for tag, word in zip(row.tags, words, strict=True)
                for part in range(len(word))
            ]
            before, after = len(input_format.start), len(input_format.end)
            kept = len(joined.tokens) - before - after
            firsts = [int(part == 0) for word in words for part in range(len(word))][:kept]
            classes = np.array([*[-1] * before, *tags[:kept], *[-1] * after], np.int32)
            # Predictions are read at the first tokens of words; ends are unused.
            starts = np.flatnonzero([*[0] * before, *firsts]).astype(np.int32)
            yield LabeledExample((joined,), origin, classes=classes, starts=starts)

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the most likely class of each word's first token; words that were cut off get class "O"."""
        outside = self.classes.index("O") if "O" in self.classes else 0
        answers: list[Answer] = []
        for index, (row, each) in enumerate(zip(rows, scores, strict=True)):
            classes = np.argmax(each[word_starts(index)], axis=-1).tolist()
            answers.append(classes + [outside] * (len(row.words) - len(classes)))
        return answers

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """Metrics of chunks, of sentences as a whole, and of all words' classes."""
        of_words = class_metrics(len(self.classes))
        named = {name: self._of_words(of_words[name]) for name in _OF_WORDS}
        return {"chunk_f1": chunk_f1, "sequence_accuracy": _of_sentences, **named}

    def _of_words(self, metric: MetricFunction) -> MetricFunction:
        numbers = {name: index for index, name in enumerate(self.classes)}

        def of_all_words(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> Scores:
            truths, guesses = _labeled(targets, predictions)
            flat = ([numbers[tag] for tags in rows for tag in tags] for rows in (truths, guesses))
            return metric(*flat)

        return of_all_words

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> list[Probabilities]:
        """Return those of each word's classes; words that were cut off have class "O" for certain, as predicted."""
        del labels
        outside = self.classes.index("O") if "O" in self.classes else 0
        probabilities = []
        for index, (row, each) in enumerate(zip(rows, scores, strict=True)):
            shares = [softmax(word) for word in each[word_starts(index)]]
            cut = [float(column == outside) for column in range(len(self.classes))]
            shares += [cut] * (len(row.words) - len(shares))
            by_class = [dict(zip(self.classes, word, strict=True)) for word in shares]
            probabilities.append(Probabilities([max(word) for word in shares], by_class))
        return probabilities

    def most_frequent(self, rows: Sequence[LabeledRow]) -> None:
        """Return no baseline: labels are of words."""

    def target(self, row: LabeledRow) -> list[str | None]:
        """Return the names of the words' classes; ``None`` for words without a label."""
        return [None if tag < 0 else self.classes[tag] for tag in row.tags]

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        """Return the names of the predicted classes."""
        del labels
        assert isinstance(answer, list)
        return [self.classes[label] for label in answer]

    def written_target(self, row: LabeledRow, labels: Sequence[str]) -> list[str | None]:
        del labels
        return self.target(row)


def _labeled(
    targets: Sequence[Tags], predictions: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the tags of all sentences' words that have a label."""
    require_pairs(targets, predictions)
    pairs = [labeled_tags(*pair) for pair in zip(targets, predictions, strict=True)]
    return [truth for truth, _ in pairs], [guess for _, guess in pairs]


def _of_sentences(targets: Sequence[Tags], predictions: Sequence[Sequence[str]]) -> Scores:
    return sequence_accuracy(*_labeled(targets, predictions))  # pyright: ignore[reportArgumentType]


def cell_words(value: Any, column: str) -> tuple[str, ...]:
    """Return the words of a cell: a list, a list in JSON or as Python writes it, or a text with spaces between words.

    Args:
      value: The cell.
      column: Name of its column, for messages.

    Raises:
      ValueError: The cell is something else, or holds a null, a list or an object instead of a word.
    """
    words, is_text = listed_cell(value), isinstance(value, bytes | str)
    if is_text and not any(isinstance(word, str) for word in words):
        words = as_text(value).split()  # a sentence such as "[1]"
    advice = "a list of words is needed, or a text with spaces between them"
    if not isinstance(words, Sequence | np.ndarray):
        raise ValueError(f"column {column!r} holds {_shown(words)}; {advice}")
    for word in words:
        if not is_single(word):
            raise ValueError(f"column {column!r} holds {_shown(word)} where a word is needed; {advice}")
    if is_text and words and words[0].startswith(("['", '["')) and len(words) > 1:
        raise ValueError(
            f"column {column!r} holds a list that is neither JSON nor Python's, {_shown(value)}; write it as JSON"
        )
    return tuple(map(as_text, words))


def _shown(value: object) -> str:
    return f"{json.dumps(value, ensure_ascii=False, default=str):.60}"


def listed_cell(value: Any) -> Sequence[Any]:
    """Return a cell that is a list, a list in JSON or as Python writes it, or a text with spaces, as a list."""
    if not isinstance(value, bytes | str):
        return value
    text = as_text(value)
    parsed = parsed_cell(text)
    return parsed if isinstance(parsed, list) else text.split()
