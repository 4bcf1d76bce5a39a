"""FLOPs and bytes of the fusions of a compiled program."""

from functools import cache

from t5x_like.planning.hlo_program import Computation, HloProgram, Instruction, Shape
from t5x_like.planning.instruction_costs import is_collective, matmul_flops, updates_of


class FusionCosts:
    """Costs of fusions, each computation counted once.

    Args:
      program: Program that contains them.
    """

    def __init__(self, program: HloProgram) -> None:
        self._program = program
        self._bytes_read = cache(self._uncached_bytes_read)
        self._flops = cache(self._uncached_fused_flops)

    def flops(self, name: str) -> float:
        """Return the FLOPs of a fused computation.

        Args:
          name: Name of the computation.
        """
        return self._flops(name)

    def bytes_moved(self, computation: Computation, instruction: Instruction, fused: Computation) -> float:
        """Return the bytes that a fusion reads of each operand and writes.

        Args:
          computation: Computation that contains the fusion.
          instruction: The fusion.
          fused: What it computes.
        """
        read = sum(
            self._bytes_read(fused.name, index)
            for index, _ in enumerate(computation.operands(instruction))
            if index in fused.parameters
        )
        return read + self._bytes_written(fused, fused.instructions[fused.root])

    def _uncached_fused_flops(self, name: str) -> float:
        fused = self._program.computations[name]
        return sum(
            self.flops(instruction.called("calls")[0])
            if instruction.opcode == "fusion"
            else matmul_flops(fused, instruction)
            for instruction in fused.instructions.values()
        )

    def _uncached_bytes_read(self, name: str, parameter_index: int) -> int:
        """Return the bytes of an operand that a fusion reads: slices of it, where it only takes slices."""
        fused = self._program.computations[name]
        parameter = fused.parameters[parameter_index]
        (shape, *_) = parameter.shapes or (Shape("token", ()),)
        whole = shape.main_memory_bytes
        if not whole:
            return 0
        total, waiting = 0, [parameter]
        while waiting:
            value = waiting.pop()
            for user in fused.users[value.name]:
                index = user.operands.index(value.name)
                if user.opcode in ("dynamic-slice", "slice", "gather") and index == 0:
                    total += user.num_bytes
                elif user.opcode == "bitcast":
                    waiting.append(user)
                elif user.opcode == "tuple" or is_collective(user):
                    continue  # passed on, or sent: that is counted as communication
                elif user.opcode == "fusion":
                    total += self._bytes_read(user.called("calls")[0], index)
                elif user.opcode == "scatter" and index == 0:
                    total += sum(operand.num_bytes for operand in updates_of(fused, user))
                elif user.opcode != "dynamic-update-slice" or index != 0:
                    return whole
        return min(total, whole)

    def _bytes_written(self, fused: Computation, root: Instruction) -> int:
        """Return the bytes that a fusion writes: the updates, where it changes parts of an operand in place."""
        if root.opcode == "tuple":
            return sum(self._bytes_written(fused, operand) for operand in fused.operands(root))
        is_elsewhere = all(shape.is_on_chip or shape.is_on_host for shape in root.shapes)
        source = fused.operands(root)[0] if root.opcode == "bitcast" else root
        if is_elsewhere or source.opcode == "parameter" or is_collective(source):
            return 0
        if source.opcode == "dynamic-update-slice":
            return fused.operands(source)[1].num_bytes
        if source.opcode == "scatter":
            return sum(operand.num_bytes for operand in updates_of(fused, source))
        if source.opcode == "fusion":
            inner = self._program.computations[source.called("calls")[0]]
            return self._bytes_written(inner, inner.instructions[inner.root])
        return sum(shape.main_memory_bytes for shape in root.shapes)
