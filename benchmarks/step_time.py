"""Measure one training step: compile seconds, tokens per second, peak memory, model FLOPs utilization.

    python -m benchmarks.step_time --gin_file=gin/recipes/quickstart/pretrain.gin --set MODEL_DIR=unused
    python -m benchmarks.step_time --gin_file=… --set INPUTS_LENGTH=512 --output benchmarks/results/NAME.json

Any training recipe works. Rows are full of random tokens: no data is read, and only the step is timed. Prints a JSON
object; ``--output`` keeps it.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from typing import Any

import jax
import numpy as np

from benchmarks.machine import about
from t5x_like.batch import Batch
from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, override_flags
from t5x_like.cli.main import split_overrides
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.partitioning.shard import place
from t5x_like.training.experiment import Experiment
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

# Dense bfloat16 peaks of one chip, FLOP/s, from the makers' data sheets.
PEAKS = {
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
}


def model_flops(model: T5Config, *, rows: int, inputs_length: int, targets_length: int) -> float:
    """Return FLOPs of the matrix products of one step: 2 per weight and token forward, twice that backward.

    Counted: projections, feed-forward, head, and attention's two products over all pairs (masked ones too, as is
    usual). Not counted: embedding look-ups, norms, softmax, the optimizer, and what remat does again.
    Cross-attention reads its keys and values from the input's tokens.
    """
    joined = model.num_heads * model.head_dim
    projection = model.model_dim * joined
    up_and_down = model.model_dim * model.mlp_dim * (3 if model.feed_forward == "gated_gelu" else 2)
    encoder = model.num_encoder_layers * (
        inputs_length * (4 * projection + up_and_down) + 2 * inputs_length**2 * joined
    )
    decoder = model.num_decoder_layers * (
        targets_length * (6 * projection + up_and_down)
        + inputs_length * 2 * projection
        + 2 * targets_length * (targets_length + inputs_length) * joined
    )
    head = targets_length * model.model_dim * model.vocab_size
    return 6.0 * rows * (encoder + decoder + head)


def random_batch(experiment: Experiment, seed: int = 0) -> Batch:
    """Return full rows of random ids."""
    rng = np.random.default_rng(seed)
    config = experiment.train
    assert isinstance(experiment.model, T5Config)
    vocab_size = experiment.model.vocab_size

    def ids(length: int) -> np.ndarray:
        return rng.integers(2, vocab_size, (config.batch_size, length), dtype=np.int32)

    targets = ids(config.targets_length)
    return Batch(
        encoder_input_tokens=ids(config.inputs_length),
        encoder_segment_ids=np.ones((config.batch_size, config.inputs_length), np.int32),
        decoder_input_tokens=targets,
        decoder_segment_ids=np.ones_like(targets),
        target_tokens=targets,
        loss_weights=np.ones(targets.shape, np.float32),
    )


def measure(experiment: Experiment, *, num_steps: int) -> dict[str, Any]:
    """Compile the step and run it ``num_steps`` times, waiting for each."""
    mesh = experiment.mesh.build()
    jax.set_mesh(mesh)
    plan = plan_state(experiment.model, experiment.optimizer, mesh, num_tasks=1)
    step = train_step(plan, experiment.loss, seed=0, num_microbatches=experiment.num_microbatches)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=shardings_of(plan.abstract))
    state = new_state(plan, experiment.model, seed=0)
    batch = place(random_batch(experiment), mesh)
    start = time.perf_counter()
    compiled = jitted.lower(state, batch).compile()
    compile_seconds = time.perf_counter() - start
    seconds = []
    for _ in range(num_steps + 1):
        start = time.perf_counter()
        state = compiled(state, batch)
        jax.block_until_ready(state)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[1:])  # the first one warms caches up
    config = experiment.train
    tokens = config.batch_size * (config.inputs_length + config.targets_length)
    assert isinstance(experiment.model, T5Config)
    flops = model_flops(
        experiment.model,
        rows=config.batch_size,
        inputs_length=config.inputs_length,
        targets_length=config.targets_length,
    )
    device = mesh.devices.flat[0]
    peak = next((peak for name, peak in PEAKS.items() if device.device_kind.startswith(name)), None)
    return {
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(parameters.abstract(experiment.model)[1])),
        "rows": config.batch_size,
        "inputs_length": config.inputs_length,
        "targets_length": config.targets_length,
        "num_microbatches": experiment.num_microbatches,
        "compute_dtype": experiment.model.compute_dtype,
        "remat": experiment.model.remat,
        "mesh": dict(mesh.shape),
        "compile_seconds": round(compile_seconds, 2),
        "seconds_per_step": {"median": median, "fastest": min(seconds[1:]), "slowest": max(seconds[1:])},
        "tokens_per_second": tokens / median,
        "model_flops_per_second": flops / median,
        "model_flops_utilization": None if peak is None else flops / median / (peak * mesh.size),
        "memory": memory(device, compiled),
        "device": device.device_kind,
        "steps_timed": num_steps,
    }


def memory(device: Any, compiled: Any) -> dict[str, float]:
    """Return peak memory in GiB: by the device, by the compiler's plan, and of the process on a CPU."""
    gib = 1 / 2**30
    stats = device.memory_stats() or {}
    planned = compiled.memory_analysis()
    known = {"process_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 * gib}
    if "peak_bytes_in_use" in stats:
        known["device_peak_gib"] = stats["peak_bytes_in_use"] * gib
    if planned is not None:
        known["compiled_arguments_gib"] = planned.argument_size_in_bytes * gib
        known["compiled_temporaries_gib"] = planned.temp_size_in_bytes * gib
    return known


def main() -> None:
    """Read the flags, measure, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_gin_arguments(parser)
    parser.add_argument("--steps", type=int, default=20, help="steps to time (20)")
    parser.add_argument("--output", help="a JSON file to write")
    overrides, plain = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(plain)
    experiment = load(arguments.gin_file, overrides, roots=[EXPERIMENT]).value
    result = {
        "recipe": arguments.gin_file,
        "overrides": override_flags(overrides),
        **about(),
        "jax": jax.__version__,
    }
    result |= measure(experiment, num_steps=arguments.steps)
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
