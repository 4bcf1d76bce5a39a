"""Optimized HLO text as computations and instructions, and the order in which a device runs them.

The text is what ``jax.stages.Compiled.as_text`` returns after partitioning: the program of one device.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

_SHAPE = re.compile(r"([a-z]+\d*[a-z0-9]*)\[([\d,<=]*)\](\{[^}]*\})?")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_NAME = re.compile(r"%([\w.\-]+(?:#\d+)?)")  # since JAX 0.11 "%name#1" is the second element of a tuple
_TRIP_COUNT = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
_MAIN_MEMORY, _HOST_MEMORY = "0", "5"


class Shape(NamedTuple):
    """One array of an instruction's result.

    Attributes:
      dtype: HLO's name of the type, such as "bf16".
      dims: Sizes of the dimensions.
      is_on_chip: Whether the array is in fast memory next to the compute units, not in main memory (HBM).
      is_on_host: Whether the array is in the host's memory.
    """

    dtype: str
    dims: tuple[int, ...]
    is_on_chip: bool = False
    is_on_host: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def num_bytes(self) -> int:
        """Bytes of the array without the padding of tiles."""
        return math.ceil(self.size * _bits(self.dtype) / 8)

    @property
    def main_memory_bytes(self) -> int:
        """Bytes that reading or writing the array moves to or from main memory."""
        return 0 if self.is_on_chip or self.is_on_host else self.num_bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
      name: Its name in the computation.
      opcode: Such as "dot" or "fusion".
      shapes: Arrays of the result; nested tuples are flattened.
      operands: Names of instructions of the same computation.
      argument: Text between the operands' parentheses: a constant's value, a parameter's number.
      attributes: Text after the operands.
    """

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    argument: str
    attributes: str

    def called(self, attribute: str) -> list[str]:
        """Return the computations that an attribute such as ``body`` or ``calls`` names."""
        match = re.search(rf"\b{attribute}=(\{{[^}}]*\}}|%[\w.\-]+)", self.attributes)
        return _NAME.findall(match[1]) if match else []

    def dimensions(self, attribute: str) -> list[int]:
        """Return the numbers of an attribute such as ``lhs_contracting_dims={1}``."""
        match = re.search(rf"\b{attribute}=\{{([\d,]*)\}}", self.attributes)
        return [int(size) for size in match[1].split(",") if size] if match else []

    def number(self, attribute: str, default: int) -> int:
        """Return the number of an attribute such as ``feature_group_count=4``.

        Args:
          attribute: Name of the attribute.
          default: Result if the instruction doesn't have it.
        """
        match = re.search(rf"\b{attribute}=(\d+)", self.attributes)
        return int(match[1]) if match else default

    @property
    def source_name(self) -> str:
        """Path of the JAX operation that it came from; empty if unknown."""
        match = re.search(r'op_name="([^"]*)"', self.attributes)
        return match[1] if match else ""

    @property
    def target(self) -> str:
        """Kernel or library function of a custom call."""
        return self.attributes.partition('custom_call_target="')[2].partition('"')[0]

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays of the result."""
        return sum(shape.num_bytes for shape in self.shapes)


@dataclass
class Computation:
    """Instructions in the order in which they run.

    Attributes:
      name: Name in the program.
      instructions: By name.
      root: Name of the instruction whose result is returned.
    """

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str = ""

    def operands(self, instruction: Instruction) -> list[Instruction]:
        """Return the instructions whose results ``instruction`` reads."""
        return [self.instructions[name] for name in instruction.operands if name in self.instructions]

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """Instructions that read each result."""
        users: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for instruction in self.instructions.values():
            for name in dict.fromkeys(instruction.operands):
                if name in users:
                    users[name].append(instruction)
        return users

    @cached_property
    def parameters(self) -> dict[int, Instruction]:
        """Parameters by number."""
        return {int(each.argument): each for each in self.instructions.values() if each.opcode == "parameter"}

    def behind(self, instruction: Instruction) -> Instruction:
        """Return what an instruction only passes on or views: the source of copies, conversions and bitcasts."""
        while instruction.opcode in ("bitcast", "copy", "convert", "reshape"):
            instruction = self.operands(instruction)[0]
        return instruction


class HloProgram(NamedTuple):
    """A parsed module.

    Attributes:
      computations: By name.
      entry: Name of the computation that a device starts with.
    """

    computations: dict[str, Computation]
    entry: str

    def trip_count(self, computation: Computation, loop: Instruction) -> int | None:
        """Return how often the body of a ``while`` runs; ``None`` if the program doesn't fix it.

        The compiler writes the number down for some backends. Otherwise it follows from a counter that starts at a
        constant, grows by a constant and is compared with a constant.

        Args:
          computation: Computation that contains the loop.
          loop: Its ``while`` instruction.
        """
        known = _TRIP_COUNT.search(loop.attributes)
        if known:
            return int(known[1])
        condition = self.computations[loop.called("condition")[0]]
        compare, scope = self._inside_fusions(condition, condition.instructions[condition.root])
        if compare.opcode != "compare" or "direction=LT" not in compare.attributes:
            return None
        counter, limit = (scope(name) for name in compare.operands)
        initial = computation.operands(loop)[0]
        start = self._constant(computation, condition, initial, counter)
        end = self._constant(computation, condition, initial, limit)
        step = self._step(self.computations[loop.called("body")[0]], counter.number("index", 0))
        if start is None or end is None or step is None:
            return None
        return max(-(-(end - start) // step), 0)

    def _step(self, body: Computation, index: int) -> int | None:
        """Return the constant that a loop's body adds to its counter, the element ``index`` of its state."""
        root = body.instructions[body.root]
        if root.opcode != "tuple":
            return None
        value, total = body.behind(body.instructions[root.operands[index]]), 0
        while value.opcode == "add":
            parts = [body.behind(part) for part in body.operands(value)]
            numbers = [int(part.argument) for part in parts if part.opcode == "constant"]
            if len(numbers) != 1:
                return None
            value = next(part for part in parts if part.opcode != "constant")
            total += numbers[0]
        return total if value.opcode == "get-tuple-element" and total > 0 else None

    def _inside_fusions(
        self, outer: Computation, root: Instruction
    ) -> tuple[Instruction, Callable[[str], Instruction]]:
        """Return the root behind fusions, and a function from its operands' names to instructions of ``outer``."""
        if root.opcode != "fusion":
            return root, lambda name: outer.instructions[name]
        inner = self.computations[root.called("calls")[0]]

        def outside(name: str) -> Instruction:
            source = inner.behind(inner.instructions[name])
            return (
                outer.instructions[root.operands[int(source.argument)]]
                if source.opcode == "parameter"
                else source
            )

        return inner.instructions[inner.root], outside

    def _constant(
        self, caller: Computation, condition: Computation, initial: Instruction, value: Instruction
    ) -> int | None:
        """Return a constant of the loop's condition, or of the tuple that it starts with."""
        value = condition.behind(value) if value.name in condition.instructions else value
        if value.opcode == "get-tuple-element" and initial.opcode == "tuple":
            value = caller.behind(caller.instructions[initial.operands[value.number("index", 0)]])
        return (
            int(value.argument)
            if value.opcode == "constant" and value.argument.lstrip("-").isdigit()
            else None
        )


def parse(text: str) -> HloProgram:
    """Read the text of an optimized HLO module."""
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if not line.startswith(" "):
            opening = _COMPUTATION.match(line)
            if opening:
                current = computations.setdefault(opening[2], Computation(opening[2]))
                entry = opening[2] if opening[1] else entry
            continue
        if current is None or " = " not in line:
            continue
        name, rest = line.strip().split(" = ", 1)
        instruction = _instruction(name.removeprefix("ROOT ").lstrip("%"), rest)
        for operand in instruction.operands:
            if "#" in operand and operand not in current.instructions:
                current.instructions[operand] = _element(current, operand)
        current.instructions[instruction.name] = instruction
        if name.startswith("ROOT "):
            current.root = instruction.name
    return HloProgram(computations, entry)


def _instruction(name: str, text: str) -> Instruction:
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    result, rest = text[:end], text[end:].lstrip()
    opening = rest.index("(")
    closing = _closing(rest, opening)
    argument = rest[opening + 1 : closing]
    return Instruction(
        name,
        rest[:opening],
        tuple(_shapes(result)),
        tuple(_NAME.findall(argument)),
        argument,
        rest[closing + 1 :],
    )


def _element(computation: Computation, name: str) -> Instruction:
    """Return the ``get-tuple-element`` that an operand such as "loop#1" names."""
    source, _, index = name.partition("#")
    shapes = computation.instructions[source].shapes if source in computation.instructions else ()
    return Instruction(
        name, "get-tuple-element", shapes[int(index) : int(index) + 1], (source,), "", f", index={index}"
    )


def _closing(text: str, opening: int) -> int:
    """Return the place of the parenthesis that closes the one at ``opening``."""
    depth = 0
    for parenthesis in re.finditer(r"[()]", text[opening:]):
        depth += 1 if parenthesis[0] == "(" else -1
        if depth == 0:
            return opening + parenthesis.start()
    raise ValueError(f"HLO text with an open parenthesis: {text[:100]}")


def _shapes(text: str) -> Iterator[Shape]:
    for dtype, dims, layout in _SHAPE.findall(text):
        space = _MEMORY_SPACE.search(layout)
        sizes = tuple(int(size.lstrip("<=")) for size in dims.split(",") if size)
        where = _MAIN_MEMORY if space is None else space[1]
        yield Shape(dtype, sizes, where not in (_MAIN_MEMORY, _HOST_MEMORY), where == _HOST_MEMORY)


def _bits(dtype: str) -> int:
    if dtype == "pred":
        return 8
    digits = re.match(r"[a-z]+(\d+)", dtype)
    return int(digits[1]) if digits else 0
