"""Show which operations take the time of train step and generation, and of transformers' in PyTorch, on one CPU core.

    python -m benchmarks.operation_profile --pytorch ../torch/bin/python \
        --output benchmarks/results/operation_profile_cpu.json

Models, weights and tokens are those of ``benchmarks.against_pytorch``. Kinds of operations:

    weights    matrix products with weights, of the vocabulary too
    attention  products of queries, keys and values; PyTorch's fused attention has the softmax, too
    rest       all others: norms, softmax, activations, loss, optimizer, search, copies

``between`` is the time outside of operations; PyTorch's is Python's. ``products_alone`` is PyTorch's time over that of
our matrix products: the speedup if all else took no time.
"""

import argparse
import gzip
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

from benchmarks.against_pytorch import CASES, MEASURES, Case, last_line, our_program, pytorch, write_inputs
from benchmarks.machine import about
from benchmarks.timed_step import time_calls
from t5x_like.io.files import write_json

_KINDS = ("weights", "attention", "rest")
_THEIR_KINDS = {
    "weights": ("aten::mm", "aten::addmm"),
    "attention": ("aten::bmm", "aten::baddbmm", "aten::_scaled_dot_product_flash_attention_for_cpu"),
}
_THEIR_BACKWARD = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"


def main() -> None:
    """Profile the models in turn, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=CASES, default=["t5", "gpt2", "llama"])
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=["train", "greedy", "beam_4"])
    parser.add_argument("--steps", type=int, default=5, help="calls to time (5)")
    parser.add_argument("--pytorch", metavar="PYTHON", help="a Python with torch and transformers")
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("--one", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments.one:
        name, measure = arguments.models[0], arguments.measure[0]
        print(json.dumps(profile(CASES[name], Path(arguments.one), measure, arguments.steps)))
        return
    result: dict[str, Any] = {**about(num_cores=1), "jax": jax.__version__, "programs": {}}
    for name in arguments.models:
        result["programs"] |= compare(name, arguments)
        if arguments.output:
            write_json(arguments.output, result)
    print(json.dumps(result, indent=2))


def compare(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the profiles of one model's programs, ours and theirs."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(CASES[name], Path(folder))
        own = [sys.executable, "-m", "benchmarks.operation_profile", "--one", folder, "--models", name]
        own += ["--steps", str(arguments.steps)]
        for measure in arguments.measure:
            results[f"{name}, {measure}"] = last_line([*own, "--measure", measure])
        if not arguments.pytorch:
            return results
        in_pytorch = pytorch(
            CASES[name],
            Path(folder),
            arguments.measure,
            python=arguments.pytorch,
            num_calls=arguments.steps,
            profile=True,
        )
    for measure in arguments.measure:
        in_jax = results[f"{name}, {measure}"]
        kinds = their_kinds(in_pytorch["operations"][measure], in_pytorch[measure])
        products = in_jax["weights"] + in_jax["attention"]
        in_jax |= {
            "pytorch": {"seconds": round(in_pytorch[measure], 4), **kinds},
            "speedup": round(in_pytorch[measure] / in_jax["seconds"], 2),
            "products_alone": round(in_pytorch[measure] / products, 2),
        }
    return results


def profile(case: Case, folder: Path, measure: str, num_calls: int) -> dict[str, float]:
    """Return seconds of one of our programs, and of its operations by kind."""
    program = our_program(case, folder, measure)
    seconds = time_calls(program.run, num_calls)
    with tempfile.TemporaryDirectory() as trace:
        with jax.profiler.trace(trace):
            jax.block_until_ready(program.run())
        (file,) = Path(trace).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    kinds = kinds_of_operations(program.compiled.as_text())
    spent = [(kinds.get(event.get("args", {}).get("hlo_op")), event.get("dur", 0) / 1e6) for event in events]
    return {"seconds": round(seconds, 4), **_by_kind(spent, seconds)}


def kinds_of_operations(hlo: str) -> dict[str, str]:
    """Return the kind of each operation of a compiled program; loops and calls, which contain others, have none.

    Args:
      hlo: text of the program after optimization.
    """
    bodies: dict[str, str] = {}
    for computation in re.split(r"\n(?=\S)", hlo):
        named = re.match(r"(?:ENTRY )?%?([\w.-]+) ", computation)
        if named:
            bodies[named[1]] = computation
    results = {}
    for name, opcode, line in re.findall(r"\n\s+(?:ROOT )?%([\w.-]+) = [^=]*? ([a-z][\w-]*)(\(.*)", hlo):
        if opcode in ("while", "call", "conditional", "parameter", "constant", "tuple", "get-tuple-element"):
            continue
        called = re.search(r"calls=%([\w.-]+)", line)
        text = bodies.get(called[1], "") if called else f" {opcode}{line}"
        products = [part for part in text.splitlines() if " dot(" in part]
        # Only queries, keys, values and their gradients have batch dimensions.
        of_attention = any("lhs_batch_dims={0" in part for part in products)
        results[name] = "attention" if of_attention else "weights" if products else "rest"
    return results


def their_kinds(operations: dict[str, float], seconds: float) -> dict[str, float]:
    """Return the seconds of PyTorch's operations by kind, and what is between them."""
    kinds = {name: kind for kind, names in _THEIR_KINDS.items() for name in names}
    kinds[_THEIR_BACKWARD] = "attention"
    return _by_kind([(kinds.get(name, "rest"), spent) for name, spent in operations.items()], seconds)


def _by_kind(spent: list[tuple[str | None, float]], seconds: float) -> dict[str, float]:
    """Return the sum of each kind, and what is left of ``seconds``."""
    sums = {kind: sum(each for name, each in spent if name == kind) for kind in _KINDS}
    sums["between"] = max(0.0, seconds - sum(sums.values()))
    return {kind: round(each, 4) for kind, each in sums.items()}


if __name__ == "__main__":
    main()
