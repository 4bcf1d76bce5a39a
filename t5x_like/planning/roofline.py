"""Least time of a step on a chip, from its program's counts and its data sheet (Williams et al. 2009).

https://doi.org/10.1145/1498765.1498785
"""

from typing import NamedTuple

from jax.sharding import Mesh

from t5x_like.planning.chips import Chip
from t5x_like.planning.program_counts import ProgramCounts
from t5x_like.planning.topology import Topology


class Roofline(NamedTuple):
    """Seconds that one step takes at least.

    Attributes:
      compute_seconds: All FLOPs at the chip's peak.
      memory_seconds: All bytes at the main memory's bandwidth; arguments and results once, where the program isn't
        compiled for the chip.
      operation_seconds: The sum over operations of the slower of the two.
      interconnect_seconds: All bytes that are sent, at the bandwidth of the links that each collective can use.
    """

    compute_seconds: float
    memory_seconds: float
    operation_seconds: float
    interconnect_seconds: float

    @property
    def overlapped_seconds(self) -> float:
        """Step time if all communication hides behind computation."""
        return max(self.operation_seconds, self.interconnect_seconds)

    @property
    def serial_seconds(self) -> float:
        """Step time if computation waits for all communication."""
        return self.operation_seconds + self.interconnect_seconds


def roofline(
    counts: ProgramCounts, topology: Topology, mesh: Mesh, *, external_bytes: float
) -> Roofline | None:
    """Return the bounds; ``None`` for simulated CPU devices, which have no data sheet.

    Args:
      counts: Counts of one device's program.
      topology: The devices.
      mesh: Their arrangement.
      external_bytes: Arguments and results of one device's program.
    """
    chip = topology.chip
    if chip.kind == "cpu":
        return None
    compute = counts.flops / chip.flops_per_second
    if topology.is_compiled:
        memory = counts.num_bytes / chip.memory_bytes_per_second
        operations = operation_seconds(counts, chip)
    else:  # a program for CPUs moves several times the bytes of a GPU's
        memory = external_bytes / chip.memory_bytes_per_second
        operations = max(compute, memory)
    return Roofline(
        compute_seconds=compute,
        memory_seconds=memory,
        operation_seconds=operations,
        interconnect_seconds=sum(
            topology.send_seconds(each.sent_bytes, mesh, kind.axes)
            for kind, each in counts.collectives.items()
        ),
    )


def operation_seconds(counts: ProgramCounts, chip: Chip) -> float:
    """Return the sum over operations of the slower of FLOPs and bytes.

    Args:
      counts: Counts of a program that was compiled for such a chip.
      chip: Its figures.
    """
    return sum(
        max(each.flops / chip.flops_per_second, each.num_bytes / chip.memory_bytes_per_second) * each.times
        for each in counts.operations
    )
