"""Students that begin with some layers of their teacher (DistilBERT: Sanh et al. 2019, §3).

https://arxiv.org/abs/1910.01108.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from t5x_like.model import parameters
from t5x_like.model.layers.relative_stack import RelativeStack
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.common_config import CommonConfig

_STACKS = ("encoder", "decoder", "stack")  # attributes of models
_SHOWN = 6  # layers in a message


def every_nth(config: CommonConfig, step: int) -> dict[str, tuple[int, ...]]:
    """Return evenly spaced layers of each stack of a model, from its first on; an argument of ``select_layers``.

    Args:
      config: Configuration of the model.
      step: Distance between the layers.
    """
    return {name: tuple(range(0, size, step)) for name, size in num_layers_of(config).items()}


def num_layers_of(config: ModelConfig) -> dict[str, int]:
    """Return the number of layers of each stack of a model: ``"encoder"``, ``"decoder"`` or ``"stack"``."""
    return {name: stack.config.num_layers for name, stack in _stacks_of(config).items()}


def select_layers(
    config: Any, params: parameters.Parameters, layers: Mapping[str, Sequence[int]]
) -> tuple[ModelConfig, parameters.Parameters]:
    """Return a model of some layers of another one: its configuration and weights. All else is kept, heads too.

    Args:
      config: Configuration of the teacher.
      params: Weights of the teacher. Where they stay on disk, those of the student do too.
      layers: Numbers of the layers of each stack to keep, from 0 on; a stack that is not named keeps all.

    Raises:
      ValueError: There are no such layers, or the student would use one in another way than the teacher.
    """
    sizes = num_layers_of(config)
    unknown = [name for name in layers if name not in sizes]
    if unknown or not sizes:
        raise ValueError(
            f"a {type(config).__name__} has no {' and '.join(unknown) or 'stack of layers'} to choose layers of; "
            f"it has {', '.join(sizes) or 'none'}"
        )
    for name, chosen in layers.items():
        _check_numbers(name, chosen, sizes[name])
    student = replace(config, **_sizes(config, {name: len(chosen) for name, chosen in layers.items()}))
    before, after = _stacks_of(config), _stacks_of(student)
    flat = parameters.flatten(params)
    for name, chosen in layers.items():
        teacher_stack, student_stack = before[name], after[name]
        if isinstance(teacher_stack, RelativeStack):
            moves = {f"{name}/layers/": [(f"{name}/layers/", layer) for layer in chosen]}
        elif not _keeps_shared_weights(teacher_stack.config, student_stack.config, chosen):
            moves = _moves(name, teacher_stack.config, student_stack.config, chosen)
        else:
            continue
        flat = _moved(flat, f"{name}/layers/", moves)
    return student, parameters.unflatten(flat)


def _stacks_of(config: ModelConfig) -> dict[str, Any]:
    model = jax.eval_shape(config.build, jax.random.key(0))
    stacks = {name: vars(model)[name] for name in _STACKS if name in vars(model)}
    return {name: stack for name, stack in stacks.items() if isinstance(stack, Stack | RelativeStack)}


def _check_numbers(name: str, chosen: Sequence[int], size: int) -> None:
    if not chosen:
        raise ValueError(f"no layer of the {name} is chosen; give at least one of 0 to {size - 1}")
    wrong = [layer for layer in chosen if not 0 <= layer < size]
    if wrong:
        raise ValueError(
            f"layer {wrong[0]} of the {name} is chosen, which has {size} layers; give numbers from 0 to {size - 1}"
        )


def _sizes(config: CommonConfig, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of a configuration that hold the numbers of layers."""
    changed, names = {}, {each.name for each in fields(config)}
    for name, size in sizes.items():
        own = f"num_{name}_layers"
        changed[own if own in names else "num_layers"] = size
    if traits_of(config).share_stacks:
        changed["num_encoder_layers"] = changed["num_decoder_layers"]
    return changed


def _keeps_shared_weights(teacher: StackConfig, student: StackConfig, chosen: Sequence[int]) -> bool:
    """Return True if all layers share the weights that those of the student share; there is nothing to move then.

    Raises:
      ValueError: The student would share other weights.
    """
    if teacher.sharing is None:
        return False
    for part in ("attention", "feed_forward"):
        of_teacher: tuple[int, ...] = getattr(teacher.sharing, part)
        of_student = tuple(range(len(chosen))) if student.sharing is None else getattr(student.sharing, part)
        if tuple(of_teacher[layer] for layer in chosen) != of_student or max(of_teacher) != max(of_student):
            break
    else:
        return True
    raise ValueError(
        "the layers share weights in groups, which the student's layers would not share in the same way; choose "
        "layers from all groups, equally many of each"
    )


def _moves(
    name: str, teacher: StackConfig, student: StackConfig, chosen: Sequence[int]
) -> dict[str, list[tuple[str, int]]]:
    """Return for each slot of the student's stack the slots and places of its layers in the teacher's."""
    for student_layer, layer in enumerate(chosen):
        of_student, of_teacher = student.blocks[student_layer], teacher.blocks[layer]
        # Fresh weights may depend on the number of layers.
        if replace(of_student, init=of_teacher.init) != of_teacher:
            period = teacher.layer_pattern.period
            example = [row for row in range(len(teacher.blocks)) if row % (2 * period) < period][:_SHOWN]
            raise ValueError(
                f"layer {layer} of the {name} would be layer {student_layer} of the student, which is of another kind "
                f"(attention window or experts); kinds repeat every {period} layers, so keep whole groups, such as "
                f"{','.join(map(str, example))}"
            )
    slots = {
        layer: (f"{name}/layers/{slot}/", row)
        for slot, layers in enumerate(teacher.layer_pattern.slots)
        for row, layer in enumerate(layers)
    }
    return {
        f"{name}/layers/{slot}/": [slots[chosen[student_layer]] for student_layer in numbers]
        for slot, numbers in enumerate(student.layer_pattern.slots)
    }


def _moved(
    flat: Mapping[str, object], folder: str, moves: Mapping[str, list[tuple[str, int]]]
) -> dict[str, object]:
    """Return weights with those in ``folder`` replaced by the moved ones."""
    new = {path: leaf for path, leaf in flat.items() if not path.startswith(folder)}
    for slot, sources in moves.items():
        first = sources[0][0]
        for path in flat:
            if path.startswith(first):
                rest = path.removeprefix(first)
                new[slot + rest] = _gathered([(flat[source + rest], place) for source, place in sources])
    return new


def _gathered(layers: list[tuple[Any, int]]) -> LazyArray:
    """Return a stacked weight, read when it is needed, from places in other stacked weights."""

    def read(index: Index) -> np.ndarray:
        arrays = {id(leaf): np.asarray(leaf) for leaf, _ in layers}
        return np.stack([arrays[id(leaf)][row] for leaf, row in layers])[index]

    return LazyArray((len(layers), *layers[0][0].shape[1:]), read)
