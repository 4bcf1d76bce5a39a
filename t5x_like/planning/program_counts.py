"""FLOPs, memory traffic and collectives of one device's program, with every loop counted as often as it runs.

XLA's own ``cost_analysis`` counts the body of a loop once, so it misses all but one of a model's scanned layers.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from t5x_like.model.layers.expert_blocks import rounds_of
from t5x_like.planning.device_groups import (
    BETWEEN_SLICES,
    MeshShape,
    replica_groups,
    source_target_pairs,
    transfer_between_slices,
)
from t5x_like.planning.fusion_costs import FusionCosts
from t5x_like.planning.hlo_program import Computation, HloProgram, Instruction, parse
from t5x_like.planning.instruction_costs import COLLECTIVES, bytes_moved, host_bytes, matmul_flops

# They name, view or wait for values, and move none.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "domain"),
    *("partition-id", "replica-id", "add-dependency", "async-update", "call-update", "recv"),
}
# Custom calls that allocate or mark.
_FREE_TARGETS = (
    "AllocateBuffer",
    "AsyncCollective",
    "ConcatBitcast",
    "Sharding",
    "AssumeGatherIndicesInBound",
    "SliceId",
    "ZeroCrop",
)


class Operation(NamedTuple):
    """An instruction of the compiled program that runs on its own.

    Attributes:
      flops: Operations of its matrix products and convolutions, 2 for a multiplication and an addition.
      num_bytes: Bytes read from and written to main memory.
      times: Number of runs in a step.
      host_bytes: Bytes moved between the device's memory and the host's.
    """

    flops: float
    num_bytes: float
    times: int
    host_bytes: int = 0


class CollectiveKind(NamedTuple):
    """Kind of a collective, and the mesh axes along which devices talk; ``("?",)`` for other groups."""

    kind: str
    axes: tuple[str, ...]


@dataclass
class CollectiveCounts:
    """Collectives of one kind along the same axes, in one step.

    Attributes:
      times: How often one runs.
      payload_bytes: Bytes of the whole arrays that are gathered, reduced or exchanged within a group.
      sent_bytes: Bytes that each device sends with a ring algorithm.
    """

    times: int = 0
    payload_bytes: float = 0.0
    sent_bytes: float = 0.0


class LargeArray(NamedTuple):
    """An array that the program computes.

    Attributes:
      num_bytes: Its size.
      shape: Type and dimensions.
      source_name: Path of the JAX operation that computes it.
    """

    num_bytes: int
    shape: str
    source_name: str


@dataclass
class ProgramCounts:
    """Sums over one step of one device.

    Attributes:
      operations: Every instruction that runs on its own.
      collectives: By kind and axes.
      custom_calls: How often each kernel runs that has no estimate of its own cost in the text.
      num_open_loops: Loops without a known number of rounds, counted as one round. Those over blocks of tokens of
        experts count as if all experts were equally busy.
    """

    operations: list[Operation] = field(default_factory=list)
    collectives: dict[CollectiveKind, CollectiveCounts] = field(
        default_factory=lambda: defaultdict(CollectiveCounts)
    )
    custom_calls: Counter[str] = field(default_factory=Counter)
    num_open_loops: int = 0

    @property
    def flops(self) -> float:
        """FLOPs of matrix products and convolutions."""
        return sum(each.flops * each.times for each in self.operations)

    @property
    def num_bytes(self) -> float:
        """Bytes read from and written to main memory."""
        return sum(each.num_bytes * each.times for each in self.operations)

    @property
    def host_bytes(self) -> float:
        """Bytes moved between the device's memory and the host's."""
        return float(sum(each.host_bytes * each.times for each in self.operations))

    @property
    def sent_bytes(self) -> float:
        """Bytes that the device sends to others."""
        return sum(each.sent_bytes for each in self.collectives.values())

    def add(self, other: "ProgramCounts") -> None:
        """Add the counts of another part of the program."""
        self.operations += other.operations
        self.custom_calls += other.custom_calls
        self.num_open_loops += other.num_open_loops
        for kind, counts in other.collectives.items():
            own = self.collectives[kind]
            own.times += counts.times
            own.payload_bytes += counts.payload_bytes
            own.sent_bytes += counts.sent_bytes


def count(text: str, mesh: MeshShape) -> ProgramCounts:
    """Return the counts of an optimized HLO module.

    Args:
      text: Text of a program, from ``jax.stages.Compiled.as_text``.
      mesh: Devices in the order of the program's device numbers.
    """
    program = parse(text)
    return _Counter(program, mesh).computation(program.computations[program.entry], times=1)


def largest_arrays(text: str, num_arrays: int) -> list[LargeArray]:
    """Return the largest arrays that the program computes, each shape and source once.

    Args:
      text: Optimized HLO program.
      num_arrays: Number of arrays.
    """
    sizes: dict[tuple[str, str], int] = {}
    for computation in _run_on_their_own(parse(text)):
        for instruction in computation.instructions.values():
            if instruction.opcode in _FREE or instruction.opcode in ("while", "conditional", "call"):
                continue
            for shape in instruction.shapes:
                if shape.main_memory_bytes:
                    sizes[str(shape), instruction.source_name] = shape.num_bytes
    ranked = sorted(sizes.items(), key=lambda item: -item[1])
    return [LargeArray(size, shape, source) for (shape, source), size in ranked[:num_arrays]]


def _run_on_their_own(program: HloProgram) -> list[Computation]:
    """Return the entry and the bodies of loops, calls and branches, without what is fused."""
    computations, waiting = {}, [program.entry]
    while waiting:
        name = waiting.pop()
        if name in computations:
            continue
        computations[name] = program.computations[name]
        for instruction in computations[name].instructions.values():
            if instruction.opcode in ("while", "call", "conditional"):
                waiting += _called(instruction)
    return list(computations.values())


def _called(instruction: Instruction) -> list[str]:
    names = ("body", "to_apply", "branch_computations", "true_computation", "false_computation")
    return [name for attribute in names for name in instruction.called(attribute)]


class _Counter:
    """Walks through a program."""

    def __init__(self, program: HloProgram, mesh: MeshShape) -> None:
        self._program, self._mesh = program, mesh
        self._fusions = FusionCosts(program)

    def computation(
        self, computation: Computation, *, times: int, channels: Collection[int] = ()
    ) -> ProgramCounts:
        """Count a computation that runs ``times`` times in a step.

        Args:
          computation: The computation.
          times: How often it runs.
          channels: Those of collectives that the caller has started, which a loop may only continue.
        """
        counts = ProgramCounts()
        fused_channels = set(channels)
        for instruction in computation.instructions.values():
            self._count(computation, instruction, times, counts, fused_channels)
        return counts

    def _count(
        self,
        computation: Computation,
        instruction: Instruction,
        times: int,
        counts: ProgramCounts,
        fused_channels: set[int],
    ) -> None:
        opcode = instruction.opcode
        if opcode == "while":
            rounds = self._program.trip_count(computation, instruction)
            if rounds is None:
                rounds = rounds_of(instruction.source_name)
            counts.num_open_loops += rounds is None
            (body,) = instruction.called("body")
            counts.add(self._of(body, times * (1 if rounds is None else rounds), fused_channels))
        elif opcode == "conditional":
            branches = [self._of(name, times, fused_channels) for name in _called(instruction)]
            counts.add(max(branches, key=lambda branch: (branch.flops, branch.num_bytes)))
        elif opcode in ("call", "call-start") or (opcode == "async-start" and instruction.called("calls")):
            for name in instruction.called("to_apply") or instruction.called("calls"):
                counts.add(self._of(name, times, fused_channels))
        elif opcode in ("fusion", "fusion-start"):
            (name,) = instruction.called("calls")
            fused = self._program.computations[name]
            moved = self._fusions.bytes_moved(computation, instruction, fused)
            counts.operations.append(
                Operation(self._fusions.flops(name), moved, times, host_bytes(instruction))
            )
            self._count_fused_collectives(fused, times, counts, fused_channels)
        elif (kind := opcode.removesuffix("-start")) in COLLECTIVES:
            self._count_collective(kind, computation, instruction, times, counts)
        elif opcode == "send":
            self._count_transfer(computation, instruction, times, counts)
        elif opcode == "custom-call":
            flops = matmul_flops(computation, instruction)
            estimate = re.search(r'"cost_estimate":\s*(\{[^}]*\})', instruction.attributes)
            if estimate:
                costs = json.loads(estimate[1])
                flops, num_bytes = float(costs["flops"]), float(costs["bytes_accessed"])
                counts.operations.append(Operation(flops, num_bytes, times))
            elif not instruction.target.startswith(_FREE_TARGETS):
                if not flops:
                    counts.custom_calls[instruction.target] += times
                counts.operations.append(Operation(flops, bytes_moved(computation, instruction), times))
        elif opcode not in _FREE and not opcode.endswith("-done"):
            flops = matmul_flops(computation, instruction)
            moved = bytes_moved(computation, instruction)
            counts.operations.append(Operation(flops, moved, times, host_bytes(instruction)))

    def _of(self, name: str, times: int, channels: Collection[int]) -> ProgramCounts:
        return self.computation(self._program.computations[name], times=times, channels=channels)

    def _count_collective(
        self, kind: str, computation: Computation, instruction: Instruction, times: int, counts: ProgramCounts
    ) -> None:
        own = sum(operand.num_bytes for operand in computation.operands(instruction))
        if kind == "collective-permute":
            axes = self._mesh.axes_of_pairs(source_target_pairs(instruction.attributes))
            payload, sent = own, float(own)
        else:
            groups = replica_groups(instruction.attributes)
            size = self._mesh.num_devices if groups is None else groups.shape[1]
            axes = self._mesh.axes_of(groups)
            payload, sent = _ring_bytes(kind, own, size)
        if axes == ():
            return  # groups of one device send nothing
        self._add_collective(
            CollectiveKind(kind, ("?",) if axes is None else axes), payload, sent, times, counts
        )

    def _count_transfer(
        self, computation: Computation, instruction: Instruction, times: int, counts: ProgramCounts
    ) -> None:
        """Count what the host exchanges with other slices."""
        transfer = transfer_between_slices(instruction.attributes)
        if transfer is None:
            return
        kind, num_slices = transfer
        own = computation.operands(instruction)[0].num_bytes
        payload, sent = _ring_bytes(kind, own, num_slices)
        self._add_collective(CollectiveKind(kind, BETWEEN_SLICES), payload, sent, times, counts)

    @staticmethod
    def _add_collective(
        kind: CollectiveKind, payload: float, sent: float, times: int, counts: ProgramCounts
    ) -> None:
        entry = counts.collectives[kind]
        entry.times += times
        entry.payload_bytes += payload * times
        entry.sent_bytes += sent * times

    def _count_fused_collectives(
        self, fused: Computation, times: int, counts: ProgramCounts, channels: set[int]
    ) -> None:
        """Count the collectives in a fusion.

        TPU programs fuse an asynchronous collective with the work that it overlaps: several fusions of one computation,
        from its start to its end, hold the same channel, also those of loops in between.
        """
        for instruction in fused.instructions.values():
            kind = instruction.opcode.removesuffix("-start")
            if kind in COLLECTIVES:
                channel = instruction.number("channel_id", -1)
                if channel in channels and channel >= 0:
                    continue
                channels.add(channel)
                if fused.name.startswith("all-reduce-scatter"):
                    kind = "reduce-scatter"
                self._count_collective(kind, fused, instruction, times, counts)
            for name in instruction.called("calls") if instruction.opcode == "fusion" else ():
                self._count_fused_collectives(self._program.computations[name], times, counts, channels)


def _ring_bytes(kind: str, own: float, size: int) -> tuple[float, float]:
    """Return the bytes of the whole arrays, and those that each device sends by a ring.

    Args:
      kind: Collective.
      own: Bytes of a device's operands.
      size: Devices of a group.
    """
    payload = own * size if kind == "all-gather" else own
    if kind not in COLLECTIVES:
        return payload, own
    return payload, payload * (size - 1) / size * (2 if kind == "all-reduce" else 1)
