"""Weights that pass through memory a part at a time, to a checkpoint, from one, and onto a mesh."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x_like.checkpoints import lazy_array_writer
from t5x_like.checkpoints.checkpoints import Checkpoints, lazy_params, restore_step
from t5x_like.model.lazy_array import Index, LazyArray, put_on_devices
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, per_layer, read_weights, source_of, split_columns

SHAPES = {"stack": (3, 4, 6), "table": (10, 4), "scale": (5,), "number": (), "none": (0, 3)}


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1


def unread(
    shape: tuple[int, ...], requested: list[Index] | None = None, *, by_rows: bool = False
) -> LazyArray:
    def read(index: Index) -> np.ndarray:
        if requested is not None:
            requested.append(index)
        return numbers(shape)[index]

    return LazyArray(shape, read, by_rows=by_rows)


@pytest.mark.parametrize("chunk_bytes", [2**20, 100, 32])
def test_what_was_unread_is_saved_like_any_array(
    tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_array_writer, "_CHUNK_BYTES", chunk_bytes)
    requested: dict[str, list[Index]] = {name: [] for name in SHAPES}
    params = {name: unread(shape, requested[name], by_rows=name == "stack") for name, shape in SHAPES.items()}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, {"params": params})
    rows = [index[0] for index in requested["stack"]]
    assert rows == ([slice(None)] if chunk_bytes == 2**20 else [slice(row, row + 1) for row in range(3)])
    assert len(requested["table"]) == 1
    like = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in SHAPES.items()}
    for name, array in restore_step(tmp_path, like)[1].items():
        np.testing.assert_array_equal(array, numbers(SHAPES[name]))
    with lazy_params(tmp_path, like) as restored:
        for name, shape in SHAPES.items():
            np.testing.assert_array_equal(np.asarray(restored[name]), numbers(shape))


def test_unread_weights_of_any_run_are_checked_first(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"params": {"a": np.ones(3, np.float32)}, "step": np.int32(1)})
    like = {"a": jax.ShapeDtypeStruct((3,), np.float32)}
    with lazy_params(tmp_path, like) as params:
        np.testing.assert_array_equal(np.asarray(params["a"]), np.ones(3))
    other = {"a": jax.ShapeDtypeStruct((4,), np.float32)}
    with pytest.raises(ValueError, match=r"params/a has shape \(3,\)"), lazy_params(tmp_path, other):
        pass


def sharding(*spec: Any) -> NamedSharding:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
    return NamedSharding(mesh, PartitionSpec(*spec))


@pytest.mark.parametrize("spec", [(None, "a", "b"), (None, None, "a"), ("b", ("a",), None), ()])
def test_a_large_array_is_read_in_the_parts_that_devices_hold(spec: tuple[Any, ...]) -> None:
    shape, requested = (4, 8, 12), []
    placed = put_on_devices(unread(shape, requested), sharding(*spec), whole_bytes=0)
    np.testing.assert_array_equal(placed, numbers(shape))
    assert placed.sharding.is_equivalent_to(sharding(*spec), 3)
    assert len(requested) == {(): 1, (None, None, "a"): 4}.get(spec, 8)


def test_a_small_array_is_read_once() -> None:
    requested: list[Index] = []
    np.testing.assert_array_equal(put_on_devices(unread((4, 8), requested), sharding("a")), numbers((4, 8)))
    assert len(requested) == 1
    assert put_on_devices(unread(()), None).shape == ()


def test_layers_of_a_stack_are_read_one_by_one_and_in_part() -> None:
    """Ours are [layers, in, out] and two, theirs fused and transposed for each layer."""
    rows = [
        Weight(("query", "key"), "h.{layer}.qk", split_columns(2, 2)),
        Weight("out", "h.{layer}.o", TRANSPOSED),
    ]
    table = tuple(per_layer("stack", (0, 2), rows))
    reference = {
        f"h.{layer}.{name}": numbers((3, 4)) + 100 * layer for layer in (0, 2) for name in ("qk", "o")
    }
    shapes = {"query": (2, 3, 2), "key": (2, 3, 2), "out": (2, 4, 3)}
    like = {"stack": {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}}
    counted: list[str] = []
    source = source_of(reference, "test")
    source = source._replace(read=lambda name: (counted.append(name), reference[name])[1])
    actual = read_weights(table, like, source, place=lambda _, array: array)["stack"]
    assert not counted
    np.testing.assert_array_equal(
        np.asarray(actual["key"]), [reference["h.0.qk"][:, 2:], reference["h.2.qk"][:, 2:]]
    )
    counted.clear()
    part = actual["out"][slice(1, 2), slice(0, 2), slice(1, None)]
    np.testing.assert_array_equal(part, reference["h.2.o"].T[None, 0:2, 1:])
    assert counted == ["h.2.o"]
