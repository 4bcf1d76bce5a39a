"""Tasks of prompts with ranked answers, or with answers that are desirable or not, for learning from preferences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from t5x_like.batch import DataField
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.text.cells import Cell, as_text, list_of, text_of
from t5x_like.text.fields import ANSWER_ENDS, Feature
from t5x_like.text.heads import HeadFormat, RankedAnswers, Regression
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.pairs import TextPair
from t5x_like.text.tasks.rows import BadRow, RawRow, Row, convert
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.templates import Template

_NO_COLUMN = "\0"  # no table has such a label
DESIRABLE = "desirable"  # stream: 1 for desirable answers, 0 for others
_YES, _NO = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")
_TRUTHS = dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0)


@config_class
class PreferenceTask(TextTask):
    """Prompts with a better and a worse answer, or with several from the best to the worst.

    The columns are those of Hugging Face's preference data: ``prompt``, ``chosen`` and ``rejected``. Rows with an empty
    answer, or with two equal ones, are bad rows (``on_bad_row``). Training compares the answers of a row
    (``training.methods.preference_optimization``); evaluations write an answer and compare it with the best one.

    >>> PreferenceTask(name="taste", vocabulary="bytes", files={"train": "pairs.jsonl"}).spec.num_choices
    2

    Attributes:
      input_template: Prompt, with ``{column}`` for a row's cells.
      target_template: Better answer.
      rejected_template: Worse answer.
      ranked: Column with a list of answers from the best to the worst, in place of both templates.
      num_answers: Highest number of answers of a row. Each example has so many rows; empty ones fill it up.
    """

    input_template: str = "{prompt}"
    target_template: str = "{chosen}"
    rejected_template: str = "{rejected}"
    ranked: str | None = None
    num_answers: int = 2

    _FILE: ClassVar[str] = "train.jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        because = f"rows of task {self.name!r} have ranked answers"
        refuse_unused(self, "labels", "label_words", "reference", "head", because=because)
        Template(self.rejected_template)
        if self.num_answers < 2:
            raise ValueError(
                f"task {self.name!r}: num_answers is {self.num_answers}; a row has at least 2 answers"
            )
        if self.ranked is None:
            because = "each row has a better and a worse answer"
            refuse_unused(self, "num_answers", because=because, advice="name the column of a list as ranked")
        else:
            because = f"the answers are in column {self.ranked!r}"
            refuse_unused(self, "target_template", "rejected_template", because=because)

    def head_format(self) -> RankedAnswers:
        """Return the format of a reward model's rows: each answer after the prompt."""
        return RankedAnswers(max_answers=self.num_answers)

    def row_task(self) -> TextTask:
        """Return the task of a prompt and one ``answer``, for which a reward model predicts a number."""
        columns = Template(self.target_template).fields if self.ranked is None else ()
        answer = "{answer}"
        if len(columns) == 1:
            answer = self.target_template.replace(f"{{{columns[0]}}}", answer)
        elif columns:
            answer = self.target_template
        reward = Regression(
            texts=(self.input_template, answer), label=_NO_COLUMN, lowest=-math.inf, highest=math.inf
        )
        return TextTask(
            name=self.name,
            vocabulary=self.vocabulary,
            num_sentinels=self.num_sentinels,
            files=self.files,
            framing=self.framing,
            input_template=self.input_template + answer,
            target_template="",
            head=reward,
        )

    def _raw_rows(self, file: str) -> Iterator[RawRow | BadRow]:
        def raw(pair: TextPair) -> RawRow:
            streams = {column: pair.row[column] for column in self.streams.values()}
            return RawRow(
                {**streams, "inputs": pair.inputs, "answers": pair.extras["answers"]}, pair.location
            )

        return convert(self._rows(file), raw)

    @property
    def spec(self) -> ExampleSpec:
        return super().spec._replace(num_choices=self.num_answers, fills_rows=True)

    def features(self) -> tuple[Feature, ...]:
        """Return ``inputs``, ``targets`` of all answers, and the end of each answer in these."""
        return (*super().features(), ANSWER_ENDS)

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        texts = [text for row in rows for text in row.extras["answers"]]
        encoded = iter(self.tokenizer.encode_all(texts))
        examples: list[Mapping[str, Any]] = []
        for features, row in zip(super().tokenize(rows), rows, strict=True):
            answers = [next(encoded) for _ in row.extras["answers"]]
            joined = [number for answer in answers for number in answer]
            ends = list(accumulate(map(len, answers)))
            examples.append({**features, "targets": joined, "answer_ends": ends})
        return examples

    def fingerprint(self) -> dict[str, str]:
        lines = super().fingerprint() | {"kind": "ranked answers"}
        if self.ranked is not None:
            return lines | {"ranked": self.ranked, "num_answers": str(self.num_answers)}
        return lines | {"rejected_template": repr(self.rejected_template)}

    @property
    def _further_columns(self) -> tuple[str, ...]:
        if self.ranked is not None:
            return (self.ranked,)
        return Template(self.rejected_template).fields

    @property
    def _templates(self) -> tuple[Template, Template]:
        if self.ranked is None:
            return super()._templates
        return Template(self.input_template), Template(f"{{{self.ranked}}}")

    def _word(self, row: Row, templates: tuple[Template, Template]) -> TextPair:
        inputs, _ = templates
        texts = {column: text_of(row.cells, column) for column in inputs.fields}
        answers = self._answers(row.cells)
        declared = self._declared(row.cells)
        return TextPair(
            inputs.fill(texts), answers[0], row.cells, row.location, {"answers": list(answers)}, declared
        )

    def _answers(self, cells: Mapping[str, Cell]) -> tuple[str, ...]:
        """Return a row's answers from the best to the worst.

        Raises:
          ValueError: There are too few or too many, one is empty or no text, or two are equal.
        """
        if self.ranked is None:
            templates = (Template(self.target_template), Template(self.rejected_template))
            answers = tuple(
                template.fill({column: text_of(cells, column) for column in template.fields})
                for template in templates
            )
        else:
            listed = list_of(cells[self.ranked], "a list of texts, from the best answer to the worst,")
            if not all(isinstance(text, str) for text in listed):
                raise ValueError(f"column {self.ranked!r} lists something else than texts")
            answers = tuple(listed)
            if not 2 <= len(answers) <= self.num_answers:
                raise ValueError(
                    f"column {self.ranked!r} has {len(answers)} answers; 2 to num_answers={self.num_answers} can be "
                    "compared"
                )
        if not all(answer.strip() for answer in answers):
            raise ValueError("an answer is empty")
        if len(set(answers)) < len(answers):
            raise ValueError("two answers are equal, so neither is better")
        return answers


@config_class
class PromptTask(TextTask):
    """Prompts alone, for answers that the model writes itself (``training.methods.on_policy``).

    >>> PromptTask(name="questions", vocabulary="bytes", files={"train": "rows.jsonl"}).input_template
    '{prompt}'

    Attributes:
      input_template: Prompt, with ``{column}`` for a row's cells.
      target_template: Text that rewards are given with the answer, such as the right answer; empty for none.
    """

    input_template: str = "{prompt}"
    target_template: str = ""

    _FILE: ClassVar[str] = "train.jsonl"


@config_class
class DesirabilityTask(TextTask):
    """Prompts with one answer each, which is desirable or not (``training.methods.kto``).

    The columns are those of Hugging Face's unpaired preference data: ``prompt``, ``completion`` and ``label``.

    >>> DesirabilityTask(name="thumbs", vocabulary="bytes", files={"train": "rows.jsonl"}).spec.num_choices
    2

    Attributes:
      input_template: Prompt, with ``{column}`` for a row's cells.
      target_template: Answer.
      label: Column that is true, yes or 1 for desirable answers, and false, no or 0 for others.
    """

    input_template: str = "{prompt}"
    target_template: str = "{completion}"
    label: str = "label"

    _FILE: ClassVar[str] = "train.jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        because = f"rows of task {self.name!r} have one answer each, which is desirable or not"
        refuse_unused(self, "labels", "label_words", "reference", "head", because=because)

    @property
    def spec(self) -> ExampleSpec:
        """Properties of examples of two rows: the answer, and for comparison the answer to another prompt."""
        return super().spec._replace(num_choices=2, fills_rows=True)

    @property
    def declared_streams(self) -> tuple[DataField, ...]:
        return (*super().declared_streams, DataField(DESIRABLE, "example", dtype="float32", padding=math.nan))

    def features(self) -> tuple[Feature, ...]:
        return (*super().features(), Feature(name=DESIRABLE, dtype="float32"))

    def fingerprint(self) -> dict[str, str]:
        return super().fingerprint() | {"kind": "desirable answers", "label": self.label}

    def head_format(self) -> HeadFormat:
        raise ValueError(
            f"task {self.name!r} has one answer to each prompt, and a reward model compares several; give it a "
            "PreferenceTask"
        )

    @property
    def _further_columns(self) -> tuple[str, ...]:
        return (self.label,)

    def _declared(self, values: Mapping[str, object]) -> dict[str, float]:
        cell = as_text(values[self.label]).strip().lower()
        if cell not in _TRUTHS:
            raise ValueError(
                f"column {self.label!r} is {cell!r}; desirable answers have one of {', '.join(map(repr, _YES))}, "
                f"others one of {', '.join(map(repr, _NO))}"
            )
        return {**super()._declared(values), DESIRABLE: _TRUTHS[cell]}
