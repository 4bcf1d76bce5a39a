"""FLOPs and bytes of single instructions of a compiled program."""

import re

import numpy as np

from t5x_like.planning.hlo_program import Computation, Instruction

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


def matmul_flops(computation: Computation, instruction: Instruction) -> float:
    """Return the FLOPs of a matrix product or convolution, 0 for other instructions.

    Args:
      computation: Computation that contains the instruction.
      instruction: Any instruction.
    """
    if instruction.opcode == "dot":
        (left, *_) = computation.operands(instruction)[0].shapes
        contracted = [left.dims[axis] for axis in instruction.dimensions("lhs_contracting_dims")]
        return 2.0 * instruction.shapes[0].size * float(np.prod(contracted))
    if instruction.opcode == "convolution":
        return _convolution_flops(computation, instruction)
    if instruction.opcode == "custom-call":
        return _library_flops(computation, instruction)
    return 0.0


# Products of cuDNN's attention for each pair of a query and a key: scores and averages; scores again, and the gradients
# of weights, queries, keys and values. What a causal mask hides is counted too.
_ATTENTION_PRODUCTS = {False: 2, True: 5}


def _library_flops(computation: Computation, instruction: Instruction) -> float:
    """Return the FLOPs of a call of cuBLAS or of cuDNN's attention in a program for GPUs, 0 for other calls."""
    target = instruction.target
    if not target.startswith(("__cublas$", "__cudnn$fmha")):
        return 0.0
    left = computation.operands(instruction)[0].shapes[0].dims
    if target.startswith("__cublas$"):
        contracted = [left[int(axis)] for axis in _numbers(instruction, "lhs_contracting_dimensions")]
        return 2.0 * instruction.shapes[0].size * float(np.prod(contracted))
    scores = _numbers(instruction, "intermediate_tensor_shape")  # rows, heads, queries, keys
    return 2.0 * _ATTENTION_PRODUCTS[target.endswith("Backward")] * float(np.prod(scores)) * left[-1]


def _numbers(instruction: Instruction, name: str) -> list[int]:
    """Return the first list of numbers after a name in the configuration of a call."""
    after = instruction.attributes.partition(f'"{name}":')[2]
    return [int(digits) for digits in re.findall(r"\d+", after.partition("[")[2].partition("]")[0])]


def _convolution_flops(computation: Computation, instruction: Instruction) -> float:
    """Return the FLOPs of a convolution, which is how TPU programs write matrix products.

    Batch dimensions of a product become spatial dimensions whose windows meet one valid position each, so positions in
    padding or between dilated elements don't count.
    """
    labels = instruction.attributes.partition("dim_labels=")[2].partition("->")
    left_labels, kernel_labels = labels[0].split("_")
    out_labels = labels[2].partition(",")[0].strip()
    left, kernel = (operand.shapes[0].dims for operand in computation.operands(instruction)[:2])
    out = instruction.shapes[0].dims
    feature_groups = instruction.number("feature_group_count", 1)
    batch_groups = instruction.number("batch_group_count", 1)
    window = _window(instruction.attributes)
    positions = 1.0
    for axis in range(len(left_labels) - 2):
        label = str(axis)
        positions *= _valid_positions(
            left[left_labels.index(label)],
            kernel[kernel_labels.index(label)],
            out[out_labels.index(label)],
            {name: values[axis] for name, values in window.items()},
        )
    products = (
        left[left_labels.index("f")]
        / feature_groups
        * kernel[kernel_labels.index("o")]
        * left[left_labels.index("b")]
        / batch_groups
    )
    return 2.0 * products * positions


def _window(attributes: str) -> dict[str, list[str]]:
    """Return the parts of ``window={size=3x3 pad=1_1x1_1}``, one text for each spatial dimension."""
    text = attributes.partition("window={")[2].partition("}")[0]
    return {
        name: values.split("x") for name, _, values in (part.partition("=") for part in text.split()) if name
    }


def _valid_positions(left: int, kernel: int, out: int, window: dict[str, str]) -> int:
    """Return the number of pairs of an output and a kernel position that meet an element of the left operand."""
    stride = int(window.get("stride", "1"))
    low = int(window.get("pad", "0_0").split("_")[0])
    left_dilation, kernel_dilation = (int(window.get(f"{side}_dilate", "1")) for side in ("lhs", "rhs"))
    positions = np.arange(out)[:, None] * stride + np.arange(kernel)[None] * kernel_dilation - low
    inside = (
        (positions >= 0) & (positions < (left - 1) * left_dilation + 1) & (positions % left_dilation == 0)
    )
    return int(np.count_nonzero(inside))


def bytes_moved(computation: Computation, instruction: Instruction) -> float:
    """Return the bytes that an unfused instruction reads and writes.

    Args:
      computation: Computation that contains the instruction.
      instruction: Any instruction that isn't part of a fusion.
    """
    written = sum(shape.main_memory_bytes for shape in instruction.shapes)
    operands = computation.operands(instruction)
    read = [sum(shape.main_memory_bytes for shape in operand.shapes) for operand in operands]
    match instruction.opcode:
        case "dynamic-slice" | "slice" | "gather":
            return 2 * written if read and read[0] else written
        case "dynamic-update-slice":
            return 2 * read[1]
        case "scatter":
            return 3 * sum(read[1 + len(read) // 2 :])
        case "dynamic-update-slice-start":
            return read[1]
        case "slice-start" | "dynamic-slice-start":
            result = max(instruction.shapes[1:], key=lambda shape: shape.num_bytes)  # others are indices
            return (result.num_bytes if read[0] else 0) + result.main_memory_bytes
        case "copy-start":
            return sum(read) + instruction.shapes[0].main_memory_bytes
        case "broadcast" | "iota" | "rng-bit-generator":
            return written
    return sum(read) + written


def updates_of(computation: Computation, scatter: Instruction) -> list[Instruction]:
    """Return the operands of a scatter that are put into its first ones, after the indices.

    Args:
      computation: Computation that contains the instruction.
      scatter: The instruction.
    """
    operands = computation.operands(scatter)
    return operands[1 + len(operands) // 2 :]


def host_bytes(instruction: Instruction) -> int:
    """Return the bytes that an instruction moves between the device's and the host's memory."""
    starts = ("copy-start", "dynamic-slice-start", "dynamic-update-slice-start", "fusion-start")
    if instruction.opcode not in starts or not any(shape.is_on_host for shape in instruction.shapes):
        return 0
    return max(shape.num_bytes for shape in instruction.shapes if not shape.is_on_host)


def is_collective(instruction: Instruction) -> bool:
    """Return whether an instruction is a collective, or marks the start or the end of one that runs meanwhile."""
    if instruction.opcode == "custom-call":
        return 'custom_call_target="AsyncCollective' in instruction.attributes
    return instruction.opcode.removesuffix("-start") in COLLECTIVES
