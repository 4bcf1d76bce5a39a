"""What an evaluation takes, all of it looked at before anything is answered or written: files, heads, rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from t5x_like.evaluation.heads import heads_of, wanted_head
from t5x_like.evaluation.loaded_model import LoadedModel
from t5x_like.evaluation.prompts import Prompter
from t5x_like.evaluation.questions import (
    Questions,
    find_task,
    learned_from,
    load_questions,
    training_rows,
)
from t5x_like.evaluation.suite_settings import Method, SuiteRun, method_for, style_for
from t5x_like.io.paths import find_files
from t5x_like.model import parameters
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.benchmarks.finding import SplitFiles, data_directory, wanted_files
from t5x_like.text.tasks.pairs import LabelledRow, PairsTask
from t5x_like.text.tasks.rows import RowPolicy


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """One task with its rows, as questions in words or as a head reads them, and counts of bad rows (``policy``)."""

    task: str
    method: Method
    policy: RowPolicy


@dataclass(frozen=True, kw_only=True)
class WordPlan(_Plan):
    """To be written, ranked or measured."""

    questions: Questions
    prompter: Prompter

    @property
    def definition(self) -> PairsTask:
        """The task's."""
        return self.questions.definition

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """What the rows hold that are asked about, with their numbers in the benchmark's test set ("idx")."""
        return [row.example for row in self.questions.rows]


@dataclass(frozen=True, kw_only=True)
class HeadPlan(_Plan):
    """To be told by a head."""

    definition: PairsTask
    read: list[LabelledRow]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """What the rows hold that are asked about, with their numbers in the benchmark's test set ("idx")."""
        return [each.raw.values for each in self.read]


Plan = WordPlan | HeadPlan


class Chosen(NamedTuple):
    """The tasks that can be evaluated, and why others can't."""

    tasks: tuple[str, ...]
    left_out: Mapping[str, str]


def tasks_with_files(run: SuiteRun) -> Chosen:
    """The tasks whose files are there. Weights need not be read to know.

    Raises:
      ValueError: unknown tasks; files of some are missing and ``run.skip_missing`` is not set, or of all.
    """
    definitions = {task: _definition(run, task) for task in run.tasks}
    without_split = {task: reason for task, each in definitions.items() if (reason := _no_split(run, each))}
    lacking = {
        task: reason
        for task, each in definitions.items()
        if task not in without_split and (reason := _no_files(run, each))
    }
    left_out = {**without_split, **lacking}
    there = tuple(task for task in run.tasks if task not in left_out)
    if not left_out or (there and run.skip_missing):
        return Chosen(there, left_out)
    if len(without_split) == len(run.tasks):
        task, reason = next(iter(without_split.items()))
        raise ValueError(
            f"task {task!r} has {reason}" + ", and so it is with the others" * (len(run.tasks) > 1)
        )
    if len(run.tasks) == 1:
        _look(run, definitions[run.tasks[0]])  # tells where to get the files, too
    folder = f" --data_dir {run.data_dir}" if run.data_dir else ""
    fetch = f"To get them: t5x-like data fetch {' '.join(lacking)}{folder}\n" if lacking else ""
    raise ValueError(
        f"{len(left_out)} of {len(run.tasks)} tasks are not below {data_directory(run.data_dir)}; nothing was "
        f"evaluated or written:\n{_listed(left_out)}\n{fetch}"
        "(t5x-like data status tells where files are from; --data_dir or $T5X_LIKE_DATA names another folder)"
        + _others(there)
    )


def fitting_tasks(run: SuiteRun, model: LoadedModel, chosen: Chosen) -> Chosen:
    """Those of the chosen tasks that this model can answer.

    Raises:
      ValueError: it can't answer some and ``run.skip_missing`` is not set, or none.
    """
    asked = parameters.merge(model.graphdef, model.params)
    faults: dict[str, ValueError] = {}
    for task in chosen.tasks:
        try:
            _check_fit(run, model, asked, _definition(run, task, model))
        except ValueError as error:
            faults[task] = error
    if not faults:
        return chosen
    fitting = tuple(task for task in chosen.tasks if task not in faults)
    if not fitting and len({str(error) for error in faults.values()}) == 1:
        raise next(iter(faults.values()))
    short = {task: _short(task, error) for task, error in faults.items()}
    if fitting and run.skip_missing:
        return Chosen(fitting, {**chosen.left_out, **short})
    raise ValueError(
        f"{run.checkpoint} (heads: {heads_of(asked)}) can't answer {len(faults)} of {len(chosen.tasks)} tasks; nothing "
        f"was evaluated or written:\n{_listed(short)}{_others(fitting)}"
    )


def read_plans(run: SuiteRun, model: LoadedModel, chosen: Chosen) -> dict[str, Plan]:
    """The rows of every task that is evaluated.

    Raises:
      ValueError: bad rows, or none.
    """
    return {task: _plan(run, model, task) for task in chosen.tasks}


def _plan(run: SuiteRun, model: LoadedModel, task: str) -> Plan:
    definition: Any = _definition(run, task, model)
    method = method_for(run, model.kind, definition)
    policy = RowPolicy(definition.on_bad_row)
    if method == "head":
        read = read_questions(definition, run.split, limit=run.limit, policy=policy)
        return HeadPlan(task=task, method=method, policy=policy, definition=definition, read=read)
    questions = load_questions(definition, run.split, limit=run.limit, policy=policy)
    prompter = Prompter(
        task=task,
        style=style_for(run, model.kind),
        num_shots=run.num_shots,
        seed=run.shot_seed,
        pool=training_rows(definition) if run.num_shots else (),
    )
    return WordPlan(task=task, method=method, policy=policy, questions=questions, prompter=prompter)


def _definition(run: SuiteRun, task: str, model: LoadedModel | None = None) -> PairsTask:
    return find_task(
        task,
        vocabulary=run.vocabulary or run.checkpoint,
        num_sentinels=model.tokenizer.num_sentinels if model else 0,
        data_dir=run.data_dir,
        on_bad_row=run.on_bad_row,
    )


def _no_split(run: SuiteRun, definition: PairsTask) -> str:
    """Which split a task hasn't; nothing if it has all that are needed."""
    for each, split in _needed(run, definition):
        if split not in each.splits:
            return f"no split {split!r}; there are {', '.join(each.splits)}"
    return ""


def _no_files(run: SuiteRun, definition: PairsTask) -> str:
    """Which files of a task are not there; nothing if all are."""
    lacking = []
    for each, split in _needed(run, definition):
        try:
            find_files(each.files[split])
        except ValueError as error:
            wanted = _wanted(each, split)
            lacking.append(f"no {wanted}" if wanted else str(error))
    return " and ".join(lacking)


def _wanted(definition: PairsTask, split: str) -> str:
    """The files of a benchmark's split by their names below the data folder."""
    if not isinstance(definition.files, SplitFiles):
        return ""
    source = definition.files.source
    return " or ".join(wanted_files(source, split)) or f"{source.tfds}, as TensorFlow Datasets prepares it"


def _needed(run: SuiteRun, definition: PairsTask) -> list[tuple[PairsTask, str]]:
    """The split to evaluate, and that with examples to show."""
    shown = learned_from(definition)
    needed = [(definition, run.split)]
    return [*needed, (shown, "train")] if run.num_shots and (shown, "train") not in needed else needed


def _look(run: SuiteRun, definition: PairsTask) -> None:
    """Raises ValueError, saying how to get them, if files are missing."""
    for each, split in _needed(run, definition):
        find_files(each.files[split])


def _check_fit(run: SuiteRun, model: LoadedModel, asked: Any, definition: PairsTask) -> None:
    if method_for(run, model.kind, definition) != "head":
        return
    head_format = definition.head_format()
    wanted = wanted_head(asked, head_format)
    if wanted:
        raise ValueError(
            f"task {definition.name!r} needs {wanted}; the model's heads: {heads_of(asked)}. Fine-tune it on such a "
            "task first, or name tasks that fit by --tasks"
        )
    classes, named = head_format.class_names, run.classes or model.classes
    if classes and named and order_by_name(named, classes) is None:
        whose = "--classes names" if run.classes else "the head tells"
        raise ValueError(
            f"task {definition.name!r} has the classes {', '.join(classes)}, {whose} {', '.join(named)}; if these are "
            "the same, --classes names them in the task's words, each once, in the order of the head's scores"
        )


def _short(task: str, error: ValueError) -> str:
    """A fault in a list of tasks, which names them already: its first clause."""
    return str(error).removeprefix(f"task {task!r} ").partition("; ")[0]


def _listed(reasons: Mapping[str, str]) -> str:
    width = max(map(len, reasons))
    return "\n".join(f"  {task:<{width}}  {reason}" for task, reason in reasons.items())


def _others(tasks: tuple[str, ...]) -> str:
    return f"\n--skip_missing goes on with the others: {', '.join(tasks)}" if tasks else ""
