"""GLUE, SuperGLUE and the other benchmarks, one file for each family of them.

They are known by name wherever a task or mixture is named. ``register`` says in which vocabulary and from which folder:

>>> from t5x_like.text.tasks import benchmarks
>>> benchmarks.register("glue_v002_proportional", vocabulary="bytes", data_dir="data")
"""

from typing import Any


def benchmark_tasks(*names: str, **settings: Any) -> tuple[Any, ...]:
    """Definitions of benchmarks and mixtures by name, all where none is named, for ``registry`` or a recipe's tasks.

    ``settings`` are those of ``BenchmarkTask``: ``vocabulary``, ``data_dir``, ``on_bad_row`` and ``num_sentinels``.

    Raises:
      ValueError: no such name.
    """
    from t5x_like.text.tasks.benchmarks import catalogue

    found: dict[str, Any] = {}
    for name in names or catalogue.names():
        made = catalogue.definitions(name, **settings)
        if not made:
            catalogue.benchmark(name)  # says that there is none, and which are near
        found |= {each.name: each for each in made}
    return tuple(found.values())


def register(*names: str, **settings: Any) -> None:
    """Makes benchmarks known to our registry and to seqio's, all where none is named; see ``benchmark_tasks``.

    Raises:
      ValueError: no such name, or it is registered with other settings.
    """
    from t5x_like.text.tasks import registry

    registry.register(benchmark_tasks(*names, **settings))
    registry.tell_seqio()
