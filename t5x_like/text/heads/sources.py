"""A task for an encoder's head as a source of batches: ``LoaderConfig(layout="encoder")`` of a benchmark."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.batches.task_source import OpenedTask
from t5x_like.text.heads.examples import HeadExamples, make_examples
from t5x_like.text.heads.formats import (
    HeadFormat,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.heads.rows import head_of
from t5x_like.text.heads.tasks import HeadTask, form_of, read_head_rows
from t5x_like.text.objectives.objective import Example, ExampleSpec
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.vocabularies.opening import open_tokenizer

if TYPE_CHECKING:
    from t5x_like.text.batches.loader_config import LoaderConfig

_log = logging.getLogger(__name__)


class HeadSource:
    """Labelled examples in an order drawn for each epoch, or in that of the files."""

    def __init__(self, name: str, examples: HeadExamples, *, seed: int, shuffle: bool) -> None:
        self.name, self.checksum = name, examples.checksum
        self._examples, self._seed, self._shuffle = examples, seed, shuffle
        self._sizes = examples.sizes

    def remaining(self, epoch: int, position: int) -> int:
        """See ``ExampleSource.remaining``."""
        del epoch
        return len(self._examples) - position

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """See ``ExampleSource.following``."""
        del position
        return epoch + 1, 0

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """See ``ExampleSource.examples``."""
        return [self._examples.example(number) for number in self._numbers(epoch, positions).tolist()]

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """int64 [N]: how long the rows of these examples are."""
        return self._sizes[self._numbers(epoch, positions)]

    def release(self, epoch: int, position: int) -> None:
        """See ``ExampleSource.release``."""
        del epoch, position

    def _numbers(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        places = np.asarray(positions, np.int64)
        if not self._shuffle:
            return places
        return permuted(places, len(self._examples), key_of(self._seed, self.name, epoch, "order"))


def open_head_task(definition: Any, name: str, config: "LoaderConfig") -> OpenedTask:
    """The labelled rows of a split, to train on or to measure the loss of.

    Raises:
      ValueError: the task has no form for a head, a row is bad, none has a label, or a cache is asked for.
    """
    form = form_of(definition, name)
    if config.cache is not None:
        raise ValueError(
            f"task {name!r} is read for an encoder's head, whose rows are tokenised anew at each start; a token cache "
            f"holds questions and written answers. Leave out cache={config.cache!r}"
        )
    tokenizer = open_tokenizer(definition.vocabulary, definition.num_sentinels)
    examples = _labelled(definition, form, config, tokenizer)
    if examples.num_cut:
        _log.warning(
            "task %s, split %s: %d examples are longer than inputs_length=%d and were cut",
            name,
            config.split,
            examples.num_cut,
            config.inputs_length,
        )
    source = HeadSource(name, examples, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(source, traits_of(form, examples.num_choices), tokenizer)


def head_for(config: "LoaderConfig") -> tuple[str, int] | None:
    """The kind of head that the tasks of a loader need, and its number of scores; ``None`` if they need none.

    Raises:
      ValueError: unknown tasks, without a form, or for different heads.
    """
    if config.layout != "encoder":
        return None
    names = registry.names_of_tasks(config.mixture)
    definitions = [registry.definition(name) for name in names]
    if all(isinstance(definition, PretrainingTask) for definition in definitions):
        return None
    forms = [form_of(each, name) for each, name in zip(definitions, names, strict=True)]
    heads = {head_of(form) for form in forms}
    if len(heads) > 1:
        raise ValueError(
            f"{', '.join(names)} are for different heads, which can't share batches; train on one of them"
        )
    classes = dict.fromkeys(_classes_of(form) for form in forms)
    if len(classes) > 1:
        listed = "; ".join(", ".join(each) or "none" for each in classes)
        raise ValueError(
            f"{', '.join(names)} can't share a head, whose classes would mean different things: {listed}; train on one "
            "of them"
        )
    return heads.pop()


def classes_for(config: "LoaderConfig") -> tuple[str, ...]:
    """The classes of the head that the tasks of a loader need, in the order of its scores; none of other heads.

    Raises:
      ValueError: as ``head_for``.
    """
    if head_for(config) is None:
        return ()
    name = registry.names_of_tasks(config.mixture)[0]
    return _classes_of(form_of(registry.definition(name), name))


def _classes_of(form: HeadFormat) -> tuple[str, ...]:
    return form.classes if isinstance(form, SequenceClassification | TokenClassification) else ()


def _labelled(definition: HeadTask, form: HeadFormat, config: "LoaderConfig", tokenizer: Any) -> HeadExamples:
    policy = RowPolicy(definition.on_bad_row)
    read = list(read_head_rows(definition, config.split, policy))
    rows = [each.row for each in read if each.row.is_labelled(form)]
    where = f"task {definition.name!r}, split {config.split!r}"
    if policy.num_skipped:
        _log.warning("%s: %s", where, policy)
    if not rows:
        raise ValueError(
            f"{where}: none of its {len(read):,} rows has a label, so nothing can be learned or measured there; its "
            "answers can be predicted: t5x-like evaluate"
        )
    if len(rows) < len(read):
        _log.warning(
            "%s: %d of %d rows have no label and are left out", where, len(read) - len(rows), len(read)
        )
    try:
        return make_examples(form, rows, tokenizer, length=config.inputs_length)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def traits_of(form: HeadFormat, num_choices: int = 0) -> ExampleSpec:
    """The streams of a form's batches."""
    labels: tuple[str, ...] = ("label",)
    if isinstance(form, Regression):
        labels = ("value",)
    elif isinstance(form, QuestionAnswering):
        labels = ("span",)
    elif isinstance(form, TokenClassification):
        labels = ()
    return ExampleSpec(
        layout="encoder",
        fields=("token_types", "weights", *labels),
        fills_rows=True,
        num_choices=num_choices,
        head=head_of(form),
    )
