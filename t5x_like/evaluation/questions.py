"""A task's rows as questions with their true answers, where there are any: read without TensorFlow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.finding import SplitFiles
from t5x_like.text.benchmarks.language_modelling import text_perplexities
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads import Regression
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pairs import PairsTask, TextPair
from t5x_like.text.tasks.rows import RowPolicy

# What T5's wording writes where a row has no label.
_UNKNOWN = "<unk>"


class Question(NamedTuple):
    """One question by its place in the split, and what postprocessing needs to know of it (``example``)."""

    number: int
    inputs: str
    targets: str
    example: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions of one task's split, in the order of its files."""

    definition: PairsTask
    split: str
    rows: tuple[Question, ...]

    @property
    def task(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Every answer there can be, in the order of their numbers; empty where answers are open."""
        return self.definition.answers

    @property
    def is_number(self) -> bool:
        """Whether answers are numbers."""
        definition = self.definition
        return isinstance(definition, BenchmarkTask) and isinstance(definition.benchmark.head, Regression)

    def is_labelled(self, row: Question) -> bool:
        """Whether a row's true answer is known."""
        if row.targets == _UNKNOWN or row.example.get("label") == -1:
            return False
        if self.is_number:
            return row.targets != "-1.0"
        return not self.labels or row.targets in self.labels

    def is_valid(self, text: str) -> bool:
        """Whether a written answer is one that there can be."""
        if self.is_number:
            try:
                return float(text) == float(text)
            except ValueError:
                return False
        return text in self.labels if self.labels else bool(text.strip())

    def answer_of(self, row: Question, text: str, *, is_target: bool = False) -> Any:
        """A written answer as the task's metrics want it."""
        postprocess = getattr(getattr(self.definition, "benchmark", None), "postprocess", None)
        if postprocess is None:
            return text
        return postprocess(text, example=dict(row.example), is_target=is_target)


def are_texts(definition: PairsTask) -> bool:
    """Whether there is nothing to answer, but texts to measure."""
    return text_perplexities in definition.metric_functions


def find_task(
    name: str,
    *,
    vocabulary: str = "",
    num_sentinels: int = 100,
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] | None = None,
) -> PairsTask:
    """The benchmark of that name, or a registered task of questions and answers.

    ``on_bad_row`` is the task's own where not given.

    Raises:
      ValueError: there is none, or it is of another kind.
    """
    known = registry.definition(name) if name not in catalogue.benchmarks() else None
    if isinstance(known, BenchmarkTask) and isinstance(known.files, SplitFiles):
        return replace(
            known,
            vocabulary=vocabulary or known.vocabulary,
            num_sentinels=num_sentinels,
            data_dir=data_dir or known.data_dir,
            files={},  # those of the folder
            on_bad_row=on_bad_row or known.on_bad_row,
        )
    if isinstance(known, PairsTask):
        return replace(known, on_bad_row=on_bad_row) if on_bad_row else known
    mixture = known if isinstance(known, Mixture) else catalogue.mixtures().get(name)
    if mixture is not None:
        raise ValueError(
            f"{name!r} is a mixture; name those of its tasks to evaluate on: {', '.join(mixture.tasks)}"
        )
    if known is not None:
        raise ValueError(
            f"{name!r} is no task of questions and answers; name one that `t5x-like tasks list` tells"
        )
    return catalogue.benchmark_task(
        name,
        vocabulary=vocabulary,
        num_sentinels=num_sentinels,
        data_dir=data_dir,
        on_bad_row=on_bad_row or "fail",
    )


def published_rows(definition: Any, split: str) -> int | None:
    """How many rows a benchmark's split is published with; None where that isn't known, or where wording changes it."""
    if not isinstance(definition, BenchmarkTask) or not isinstance(definition.files, SplitFiles):
        return None
    benchmark = definition.benchmark
    if benchmark.training_examples is not None or any(len(each.worded) != 1 for each in benchmark.examples):
        return None
    return benchmark.source.rows.get(split) or None


def load_questions(
    definition: PairsTask, split: str, *, limit: int | None = None, policy: RowPolicy | None = None
) -> Questions:
    """The first ``limit`` questions of a split, or all; ``policy`` counts bad rows that are skipped.

    Raises:
      ValueError: no such split, files that are not there, or bad rows.
    """
    if split not in definition.splits:
        raise ValueError(
            f"task {definition.name!r} has no split {split!r}; there are {', '.join(definition.splits)}"
        )
    rows = (_question(number, row) for number, row in enumerate(definition.read(split, policy)))
    found = tuple(islice(rows, limit))
    if not found:
        raise ValueError(f"task {definition.name!r}, split {split!r}: no examples")
    return Questions(definition=definition, split=split, rows=found)


def learned_from(definition: PairsTask) -> PairsTask:
    """The task whose training split is learned from: itself, but for tasks that have none and are parts of others."""
    if not isinstance(definition, BenchmarkTask) or not definition.benchmark.training_task:
        return definition
    return catalogue.benchmark_task(
        name=definition.benchmark.training_task,
        vocabulary=definition.vocabulary,
        num_sentinels=definition.num_sentinels,
        data_dir=definition.data_dir,
        on_bad_row=definition.on_bad_row,
    )


def training_rows(definition: PairsTask, *, limit: int | None = None) -> Sequence[TextPair]:
    """Labelled rows to learn from: for examples in prompts, and for the commonest answer. Empty where there are none.

    Raises:
      ValueError: bad rows.
    """
    source = learned_from(definition)
    if "train" not in source.splits:
        return ()
    return tuple(row for row in islice(source.read("train"), limit) if row.targets != _UNKNOWN)


def _question(number: int, row: TextPair) -> Question:
    texts = {"inputs_pretokenized": row.inputs, "targets_pretokenized": row.targets}
    return Question(number, row.inputs, row.targets, {**row.extras, **texts})
