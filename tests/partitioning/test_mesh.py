from dataclasses import dataclass

import jax
import pytest
from jax.sharding import AxisType

from t5x_like.partitioning.mesh import MeshConfig


def test_minus_one_takes_the_rest_of_the_devices():
    mesh = MeshConfig(data=-1, fsdp=2, model=2).build()
    assert dict(mesh.shape) == {"data": 2, "fsdp": 2, "expert": 1, "context": 1, "model": 2}
    assert mesh.axis_types == (AxisType.Auto,) * 5


def test_parts_of_a_row_lie_next_to_each_other_outside_of_the_model_axis():
    mesh = MeshConfig(fsdp=2, context=2, model=2).build()
    assert [device.id for device in mesh.devices[0, 0, 0].flat] == [0, 1, 2, 3]
    assert [device.id for device in mesh.devices[0, 0, 0, :, 0]] == [0, 2]


def test_the_default_mesh_is_data_parallel():
    assert dict(MeshConfig().build().shape) == {"data": 8, "fsdp": 1, "expert": 1, "context": 1, "model": 1}


def test_a_mesh_can_use_some_devices_only():
    assert MeshConfig(fsdp=-1, data=1).build(jax.devices()[:3]).devices.shape == (1, 3, 1, 1, 1)


@dataclass(frozen=True)
class Chip:
    """A chip of a TPU that isn't here."""

    id: int
    slice_index: int
    coords: tuple[int, int, int]
    platform: str = "tpu"
    device_kind: str = "TPU v4"
    core_on_chip: int = 0
    process_index: int = 0


def test_tpu_slices_are_joined_along_a_batch_axis_and_share_no_row():
    chips = [Chip(index, index // 4, (index // 2 % 2, index % 2, 0)) for index in range(8)]
    devices = MeshConfig(data=2, context=2, model=2).build(chips).devices
    assert [{chip.slice_index for chip in rows.flat} for rows in devices] == [{0}, {1}]
    with pytest.raises(
        ValueError, match=r"2 TPU slices are joined along data, fsdp or expert; .* \(1, 1, 1\)"
    ):
        MeshConfig(data=1, context=4, model=2).build(chips)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"data": 3, "fsdp": 1, "model": 1},
            "data 3 × fsdp 1 × model 1 needs exactly 3 devices, and there are 8",
        ),
        (
            {"data": -1, "fsdp": 3},
            "data -1 × fsdp 3 × model 1 needs a multiple of 3 devices, and there are 8",
        ),
        (
            {"data": 2, "context": 3},
            "data 2 × fsdp 1 × context 3 × model 1 needs exactly 6 devices, and there are 8",
        ),
        ({"data": -1, "fsdp": -1}, "only one axis can be -1"),
        ({"data": 0}, "mesh axis data=0; give a number of devices"),
    ],
)
def test_sizes_that_do_not_fit_are_explained(sizes, message):
    with pytest.raises(ValueError, match=message):
        MeshConfig(**sizes).build()
