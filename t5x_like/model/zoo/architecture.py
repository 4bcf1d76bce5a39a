"""One record for each published architecture: its configuration, and its form in published files."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.model_tasks import ModelTask, class_of, label_fields, read_labels, task_of
from t5x_like.model.zoo.weights import Weight, WeightSource

T5_SPECIAL_IDS: Mapping[str, int] = {"pad_token_id": 0, "eos_token_id": 1}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture as runs, Hugging Face directories and T5X checkpoints know it. Each zoo file ends with its own.

    Attributes:
      name: ``model_type`` in a run's ``model.json``.
      config_class: Configuration that builds the model.
      model_types: Values of ``model_type`` in a Hugging Face ``config.json``; the first is the one written.
      classes: Names of transformers' classes, with the task of each. The first of a task is the one written.
      from_hugging_face: Returns a configuration from the fields of a ``config.json``. Raises ``ValueError`` naming a
        field that is missing, unknown, or has a value that this model can't express.
      to_hugging_face: Returns the fields of a ``config.json``. Raises ``ValueError`` where transformers has no such
        model.
      hugging_face_weights: Returns the weight table under Hugging Face's names.
      as_stored: Returns the configuration that the names of the stored arrays show, where the fields of a
        ``config.json`` leave it open; ``None`` where they don't.
      separate: Returns files whose arrays are joined in another form of the same model as files with the names of
        the table; ``None`` where there is one form.
      prefix: Begins weight names, except in files of a model without a head.
      other_prefixes: Begin weight names in files of some classes instead.
      unused_weights: Patterns of arrays in files that the model doesn't use.
      special_ids: Special ids where a ``config.json`` has none.
      num_sentinels: Sentinel ids after the pieces of ``spiece.model`` (Raffel et al. 2020, §3.1.4).
      num_byte_sentinels: Sentinel ids of the variant that reads bytes; 0 where there is none.
      t5x_weights: Returns the weight table under T5X's names, where T5X has the model.
    """

    name: str
    config_class: type[Any]
    model_types: tuple[str, ...] = ()
    classes: Mapping[str, ModelTask] = field(default_factory=dict)
    from_hugging_face: Callable[[Mapping[str, Any]], Any]
    to_hugging_face: Callable[[Any], dict[str, Any]]
    hugging_face_weights: Callable[[Any], tuple[Weight, ...]]
    as_stored: Callable[[Any, Collection[str]], Any] | None = None
    separate: Callable[[WeightSource], WeightSource] | None = None
    prefix: str = ""
    other_prefixes: tuple[str, ...] = ()
    unused_weights: tuple[str, ...] = ()
    special_ids: Mapping[str, int | tuple[int, ...]] = field(default_factory=lambda: T5_SPECIAL_IDS)
    num_sentinels: int = 0
    num_byte_sentinels: int = 0
    t5x_weights: Callable[[Any], tuple[Weight, ...]] | None = None

    @property
    def tasks(self) -> frozenset[ModelTask]:
        """Tasks that transformers has a class for."""
        return frozenset(self.classes.values())


@dataclass(frozen=True, kw_only=True)
class FieldTable:
    """Correspondence of a configuration and a Hugging Face ``config.json``.

    Attributes:
      fields: Field of ``config.json`` for each of the configuration's.
      fixed: Fields that are written with this value, and refused with another.
      required: Fields that are refused with another value, and not written.
      ignored: Fields that don't change the model.
      written: Fields that are written with this value, and not read.
      default_task: Task of a file without ``architectures``.
      read: Returns values of further fields of the configuration, from those of the file and the values read so far.
      write: Returns further fields of the file from a configuration; they replace others of the same name.
    """

    fields: Mapping[str, Field]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)
    default_task: ModelTask = "base"
    read: Callable[[ConfigFields, dict[str, Any]], Mapping[str, Any]] = lambda _, __: {}
    write: Callable[[Any], Mapping[str, Any]] = lambda _: {}


_ConfigT = TypeVar("_ConfigT", bound=CommonConfig)


def published(
    name: str,
    config_class: type[_ConfigT],
    classes: Mapping[str, ModelTask],
    table: FieldTable,
    *,
    weights: Callable[[_ConfigT], tuple[Weight, ...]],
    model_types: tuple[str, ...] = (),
    **others: Any,
) -> Architecture:
    """Return the record of an architecture that transformers has.

    Args:
      name: Name of the zoo file.
      config_class: Configuration that builds the model.
      classes: Names of transformers' classes, with the task of each.
      table: Fields of a ``config.json``.
      weights: Returns the weight table.
      model_types: Values of ``model_type``; by default ``name`` alone.
      **others: Further attributes of ``Architecture``.
    """
    model_types = model_types or (name,)

    def from_hugging_face(config: Mapping[str, object]) -> _ConfigT:
        fields = ConfigFields(config)
        for field_name, value in {**table.fixed, **table.required}.items():
            fields.must_be(field_name, value)
        fields.ignore(*table.ignored)
        values = {own: field.read(fields) for own, field in table.fields.items()}
        values |= {"task": task_of(config, classes, table.default_task), **read_labels(config)}
        values |= table.read(fields, values)
        fields.finish()
        return config_class(**values)

    def to_hugging_face(config: CommonConfig) -> dict[str, object]:
        return {
            "architectures": [class_of(config.task, classes)],
            "model_type": model_types[0],
            "torch_dtype": "float32",
            **label_fields(config.num_labels, config.problem_type),
            **table.fixed,
            **table.written,
            **{field.name: field.write(getattr(config, own)) for own, field in table.fields.items()},
            **table.write(config),
        }

    return Architecture(
        name=name,
        config_class=config_class,
        model_types=model_types,
        classes=classes,
        from_hugging_face=from_hugging_face,
        to_hugging_face=to_hugging_face,
        hugging_face_weights=weights,
        **others,
    )


def unpublished(name: str, config_class: type[object], reason: str) -> Architecture:
    """Return the record of an architecture that transformers lacks.

    Args:
      name: Name of the zoo file.
      config_class: Configuration that builds the model.
      reason: Message of the ``ValueError`` that conversion raises.
    """

    def refuse(_: object) -> NoReturn:
        raise ValueError(f"{config_class.__name__}: {reason}")

    return Architecture(
        name=name,
        config_class=config_class,
        from_hugging_face=refuse,
        to_hugging_face=refuse,
        hugging_face_weights=refuse,
    )
