"""Published figures of accelerators, and of the links between them."""

from typing import Literal, NamedTuple

GIGA, TERA, GIB = 1e9, 1e12, 2**30


class Chip(NamedTuple):
    """Figures of one accelerator from its maker's data sheet.

    JAX sees a TPU7x as two devices; its figures are those of one of them.

    Attributes:
      name: Name in ``--topology``.
      kind: "tpu", "gpu", or "cpu" for simulated devices, which have no figures.
      flops_per_second: Dense bfloat16 matrix products.
      memory_bytes: Main memory (HBM).
      memory_bytes_per_second: Bandwidth of the main memory.
      link_bytes_per_second: In one direction. TPU: of one link to a neighbor. GPU: of all links inside a machine.
      num_torus_axes: TPU: axes of the network, each with two links.
      network_bytes_per_second: In one direction. GPU: to other machines. TPU: to other slices, by the data center's
        network; 0 if it isn't published.
      shapes: TPU: numbers of chips along each axis of the network.
      devices_per_chip: TPU: JAX devices of each chip.
      wraps_at: TPU: the axis lengths, or their divisor, at which the ends of an axis are linked.
      source: Where the figures are published.
      device_kind: How JAX's name of such a device begins (``jax.Device.device_kind``).
    """

    name: str
    kind: Literal["tpu", "gpu", "cpu"]
    flops_per_second: float = 0.0
    memory_bytes: float = 0.0
    memory_bytes_per_second: float = 0.0
    link_bytes_per_second: float = 0.0
    num_torus_axes: int = 0
    network_bytes_per_second: float = 0.0
    shapes: tuple[str, ...] = ()
    devices_per_chip: int = 1
    wraps_at: int = 0
    source: str = ""
    device_kind: str = ""


_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
_SQUARES = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
GPUS_PER_MACHINE = 8

CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            "v4",
            "tpu",
            flops_per_second=275 * TERA,
            memory_bytes=32 * GIB,
            memory_bytes_per_second=1228 * GIGA,
            link_bytes_per_second=50 * GIGA,
            num_torus_axes=3,
            shapes=_CUBES,
            wraps_at=4,
            source="Jouppi et al. 2023, table 4, https://arxiv.org/abs/2304.01433",
            device_kind="TPU v4",
        ),
        Chip(
            "v5e",
            "tpu",
            flops_per_second=197 * TERA,
            memory_bytes=16 * GIB,
            memory_bytes_per_second=819 * GIGA,
            link_bytes_per_second=50 * GIGA,
            num_torus_axes=2,
            network_bytes_per_second=25 / 8 * GIGA,
            shapes=_SQUARES,
            wraps_at=16,
            source="https://cloud.google.com/tpu/docs/v5e (1,600 Gbit/s, 4 links; 6.4 Tbit/s for 256 chips to others)",
            device_kind="TPU v5 lite",
        ),
        Chip(
            "v5p",
            "tpu",
            flops_per_second=459 * TERA,
            memory_bytes=95 * GIB,
            memory_bytes_per_second=2765 * GIGA,
            link_bytes_per_second=100 * GIGA,
            num_torus_axes=3,
            network_bytes_per_second=50 / 8 * GIGA,
            shapes=_CUBES,
            wraps_at=4,
            source="https://cloud.google.com/tpu/docs/v5p (4,800 Gbit/s over 6 links; 50 Gbit/s to other slices)",
            device_kind="TPU v5",
        ),
        Chip(
            "v6e",
            "tpu",
            flops_per_second=918 * TERA,
            memory_bytes=32 * GIB,
            memory_bytes_per_second=1638 * GIGA,
            link_bytes_per_second=100 * GIGA,
            num_torus_axes=2,
            network_bytes_per_second=100 / 8 * GIGA,
            shapes=_SQUARES,
            wraps_at=16,
            source="https://cloud.google.com/tpu/docs/v6e (800 GB/s in both directions, 4 links; 100 Gbit/s to others)",
            device_kind="TPU v6 lite",
        ),
        Chip(
            "tpu7x",
            "tpu",
            flops_per_second=2307 / 2 * TERA,
            memory_bytes=96 * GIB,
            memory_bytes_per_second=7380 / 2 * GIGA,
            link_bytes_per_second=100 / 2 * GIGA,
            num_torus_axes=3,
            network_bytes_per_second=100 / 8 / 2 * GIGA,
            shapes=_CUBES,
            devices_per_chip=2,
            wraps_at=4,
            source="https://cloud.google.com/tpu/docs/tpu7x (half a chip; 1,200 GB/s in both directions over 6 links)",
            device_kind="TPU7x",
        ),
        Chip(
            "a100",
            "gpu",
            flops_per_second=312 * TERA,
            memory_bytes=80e9,
            memory_bytes_per_second=2039 * GIGA,
            link_bytes_per_second=300 * GIGA,
            network_bytes_per_second=25 * GIGA,
            source="https://www.nvidia.com/en-us/data-center/a100/ (SXM, 80 GB; 200 Gbit/s to other machines)",
            device_kind="NVIDIA A100",
        ),
        Chip(
            "h100",
            "gpu",
            flops_per_second=989 * TERA,
            memory_bytes=80e9,
            memory_bytes_per_second=3350 * GIGA,
            link_bytes_per_second=450 * GIGA,
            network_bytes_per_second=50 * GIGA,
            source="https://www.nvidia.com/en-us/data-center/h100/ (SXM; 400 Gbit/s to other machines)",
            device_kind="NVIDIA H100",
        ),
        Chip(
            "h200",
            "gpu",
            flops_per_second=989 * TERA,
            memory_bytes=141e9,
            memory_bytes_per_second=4800 * GIGA,
            link_bytes_per_second=450 * GIGA,
            network_bytes_per_second=50 * GIGA,
            source="https://www.nvidia.com/en-us/data-center/h200/ (SXM; 400 Gbit/s to other machines)",
            device_kind="NVIDIA H200",
        ),
        Chip(
            "b200",
            "gpu",
            flops_per_second=2250 * TERA,
            memory_bytes=180e9,
            memory_bytes_per_second=8000 * GIGA,
            link_bytes_per_second=900 * GIGA,
            network_bytes_per_second=50 * GIGA,
            source="https://www.nvidia.com/en-us/data-center/dgx-b200/ (an eighth of it; 400 Gbit/s to other machines)",
            device_kind="NVIDIA B200",
        ),
        Chip("cpu", "cpu"),
    )
}


def chip_of(device_kind: str) -> Chip | None:
    """Return the figures of a device that is here; ``None`` for others than these.

    Args:
      device_kind: Kind of a ``jax.Device``.
    """
    chips = [chip for chip in CHIPS.values() if chip.device_kind and device_kind.startswith(chip.device_kind)]
    return max(chips, key=lambda chip: len(chip.device_kind), default=None)
