"""Compile attention of one layer for TPUs that aren't here: memory, traffic, and the cycles that kernels are given.

    python -m benchmarks.attention_kernels --output benchmarks/results/attention_kernels.json

Forward and backward pass in bfloat16, by each implementation and by JAX's splash attention. Needs
``pip install 't5x-like[plan]'`` and no TPU. Cycles are those of the compiler's schedule for one pair of blocks of 512
queries and keys, summed over kernels: a bound, without waiting for memory.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import SingleDeviceSharding

from benchmarks.machine import about
from t5x_like.io.files import write_json
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.blockwise_attention import blockwise_attention
from t5x_like.model.layers.masks import MASKED, AttentionMask, as_array
from t5x_like.model.layers.pallas_attention import pallas_attention
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.planning.device_program import compile_program
from t5x_like.planning.topology import topology

CHIPS = {"v5e": "v5e:2x2", "v5p": "v5p:2x2x1"}
BLOCK_LENGTH = 512
MIB = 2**20


class Layer(NamedTuple):
    """Attention of one layer on one chip; the T5 has a bias in both directions, the LLaMA is causal.

    Attributes:
      batch_size: Rows.
      length: Tokens of a row.
      num_heads: Query heads.
      num_groups: Key and value heads.
      head_dim: Width of a head.
      has_bias: Whether scores have a bias by distance.
    """

    batch_size: int
    length: int
    num_heads: int
    num_groups: int
    head_dim: int
    has_bias: bool = False

    @property
    def scale(self) -> float:
        """Factor of scores."""
        return 1.0 if self.has_bias else self.head_dim**-0.5


LAYERS = {
    "T5 base, 32 rows of 512": Layer(32, 512, 12, 12, 64, has_bias=True),
    "LLaMA, 4 rows of 2048": Layer(4, 2048, 16, 4, 128),
    "LLaMA, 1 row of 8192": Layer(1, 8192, 16, 4, 128),
}
SPLASH = ("splash", "splash, one backward kernel")
IMPLEMENTATIONS = ("plain", "blockwise", "pallas", *SPLASH)
_SPLASH_RUNS = {f"LLaMA, 1 row of 8192, v5e, {name}" for name in SPLASH}


def attend(
    name: str, layer: Layer, queries: jax.Array, keys: jax.Array, values: jax.Array, bias: jax.Array
) -> jax.Array:
    """Return averages of values by one of ``IMPLEMENTATIONS``."""
    mask, added = AttentionMask(causal=not layer.has_bias), DistanceBias(bias) if layer.has_bias else None
    options = {"mask": mask, "bias": added, "keep": None, "num_prefix": 0, "scale": layer.scale}
    if name == "plain":
        return _plain(layer, queries, keys, values, bias)
    if name == "blockwise":
        return blockwise_attention(queries, keys, values, **options)
    if name == "pallas":
        return pallas_attention(queries, keys, values, **options)
    return _splash(layer, queries, keys, values, fused=name != "splash")


def _plain(
    layer: Layer, queries: jax.Array, keys: jax.Array, values: jax.Array, bias: jax.Array
) -> jax.Array:
    config = AttentionConfig(
        num_heads=layer.num_heads,
        head_dim=layer.head_dim,
        num_kv_heads=layer.num_groups,
        attention_scale=layer.scale,
    )
    attention = Attention(config, 8, key=jax.random.key(0))  # whose projections aren't used
    scores, places = attention.scores(queries, keys), jnp.arange(layer.length)
    if layer.has_bias:
        scores += bias[:, places[None] - places[:, None] + layer.length - 1][None]
    mask = as_array(AttentionMask(causal=not layer.has_bias), num_queries=layer.length, num_keys=layer.length)
    scores = scores if mask is None else jnp.where(mask, scores, MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(queries.dtype)
    return attention.combine_values(weights, values)


def _splash(
    layer: Layer, queries: jax.Array, keys: jax.Array, values: jax.Array, *, fused: bool
) -> jax.Array:
    num_shared = layer.num_heads // layer.num_groups
    length = BLOCK_LENGTH
    sizes = splash_attention_kernel.BlockSizes(
        block_q=length,
        block_kv=length,
        block_kv_compute=length,
        block_q_dkv=length,
        block_kv_dkv=length,
        block_kv_dkv_compute=length,
        block_q_dq=None if fused else length,
        block_kv_dq=None if fused else length,
        use_fused_bwd_kernel=fused,
    )
    mask = splash_attention_mask.CausalMask((layer.length, layer.length))
    kernel: Any = splash_attention_kernel.make_splash_mqa(
        splash_attention_mask.MultiHeadMask([mask] * num_shared),
        block_sizes=sizes,
        head_shards=1,
        q_seq_shards=1,
    )
    grouped = jnp.swapaxes(queries * layer.scale, 1, 2)
    grouped = grouped.reshape(layer.batch_size, layer.num_groups, num_shared, *grouped.shape[2:])
    return jax.vmap(jax.vmap(kernel))(grouped, jnp.swapaxes(keys, 1, 2), jnp.swapaxes(values, 1, 2))


def compile_layer(name: str, layer: Layer, chip: str) -> dict[str, float]:
    """Compile a gradient, and return its memory and traffic."""
    place = topology(CHIPS[chip])
    device = place.devices()[0]

    def array(*shape: int, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(device))

    def total(*arrays: jax.Array) -> jax.Array:
        return jnp.sum(attend(name, layer, *arrays).astype(jnp.float32) ** 2)

    rows = layer.batch_size, layer.length
    queries, keys = (
        array(*rows, layer.num_heads, layer.head_dim),
        array(*rows, layer.num_groups, layer.head_dim),
    )
    bias = array(layer.num_heads, 2 * layer.length - 1, dtype=jnp.float32)
    gradients = jax.grad(total, argnums=(0, 1, 2, 3) if layer.has_bias else (0, 1, 2))
    mesh = MeshConfig().build([device])
    program = compile_program(jax.jit(gradients), queries, keys, keys, bias, topology=place, mesh=mesh)
    if program.counts is None or program.roofline is None or program.counts.custom_calls:
        return {"peak_mib": round(program.peak / MIB, 1)}  # splash doesn't state its cost
    return {
        "peak_mib": round(program.peak / MIB, 1),
        "memory_gb": round(program.counts.num_bytes / 1e9, 3),
        "gflops": round(program.counts.flops / 1e9, 1),
        "least_ms": round(program.roofline.operation_seconds * 1e3, 3),
    }


def scheduled(folder: Path) -> list[dict[str, Any]]:
    """Return the cycles of each kernel in a dump of the compiler, and those that each unit is busy at least."""
    results = []
    for path in sorted(folder.glob("*schedule-analysis_final_bundles.txt")):
        text = path.read_text()
        cycles = re.search(r"total scheduled bundles:\s+(\d+)", text)
        if cycles is None or 'custom_call_target="tpu_custom_call"' not in text or "-TLP-" in path.name:
            continue
        units = next(
            folder.glob(f"{path.name.partition('-')[0]}-*-final_hlo-static-per-bundle-utilization.txt")
        )
        lines = units.read_text().splitlines()
        start = next(index for index, line in enumerate(lines) if line.startswith("MXU"))
        names = [unit.strip() for unit in lines[start].split(",")]
        capacity = [int(number) for number in lines[start + 1].split()]
        rows = [[int(number) for number in line.split()] for line in lines[start + 3 :] if line[:1].isdigit()]
        busy = [sum(column) / most for column, most in zip(zip(*rows, strict=True), capacity, strict=True)]
        by_unit = {name: round(each) for name, each in zip(names, busy, strict=True)}
        results.append({"cycles": int(cycles[1]), "units": by_unit})
    return results


def measure(name: str, layer: str, chip: str) -> dict[str, Any]:
    """Compile in a process of its own, which leaves its schedules."""
    with tempfile.TemporaryDirectory() as folder:
        flags = {"LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"}
        flags = flags if name == "pallas" or name in SPLASH else {}
        command = [sys.executable, "-m", "benchmarks.attention_kernels", "--compile", name, layer, chip]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **flags})
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1:]}
        result = json.loads(done.stdout.strip().splitlines()[-1])
        kernels = scheduled(Path(folder))
        if not kernels:
            return result
        matrix_unit_cycles = sum(kernel["units"]["MXU"] for kernel in kernels)
        cycles = sum(kernel["cycles"] for kernel in kernels)
        return {**result, "cycles": cycles, "matrix_unit_cycles": matrix_unit_cycles, "kernels": kernels}


def main() -> None:
    """Measure all layers and implementations, print and keep the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compile", nargs=3, metavar="NAME", help="what a process of its own does")
    parser.add_argument("--output", help="a JSON file to write; what it has isn't compiled again")
    arguments = parser.parse_args()
    if arguments.compile:
        name, layer, chip = arguments.compile
        print(json.dumps(compile_layer(name, LAYERS[layer], chip)))
        return
    path = Path(arguments.output or os.devnull)
    runs: dict[str, Any] = json.loads(path.read_text())["runs"] if path.is_file() else {}
    result = {**about(), "jax": jax.__version__, "block_length": BLOCK_LENGTH, "runs": runs}
    for chip in CHIPS:
        for layer in LAYERS:
            for name in IMPLEMENTATIONS:
                title = f"{layer}, {chip}, {name}"
                if title in runs or (name in SPLASH and title not in _SPLASH_RUNS):
                    continue
                runs[title] = measure(name, layer, chip)
                print(
                    title, {key: value for key, value in runs[title].items() if key != "kernels"}, flush=True
                )
                if arguments.output:
                    write_json(arguments.output, result)


if __name__ == "__main__":
    main()
