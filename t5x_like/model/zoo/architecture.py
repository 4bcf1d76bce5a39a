"""One record for each published architecture: its configuration, and its form in other people's files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import Weight

T5_SPECIAL_IDS: Mapping[str, int] = {"pad_token_id": 0, "eos_token_id": 1}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture as runs, Hugging Face directories and T5X checkpoints know it. Each zoo file ends with its own.

    Attributes:
      name: the ``model_type`` in a run's ``model.json``.
      config_class: the configuration that builds the model.
      model_types: the values of ``model_type`` in a Hugging Face ``config.json`` that mean this architecture.
      classes: transformers' class names, with the task that each does. The first of a task is the one written.
      from_hugging_face: reads the fields of a ``config.json``. Raises ``ValueError`` naming a field that is missing,
        unknown, or has a value that this model can't express.
      to_hugging_face: the fields of a ``config.json``. Raises ``ValueError`` where transformers has no such model.
      hugging_face_weights: the weight table, our parameters by Hugging Face's names.
      prefix: what weight names begin with, unless the files are those of a model without a head.
      other_prefixes: what they begin with in files of some classes instead.
      unused_weights: patterns of arrays in files that the model doesn't read.
      special_ids: the special ids where a ``config.json`` has none.
      num_sentinels: ids after the pieces of ``spiece.model`` that stand for spans (Raffel et al. 2020, §3.1.4).
      num_byte_sentinels: the same of the model's variant that reads bytes; 0 where there is none.
      t5x_weights: the weight table by T5X's names, where T5X has the model.
    """

    name: str
    config_class: type[Any]
    model_types: tuple[str, ...] = ()
    classes: Mapping[str, ModelTask] = field(default_factory=dict)
    from_hugging_face: Callable[[Mapping[str, Any]], Any]
    to_hugging_face: Callable[[Any], dict[str, Any]]
    hugging_face_weights: Callable[[Any], tuple[Weight, ...]]
    prefix: str = ""
    other_prefixes: tuple[str, ...] = ()
    unused_weights: tuple[str, ...] = ()
    special_ids: Mapping[str, int | tuple[int, ...]] = field(default_factory=lambda: T5_SPECIAL_IDS)
    num_sentinels: int = 0
    num_byte_sentinels: int = 0
    t5x_weights: Callable[[Any], tuple[Weight, ...]] | None = None

    @property
    def tasks(self) -> frozenset[ModelTask]:
        """The tasks that transformers has a class for."""
        return frozenset(self.classes.values())


def unpublished(name: str, config_class: type[Any], reason: str) -> Architecture:
    """An architecture that transformers lacks: reading and writing its form raises ``ValueError`` with ``reason``."""

    def refuse(_: Any) -> NoReturn:
        raise ValueError(f"{config_class.__name__}: {reason}")

    return Architecture(
        name=name,
        config_class=config_class,
        from_hugging_face=refuse,
        to_hugging_face=refuse,
        hugging_face_weights=refuse,
    )
