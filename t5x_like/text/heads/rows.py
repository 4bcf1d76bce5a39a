"""What an encoder's head reads of a row: texts, and the class, number, place or words' classes to be told of them."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from t5x_like.text.benchmarks.source import RawRow
from t5x_like.text.heads.formats import (
    CandidateRanking,
    HeadFormat,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.tasks.wording import Template

UNLABELLED = -1

# As models and Hugging Face's classes call what heads do.
HeadKind = Literal["sequence_classification", "multiple_choice", "token_classification", "question_answering"]


class Head(NamedTuple):
    """What a form takes: the kind of head, and how many scores it gives."""

    kind: HeadKind
    num_labels: int


class HeadRow(NamedTuple):
    """A row as a head reads it. Only what its form has is there."""

    texts: tuple[tuple[str, ...], ...]  # one text or two; of multiple choice and candidates for each
    label: int = UNLABELLED  # a class, or the number of the right choice
    value: float = math.nan
    answers: tuple[tuple[int, int], ...] | None = (
        None  # places in the second text, in characters; None: unlabelled
    )
    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()
    question: str = ""  # with its gap
    candidates: tuple[str, ...] = ()
    rights: tuple[int, ...] = ()  # whether each candidate is right

    def is_labelled(self, form: HeadFormat) -> bool:
        """Whether it can be learned from."""
        if isinstance(form, Regression):
            return not math.isnan(self.value)
        if isinstance(form, QuestionAnswering):
            return self.answers is not None
        if isinstance(form, TokenClassification):
            return any(tag >= 0 for tag in self.tags)
        if isinstance(form, CandidateRanking):
            return any(right >= 0 for right in self.rights)
        return self.label >= 0


def head_of(form: HeadFormat) -> Head:
    """The head that reads a form (Devlin et al. 2019, §4, https://arxiv.org/abs/1810.04805)."""
    if isinstance(form, SequenceClassification):
        return Head("sequence_classification", len(form.classes))
    if isinstance(form, Regression):
        return Head("sequence_classification", 1)
    if isinstance(form, CandidateRanking):
        return Head("sequence_classification", 2)  # wrong and right
    if isinstance(form, MultipleChoice):
        return Head("multiple_choice", 2)  # the number of labels means nothing: each choice has one score
    if isinstance(form, QuestionAnswering):
        return Head("question_answering", 2)
    return Head("token_classification", len(form.classes))


def read_row(form: HeadFormat, values: RawRow) -> HeadRow:
    """What the head is given of a row.

    Raises:
      ValueError: a missing column, a label that is none, an answer that the context doesn't have.
    """
    if isinstance(form, SequenceClassification):
        return HeadRow(texts=(_texts(form.texts, values),), label=_class(values, form.label, form.classes))
    if isinstance(form, Regression):
        return HeadRow(texts=(_texts(form.texts, values),), value=_value(form, values))
    if isinstance(form, MultipleChoice):
        return _choices(form, values)
    if isinstance(form, CandidateRanking):
        return _candidates(form, values)
    if isinstance(form, QuestionAnswering):
        texts = _texts((form.question, form.context), values)
        return HeadRow(texts=(texts,), answers=_answers(form, values, texts[1]))
    return _token_classes(form, values)


def _texts(templates: Sequence[str], values: RawRow) -> tuple[str, ...]:
    return tuple(_fill(template, values) for template in templates)


def _fill(template: str, values: RawRow) -> str:
    parsed = Template(template)
    missing = parsed.missing(values)
    if missing:
        raise ValueError(missing)
    return parsed.fill({name: _text(values[name]) for name in parsed.fields})


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _column(values: RawRow, name: str) -> Any:
    if name not in values:
        raise ValueError(f"no column {name!r}; the columns are {', '.join(values) or 'none'}")
    return values[name]


def _class(values: RawRow, column: str, classes: Sequence[str]) -> int:
    if column not in values:
        return UNLABELLED
    return _number_of(values[column], classes, column)


def _number_of(given: Any, classes: Sequence[str], column: str) -> int:
    """A class' number from itself, or from its word as users' files have it."""
    if isinstance(given, bytes | str):
        word = _text(given).strip()
        if word in classes:
            return classes.index(word)
        if not word.removeprefix("-").isdigit():
            raise ValueError(f"{column} is {word!r}; it is one of {', '.join(classes)}")
        given = word
    number = int(given)
    if not UNLABELLED <= number < len(classes):
        raise ValueError(
            f"{column} is {number}; it is 0 … {len(classes) - 1} ({', '.join(classes)}), or -1 where unlabelled"
        )
    return number


def _value(form: Regression, values: RawRow) -> float:
    if form.label not in values or _text(values[form.label]) == "":
        return math.nan
    try:
        value = float(_text(values[form.label]))
    except ValueError:
        raise ValueError(f"{form.label} is {values[form.label]!r}, not a number") from None
    if math.isclose(value, form.unlabelled):
        return math.nan
    if not form.lowest <= value <= form.highest:  # also what is no number
        raise ValueError(f"{form.label} is {value}; it lies in {form.lowest} … {form.highest}")
    return value


def _choices(form: MultipleChoice, values: RawRow) -> HeadRow:
    if isinstance(form.choices, str):
        choices = [_text(choice) for choice in _column(values, form.choices)]
    else:
        choices = list(_texts(form.choices, values))
    if len(choices) < 2:
        raise ValueError(f"{len(choices)} choices; a question has at least 2")
    context = _fill(form.context, values)
    names = [str(number) for number in range(len(choices))]
    label = _class(values, form.label, names)
    return HeadRow(texts=tuple((context, choice) for choice in choices), label=label)


def _candidates(form: CandidateRanking, values: RawRow) -> HeadRow:
    candidates = tuple(dict.fromkeys(map(_text, _column(values, form.candidates))))
    if not candidates:
        raise ValueError(f"{form.candidates} is empty; there is nothing to choose from")
    context, question = _texts((form.context, form.question), values)
    if form.gap not in question:
        raise ValueError(f"the question {question!r} has no {form.gap}, where an answer goes")
    answers = set(map(_text, values.get(form.answers) or ()))
    return HeadRow(
        texts=tuple((context, question.replace(form.gap, candidate)) for candidate in candidates),
        question=question,
        candidates=candidates,
        rights=tuple(int(each in answers) if answers else UNLABELLED for each in candidates),
    )


def _answers(form: QuestionAnswering, values: RawRow, context: str) -> tuple[tuple[int, int], ...] | None:
    given = values.get(form.answers)
    if given is None:
        return None
    texts = [_text(text) for text in given["text"]]
    if not texts:
        return () if form.unanswerable else None
    places = []
    for text, start in zip(texts, given["answer_start"], strict=True):
        if context[int(start) : int(start) + len(text)] != text:
            raise ValueError(f"the answer {text!r} does not stand at character {int(start)} of the context")
        places.append((int(start), int(start) + len(text)))
    return tuple(places)


def _token_classes(form: TokenClassification, values: RawRow) -> HeadRow:
    words = tuple(map(_text, _listed(_column(values, form.tokens))))
    given = _listed(values.get(form.tags) or ())
    tags = tuple(_number_of(tag, form.classes, form.tags) for tag in given) or (UNLABELLED,) * len(words)
    if len(tags) != len(words):
        raise ValueError(f"{len(words)} words, but {len(tags)} {form.tags}; give one for each word")
    return HeadRow(texts=((),), words=words, tags=tags)


def _listed(value: Any) -> Sequence[Any]:
    return _text(value).split() if isinstance(value, bytes | str) else value
