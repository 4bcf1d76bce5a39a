"""Connection of our task registry with seqio's."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.cells import as_text
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.seqio_bridge.open_seqio_tasks import open_seqio_stream, open_seqio_task
from t5x_like.text.seqio_extra import INSTALL, import_of_extra, missing_library
from t5x_like.text.tasks.foreign_tasks import Definition, ForeignTask
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.speech_pretraining_task import SpeechPretrainingTask
from t5x_like.text.tasks.speech_task import SpeechTask

if TYPE_CHECKING:
    from types import ModuleType

    import seqio

# seqio imports TensorFlow, which takes ten seconds. It and the modules that need it are imported when they are used.

# Features that hold text after preprocessing.
_TEXTS = ("inputs_pretokenized", "targets_pretokenized")


class SeqioTasks:
    """seqio's registry; our tasks are added to it when something in it is needed."""

    def __init__(self) -> None:
        self._waiting: list[Definition] = []
        self._added: set[str] = set()

    def add(self, definition: Definition) -> None:
        """Add a definition, at once if seqio is loaded; see ``ForeignTasks``."""
        self._waiting.append(definition)
        if sys.modules.get("seqio") is not None:
            self.flush()

    def flush(self, needed_by: str = "seqio's registry of tasks") -> "ModuleType":
        """Add our tasks to seqio's registry, and return seqio.

        Args:
          needed_by: Subject of the error message where seqio isn't installed.

        Raises:
          ValueError: It isn't installed.
        """
        seqio = import_of_extra("seqio", needed_by=needed_by)
        while self._waiting:
            definition = self._waiting.pop(0)
            _add_to_seqio(definition)
            self._added.add(definition.name)
        return seqio

    def knows(self, name: str) -> bool:
        seqio = sys.modules.get("seqio")
        if seqio is None or name in self._added:
            return False
        return name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names()

    def names(self) -> tuple[list[str], list[str]]:
        seqio = sys.modules.get("seqio")
        if seqio is None:
            return [], []
        return list(seqio.TaskRegistry.names()), list(seqio.MixtureRegistry.names())

    def names_of_tasks(self, name: str) -> list[str]:
        return [task.name for task in tasks_of(name)]

    def rate_of(self, mixture: str, task: str) -> float:
        rate = getattr(get(mixture), "get_rate", None)
        return 1.0 if rate is None else float(rate(get_task(task)))

    def task(self, name: str) -> ForeignTask:
        return SeqioTask(name)

    def open_stream(self, name: str, spec: ExampleSpec, config: Any) -> Any:
        self.flush(
            f"task {name!r} has over {config.max_tokens_in_memory} tokens; t5x-like cache tokenizes it once and needs "
            "nothing else. Reading it as a stream"
        )
        return open_seqio_stream(get_task(name), spec, config)


class SeqioTask(ForeignTask):
    """A task that is registered with seqio only; seqio is asked when something is needed."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(get_task(self.name).splits)

    @property
    def vocabulary(self) -> Any:
        """Vocabulary of the targets."""
        return get_task(self.name).output_features["targets"].vocabulary

    def fingerprint(self, split: str) -> dict[str, str]:
        """Return everything that determines the tokens in a cache of a split."""
        from t5x_like.text.seqio_bridge.task_fingerprint import seqio_fingerprint  # imports TensorFlow

        return seqio_fingerprint(get_task(self.name), split)

    def open(self, config: Any) -> Any:
        """Return the ``OpenedTask`` of a ``LoaderConfig``, in memory if it fits."""
        return open_seqio_task(get_task(self.name), config)

    def texts(self, split: str) -> Iterator[str]:
        from t5x_like.text.seqio_bridge.data_sources import numpy_examples  # imports TensorFlow

        task = get_task(self.name)
        if split not in task.splits:
            raise ValueError(f"task {self.name!r} has no split {split!r}; there are {', '.join(task.splits)}")
        lengths = dict.fromkeys(task.output_features, 2**20)
        for row in numpy_examples(task.get_dataset(lengths, split, shuffle=False, seed=0)):
            texts = [as_text(row[name], "replace") for name in _TEXTS if name in row]
            if not texts:
                raise ValueError(f"task {self.name!r} keeps no text next to its tokens ({', '.join(_TEXTS)})")
            yield " ".join(texts)


_TASKS = SeqioTasks()


def connect() -> None:
    """Make tasks that are registered with seqio known to our registry, and ours to seqio's.

    Imports nothing: seqio is loaded by the code that registers tasks with it, or when it is needed. Calling it twice is
    fine.
    """
    registry.connect(_TASKS)


def export_to_seqio() -> "ModuleType":
    """Add all of our tasks to seqio's registry, and return seqio.

    Raises:
      ValueError: seqio isn't installed.
    """
    connect()
    return _TASKS.flush()


def register_benchmarks(
    names: str | Sequence[str] = (),
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
) -> None:
    """Register benchmarks with our registry and with seqio's.

    >>> from t5x_like.text.seqio_bridge import registration
    >>> registration.register_benchmarks("glue_v002_proportional", vocabulary="bytes", data_dir="data")

    Args:
      names: Names of benchmarks and mixtures; all by default.
      vocabulary: See ``BenchmarkTask``, as for the other arguments.
      data_dir: Folder of the files.
      on_bad_row: "fail" or "skip".
      num_sentinels: Sentinel ids that are added to the vocabulary.

    Raises:
      ValueError: Unknown name, or one that is registered with other settings; or seqio isn't installed.
    """
    export_to_seqio()
    tasks = catalogue.benchmark_tasks(
        names, vocabulary=vocabulary, data_dir=data_dir, on_bad_row=on_bad_row, num_sentinels=num_sentinels
    )
    registry.register(tasks)
    export_to_seqio()


def get(name: str) -> "seqio.Task | seqio.Mixture":
    """Return seqio's task or mixture of that name.

    Raises:
      ValueError: There is none, and the message suggests similar names; or seqio isn't installed.
    """
    _own_definition(name)
    seqio = _TASKS.flush(f"{name!r} as a task of seqio")
    if name in seqio.MixtureRegistry.names():
        return seqio.MixtureRegistry.get(name)
    return seqio.TaskRegistry.get(name)


def get_task(name: str) -> "seqio.Task":
    """Return seqio's task of that name.

    Raises:
      ValueError: There is none, or it is a mixture.
    """
    connect()
    mixture = registry.resolve(name).mixture
    if mixture is not None:  # refused without seqio, too
        names = list(mixture.tasks)
    else:
        registered: Any = get(name)
        if not hasattr(registered, "get_rate"):
            return registered
        names = [task.name for task in registered.tasks]
    raise ValueError(f"{name!r} is a mixture of {', '.join(names)}; name one task")


def _own_definition(name: str) -> Definition | None:
    """Register a benchmark of that name, and return our definition; None for a task or mixture of seqio's.

    Raises:
      ValueError: There is no such name.
    """
    connect()
    return registry.require(name)


def tasks_of(name: str) -> "list[seqio.Task]":
    """Return seqio's task of that name, or the tasks of the mixture of that name."""
    task: Any = get(name)
    return list(task.tasks) if hasattr(task, "get_rate") else [task]


def import_modules(modules: Sequence[str]) -> None:
    """Import the user's modules, which register tasks as they load; the working directory is searched, too.

    Raises:
      ValueError: No module of that name, or it needs seqio, which isn't installed. Other errors inside a module are not
        changed.
    """
    connect()
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if library := missing_library(error):
                raise ValueError(
                    f"the module {module!r} needs {library}, which isn't installed: {INSTALL}"
                ) from error
            if error.name is None or not (module + ".").startswith(error.name + "."):
                raise
            raise ValueError(
                f"no Python module {module!r} in {os.getcwd()} or on the Python path; name it without .py"
            ) from error


def _add_to_seqio(definition: Definition) -> None:
    if isinstance(definition, SpeechTask | SpeechPretrainingTask):
        return  # seqio has no recordings
    from t5x_like.text.seqio_bridge.seqio_tasks import SeqioTaskBuilder  # imports TensorFlow

    if isinstance(definition, Mixture):
        import seqio

        seqio.MixtureRegistry.add(
            definition.name, [(task, _rate(definition, task)) for task in definition.tasks]
        )
    else:
        definition.accept(SeqioTaskBuilder())


def _rate(mixture: Mixture, task: str) -> "float | Callable[[seqio.Task], float]":
    """Return a task's rate, or a function for seqio that computes it when needed (and counts the task's rows)."""
    if mixture.fixed_rates is not None:
        return float(mixture.fixed_rates[task])

    def rate(task: "seqio.Task") -> float:
        num_examples = task.num_input_examples("train") if "train" in task.splits else 0
        if num_examples is None:
            raise ValueError(
                f"task {task.name!r} does not say how many examples it has; give its source "
                "num_input_examples={'train': N}, or the mixture rates={…}"
            )
        return mixture.rate(task.name, lambda: num_examples)

    return rate
