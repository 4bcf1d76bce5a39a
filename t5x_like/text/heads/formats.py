"""What an encoder's head reads of a benchmark's rows, beside the text-to-text form of the same rows.

``texts``, ``context`` and the like are templates over the row's columns, ``"{premise}"``, as those of a task in a gin
file (``text.tasks.wording.Template``): one text is read alone, two as a pair.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SequenceClassification:
    """One class of each row, or pair of texts. ``label`` is the column with its number, -1 where unlabelled."""

    texts: tuple[str, ...]
    classes: tuple[str, ...]  # the words of the classes, in the order of their numbers
    label: str = "label"

    @property
    def num_classes(self) -> int:
        """How many scores a head gives."""
        return len(self.classes)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A number for each row. ``unlabelled`` stands in the column ``label`` of rows that have none."""

    texts: tuple[str, ...]
    label: str = "label"
    lowest: float
    highest: float
    unlabelled: float = -1.0


@dataclass(frozen=True, kw_only=True)
class MultipleChoice:
    """One of several continuations of a context: templates, or the column that holds a list of them."""

    context: str
    choices: tuple[str, ...] | str
    label: str = "label"


@dataclass(frozen=True, kw_only=True)
class CandidateRanking:
    """Which of the column ``candidates``, a list of texts, fills the question's ``gap``; of several right ones any.

    A row has as many as it has. Each is put into the gap and judged by itself, right or wrong, and the answer is the
    one that is likeliest to be right: SuperGLUE's baseline of ReCoRD (Wang et al. 2019, §4.1, arXiv:1905.00537). The
    column ``answers`` has the right ones, and is empty where unlabelled.
    """

    context: str = "{passage}"
    question: str = "{query}"
    gap: str = "@placeholder"
    candidates: str = "entities"
    answers: str = "answers"


@dataclass(frozen=True, kw_only=True)
class QuestionAnswering:
    """The answer's place in the context. ``answers`` is a column ``{"text": […], "answer_start": […]}`` (characters);
    empty lists mean that there is no answer, which only ``unanswerable`` benchmarks have."""

    question: str = "{question}"
    context: str = "{context}"
    answers: str = "answers"
    unanswerable: bool = False


@dataclass(frozen=True, kw_only=True)
class TokenClassification:
    """A class for each word: the columns ``tokens`` (a list of words) and ``tags`` (numbers, -1 where unlabelled)."""

    tokens: str = "tokens"
    tags: str = "tags"
    classes: tuple[str, ...]


HeadFormat = (
    SequenceClassification
    | Regression
    | MultipleChoice
    | CandidateRanking
    | QuestionAnswering
    | TokenClassification
)
