"""Devices that are not here: TPU topologies for the compiler, and simulated CPU devices."""

import importlib.util
import math
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh

from t5x_like.planning import gpu_compiler
from t5x_like.planning.chips import CHIPS, GPUS_PER_MACHINE, Chip
from t5x_like.planning.device_groups import BETWEEN_SLICES

MAX_DEVICES = 512
_MAX_SLICES, _MAX_TPU_DEVICES = 64, 8192
_SLICES = re.compile(r"(\d+)x([a-z]\w*:.*)")


class Topology(NamedTuple):
    """Chips and the network between them.

    Attributes:
      text: Value of ``--topology``, such as "v5p:4x4x4", "2xv5e:16x16" or "cpu:8".
      chip: Its figures.
      shape: TPU: chips along each axis of a slice's network. Others: number of devices.
      num_slices: TPU: slices, which the data center's network joins.
    """

    text: str
    chip: Chip
    shape: tuple[int, ...]
    num_slices: int = 1

    @property
    def num_devices(self) -> int:
        """Number of JAX devices."""
        return self.num_slices * math.prod(self.shape) * self.chip.devices_per_chip

    @property
    def is_compiled(self) -> bool:
        """True if programs are compiled for these chips; False for GPUs without JAX's CUDA plugin."""
        return self.chip.kind != "gpu" or gpu_compiler.is_installed()

    def devices(self) -> list[Any]:
        """Return the devices to compile for; those of other machines can't run anything.

        GPUs are replaced by as many simulated CPU devices where their compiler isn't installed.

        Raises:
          ValueError: libtpu is not installed, or JAX has already started with fewer CPU devices.
        """
        if self.chip.kind == "cpu" or not self.is_compiled:
            return _simulated_devices(self.num_devices)
        jax.config.update("jax_platforms", "cpu")  # plugins would look for their devices
        is_tpu = self.chip.kind == "tpu"
        devices = _tpu_devices(self) if is_tpu else gpu_compiler.absent_gpus(self.chip, self.num_devices)
        jax.config.update("jax_enable_compilation_cache", False)  # it can't read programs for absent devices
        compilation_cache.reset_cache()  # JAX may have opened it already
        return devices

    def send_seconds(self, num_bytes: float, mesh: Mesh, axes: Sequence[str]) -> float:
        """Return the seconds in which each device sends so many bytes along mesh axes, all at once.

        On a TPU a group uses both links of each network axis along which its chips lie; one, where the axis has no link
        between its ends. GPUs of one machine use its links, others the network. Slices use the data center's network.

        Args:
          num_bytes: Bytes that each device sends.
          mesh: Devices.
          axes: Mesh axes along which devices form groups, or ``BETWEEN_SLICES``; axes that the mesh lacks are ignored.
        """
        if tuple(axes) == BETWEEN_SLICES:
            return num_bytes / self.chip.network_bytes_per_second
        along = [mesh.axis_names.index(axis) for axis in axes if axis in mesh.axis_names]
        along = along or list(range(mesh.devices.ndim))
        others = [0 if axis not in along else slice(None) for axis in range(mesh.devices.ndim)]
        group = np.ravel(mesh.devices[tuple(others)])
        if self.chip.kind == "gpu":
            numbers = {
                int(np.flatnonzero(np.ravel(mesh.devices) == device)[0]) // GPUS_PER_MACHINE
                for device in group
            }
            chip = self.chip
            return num_bytes / (
                chip.link_bytes_per_second if len(numbers) == 1 else chip.network_bytes_per_second
            )
        coordinates = np.array([device.coords for device in group])
        links = 0
        for axis, length in enumerate(self.shape):
            spanned = len(set(coordinates[:, axis].tolist())) if axis < coordinates.shape[1] else 1
            if spanned > 1:
                links += 2 if length % self.chip.wraps_at == 0 and spanned == length else 1
        return num_bytes / (max(links, 1) * self.chip.link_bytes_per_second)


def topology(text: str) -> Topology:
    """Read a topology such as "v5e:4x4", "2xv5e:16x16", "h100:8" or "cpu:8".

    Raises:
      ValueError: There is no such chip or shape; the message lists those that there are.
    """
    slices = _SLICES.fullmatch(text)
    num_slices, one_slice = (int(slices[1]), slices[2]) if slices else (1, text)
    name, _, size = one_slice.partition(":")
    chip = CHIPS.get(name)
    if chip is None:
        raise ValueError(f"there is no topology {text!r}; choose from {known_topologies()}")
    if chip.kind == "tpu":
        if size not in chip.shapes:
            raise ValueError(f"{name} has no topology {size!r}; choose from {_listed(chip)}")
        wanted = Topology(text, chip, tuple(int(length) for length in size.split("x")), num_slices)
        _check_slices(wanted)
        return wanted
    if slices:
        raise ValueError(
            f"{text!r} names slices, which TPUs have; write {name}:{num_slices * GPUS_PER_MACHINE}"
        )
    if not size.isdecimal() or not 1 <= int(size) <= MAX_DEVICES:
        raise ValueError(
            f"{text!r} names no number of devices from 1 to {MAX_DEVICES}; write {name}:8 for eight devices"
        )
    return Topology(text, chip, (int(size),))


def _check_slices(wanted: Topology) -> None:
    if wanted.num_slices == 1:
        return
    if not wanted.chip.network_bytes_per_second:
        raise ValueError(
            f"{wanted.text}: the network between slices of {wanted.chip.name} is not published; plan one slice"
        )
    if not 1 < wanted.num_slices <= _MAX_SLICES or wanted.num_devices > _MAX_TPU_DEVICES:
        raise ValueError(
            f"{wanted.text} has {wanted.num_devices:,} devices; give 2 to {_MAX_SLICES} slices and at most "
            f"{_MAX_TPU_DEVICES:,} devices"
        )


def known_topologies() -> str:
    """Return all topologies as a text."""
    return "; ".join([*(_listed(chip) for chip in CHIPS.values()), "2xv5e:16x16 for two slices of TPUs"])


def _listed(chip: Chip) -> str:
    if chip.kind != "tpu":
        return f"{chip.name}:N for N devices up to {MAX_DEVICES}"
    return ", ".join(f"{chip.name}:{shape}" for shape in chip.shapes)


def _simulated_devices(num_devices: int) -> list[Any]:
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", num_devices)
    except RuntimeError:  # JAX has started
        pass
    devices = jax.devices("cpu")
    if len(devices) < num_devices:
        raise ValueError(
            f"JAX has started with {len(devices)} CPU devices and can't simulate {num_devices}; plan in a new process, "
            f"or set XLA_FLAGS=--xla_force_host_platform_device_count={num_devices} before it starts"
        )
    return devices[:num_devices]


def _tpu_devices(wanted: Topology) -> list[Any]:
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            f"compiling for {wanted.text} needs TPU's compiler, libtpu, and no TPU: pip install 't5x-like[plan]'"
        )
    # Without them libtpu looks for the TPU of a cloud machine, and for the only process that may use it.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "none")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    options: dict[str, Any] = {"chip_config_name": "megacore"} if wanted.chip.name == "v4" else {}
    if wanted.num_slices > 1:
        options["num_slices"] = wanted.num_slices
    name = f"{wanted.chip.name}:{'x'.join(map(str, wanted.shape))}"
    return list(topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices)
