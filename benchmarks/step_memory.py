"""Measure memory and seconds of a training step with attention and losses computed whole, and in parts.

    python -m benchmarks.step_memory --output benchmarks/results/step_memory_cpu.json
    python -m benchmarks.step_memory --models --skip_loss --context 1 2 4 8 --output …/step_memory_context_cpu.json

Small models and one row: temporary memory is what the compiler plans for the step next to weights and optimizer,
measured memory is the most by which the process grew.
Steps that need more than ``--max_gib`` are compiled but not run. With ``--context`` the row of the longest length is
split over so many simulated devices, and memory is that of each.
"""

import argparse
import statistics
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from benchmarks.machine import about
from benchmarks.timed_step import compile_step, empty_rows, grown_gib, random_batch, run_from
from t5x_like.io.files import write_json
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.longt5 import LongT5Config
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.planning.chips import GIB
from t5x_like.planning.device_groups import MeshShape
from t5x_like.planning.program_counts import count
from t5x_like.training.losses import LossConfig
from t5x_like.training.state import new_state

_SIZE: dict[str, Any] = {"model_dim": 128, "mlp_dim": 256, "num_heads": 2, "remat": "full"}
MODELS = {
    "t5": T5Config(vocab_size=4096, head_dim=64, num_encoder_layers=2, num_decoder_layers=2, **_SIZE),
    "llama": LlamaConfig(vocab_size=4096, num_layers=2, num_kv_heads=1, **_SIZE),
    "longt5_tglobal": LongT5Config(
        vocab_size=4096,
        head_dim=64,
        num_encoder_layers=2,
        num_decoder_layers=2,
        global_block_size=16,
        **_SIZE,
    ),
    "modernbert": ModernBertConfig(vocab_size=4096, num_layers=3, **_SIZE),
}
TARGETS_LENGTH = 512  # of the encoder-decoder, whose input grows
LENGTHS = (1024, 2048, 4096, 8192, 32768)
LOSS_ROWS, LOSS_LENGTH = 16, 512


def measure(
    model: Any, *, rows: int, length: int, loss: LossConfig, num_steps: int, max_gib: float, max_length: int
) -> dict[str, Any]:
    """Compile a step, and run it unless it needs too much memory."""
    mesh = MeshConfig().build(jax.devices()[:1])
    inputs, targets = length, TARGETS_LENGTH
    if not isinstance(model, T5Config | LongT5Config):
        inputs, targets = (length, 0) if isinstance(model, ModernBertConfig) else (0, length)
    batch = random_batch(empty_rows(inputs, targets), batch_size=rows, vocab_size=model.vocab_size)
    step = compile_step(model, AdamW(learning_rate=1e-3), batch, mesh, loss=loss)
    gib = step.program.memory_analysis().temp_size_in_bytes / GIB
    measured: dict[str, Any] = {"temporary_gib": round(gib, 4)}
    if gib > max_gib or length > max_length:
        return measured
    with jax.set_mesh(mesh):
        state = jax.block_until_ready(new_state(step.plan, model, seed=0))
        times, grown = grown_gib(partial(run_from, step, state, num_steps))
    median = statistics.median(each.seconds for each in times)
    return measured | {"seconds": round(median, 3), "measured_gib": round(grown, 4)}


def measure_ring(length: int, context: int) -> dict[str, Any]:
    """Compile a step of LLaMA with one row that is split over ``context`` devices; memory and traffic of each."""
    mesh = MeshConfig(data=1, context=context).build(jax.devices()[:context])
    model, loss = MODELS["llama"], LossConfig(logits_chunk_length=512)
    batch = random_batch(empty_rows(0, length), batch_size=1, vocab_size=model.vocab_size)
    model = replace(model, attention_implementation="blockwise")
    program = compile_step(model, AdamW(learning_rate=1e-3), batch, mesh, loss=loss).program
    counts = count(program.as_text() or "", MeshShape(tuple(mesh.axis_names), tuple(mesh.devices.shape)))
    return {
        "temporary_gib": round(program.memory_analysis().temp_size_in_bytes / GIB, 4),
        "sent_gib": {
            f"{kind.kind} along {', '.join(kind.axes)}": round(each.sent_bytes / GIB, 4)
            for kind, each in sorted(counts.collectives.items())
        },
    }


def main() -> None:
    """Read the flags, measure, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help=f"of the row {LENGTHS}")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--steps", type=int, default=1, help="steps to time, after one more (1)")
    parser.add_argument(
        "--max_gib", type=float, default=3.0, help="temporary memory of steps that are run (3)"
    )
    parser.add_argument("--max_length", type=int, default=8192, help="longest rows that are run (8192)")
    parser.add_argument("--skip_loss", action="store_true", help="measure attention alone")
    parser.add_argument("--context", type=int, nargs="*", default=(), help="devices that share a row (none)")
    parser.add_argument("--output", help="a JSON file to write")
    arguments = parser.parse_args()
    if arguments.context:
        jax.config.update("jax_num_cpu_devices", max(arguments.context))
    limits = {
        "num_steps": arguments.steps,
        "max_gib": arguments.max_gib,
        "max_length": arguments.max_length,
    }
    wide = replace(MODELS["llama"], vocab_size=32_128, remat="none")
    attention: dict[str, Any] = {}
    in_chunks: dict[str, Any] = {}
    loss_shape = {"rows": LOSS_ROWS, "length": LOSS_LENGTH, "vocab_size": wide.vocab_size}
    result = {
        **about(),
        "jax": jax.__version__,
    }
    if arguments.models:
        result["attention"] = attention
    if not arguments.skip_loss:
        result["loss"] = loss_shape | {"runs": in_chunks}

    def keep(where: dict[str, Any], name: str, *words: Any, **measured: Any) -> None:
        where[name] = measure(**measured, **limits)
        print(*words, name, where[name], flush=True)
        if arguments.output:
            write_json(arguments.output, result)

    for name in arguments.models:
        for length in arguments.lengths:
            row = attention[f"{name}, {length} tokens"] = {}
            for implementation in ("plain", "blockwise"):
                model = replace(MODELS[name], attention_implementation=implementation)
                # Only attention shall differ: the loss is computed in chunks in both.
                loss = LossConfig(logits_chunk_length=512)
                keep(row, implementation, name, length, model=model, rows=1, length=length, loss=loss)
    for context in arguments.context:
        rings = result.setdefault("context", {})
        rings[str(context)] = measure_ring(max(arguments.lengths), context)
        print("context", context, rings[str(context)], flush=True)
        if arguments.output:
            write_json(arguments.output, result)
    for chunk_length in () if arguments.skip_loss else (None, 128, 32):
        loss = LossConfig(logits_chunk_length=chunk_length)
        name = f"logits_chunk_length={chunk_length}"
        keep(in_chunks, name, model=wide, rows=LOSS_ROWS, length=LOSS_LENGTH, loss=loss)


if __name__ == "__main__":
    main()
