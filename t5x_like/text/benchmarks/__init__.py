"""GLUE, SuperGLUE and the other benchmarks, one file for each family of them.

They are known by name wherever a task or mixture is named. ``register`` says in which vocabulary and from which folder:

>>> from t5x_like.text import benchmarks
>>> benchmarks.register("glue_v002_proportional", vocabulary="bytes", data_dir="data")
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from t5x_like.text.benchmarks.task import BenchmarkTask
    from t5x_like.text.tasks.mixtures import Mixture


def benchmark_tasks(
    names: str | Sequence[str] = (),
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
) -> "tuple[BenchmarkTask | Mixture, ...]":
    """Definitions of benchmarks and mixtures by name, all where none is named: a recipe's ``TASKS``.

    See ``task.BenchmarkTask`` for what is not given. A mixture comes with its tasks.

    Raises:
      ValueError: no such name.
    """
    from t5x_like.text.benchmarks import catalogue

    found: dict[str, BenchmarkTask | Mixture] = {}
    for name in [names] if isinstance(names, str) else names or catalogue.names():
        made = catalogue.definitions(
            name, vocabulary=vocabulary, data_dir=data_dir, on_bad_row=on_bad_row, num_sentinels=num_sentinels
        )
        if not made:
            catalogue.benchmark(name)  # says that there is none, and which are near
        found |= {each.name: each for each in made}
    return tuple(found.values())


def register(
    names: str | Sequence[str] = (),
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
) -> None:
    """Makes benchmarks known to our registry and to seqio's, all where none is named; see ``benchmark_tasks``.

    Raises:
      ValueError: no such name, or it is registered with other settings.
    """
    from t5x_like.text.tasks import registry

    registry.register(
        benchmark_tasks(
            names,
            vocabulary=vocabulary,
            data_dir=data_dir,
            on_bad_row=on_bad_row,
            num_sentinels=num_sentinels,
        )
    )
    registry.tell_seqio()
