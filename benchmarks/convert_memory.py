"""Measure the memory of `t5x-like convert` and `from_pretrained` for a model of a few GB.

    python -m benchmarks.convert_memory
    python -m benchmarks.convert_memory --size xl --output benchmarks/results/convert_memory_NAME.json

Writes a T5 1.1 with random weights as sharded safetensors, converts it to a run, converts the run back, and loads it.
Each step is a process of its own, which prints its peak resident memory (on Linux). A tiny model shows the memory of
the libraries. Prints a JSON object; ``--output`` keeps it.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.machine import about
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.model.zoo.t5 import T5, T5Config
from t5x_like.model.zoo.weights import published_shapes
from t5x_like.pretrained.hugging_face_export import write_hugging_face

SIZES = {
    "tiny": T5Config(
        vocab_size=128,
        model_dim=16,
        mlp_dim=32,
        num_heads=2,
        head_dim=8,
        num_encoder_layers=1,
        num_decoder_layers=1,
    ),
    "large": T5Config(
        vocab_size=32128,
        model_dim=1024,
        mlp_dim=2816,
        num_heads=16,
        head_dim=64,
        num_encoder_layers=24,
        num_decoder_layers=24,
    ),
    "xl": T5Config(
        vocab_size=32128,
        model_dim=2048,
        mlp_dim=5120,
        num_heads=32,
        head_dim=64,
        num_encoder_layers=24,
        num_decoder_layers=24,
    ),
}

_CONVERT = "from t5x_like.cli.main import main; code = main(['convert', *sys.argv[1:]])"
_LOAD = "import t5x_like; model, code = t5x_like.from_pretrained(sys.argv[1]), 0"
_TELL = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def random_weights(config: T5Config) -> dict[str, Any]:
    """Weights without memory: rows repeat one random row, shifted, so that a large model is written fast."""
    noise = np.random.default_rng(0).standard_normal(2**20, np.float32)

    def unread(leaf: Any) -> LazyArray:
        def read(index: Index) -> np.ndarray:
            return np.resize(noise, leaf.shape)[index]

        return LazyArray(leaf.shape, read)

    return jax.tree.map(unread, parameters.abstract(config)[1])


def peak_memory(program: str, *arguments: str) -> dict[str, float]:
    """Run ``program`` in its own process; return seconds and its peak resident memory in GiB."""
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; {_TELL}; sys.exit(code)", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    kibibytes = int(finished.stdout.split()[-1])
    return {"peak_gib": round(kibibytes / 2**20, 3), "seconds": round(time.perf_counter() - start, 1)}


def measure(config: T5Config, folder: Path, max_shard_bytes: int) -> dict[str, Any]:
    """Measure all conversions of one size."""
    source, run, back = folder / "source", folder / "run", folder / "back"
    write_hugging_face(config, random_weights(config), source, max_shard_bytes=max_shard_bytes)
    to_run = ("--from", str(source), "--to", str(run))
    to_hugging_face = ("--from", str(run), "--to", str(back), "--export", "hf")
    measured = {
        "hugging_face_to_run": peak_memory(_CONVERT, *to_run),
        "run_to_hugging_face": peak_memory(_CONVERT, *to_hugging_face),
        "from_pretrained": peak_memory(_LOAD, str(source)),
    }
    shutil.rmtree(folder)
    return measured


def sizes_of(config: T5Config) -> dict[str, float]:
    """Return float32 sizes in GiB: all weights, their largest tensor, our largest (all layers of one kernel)."""
    shapes = parameters.abstract(config)[1]
    weights_gib = [4 * math.prod(leaf.shape) / 2**30 for leaf in jax.tree.leaves(shapes)]
    file_gib = [
        4 * math.prod(shape) / 2**30
        for shape in published_shapes(T5.hugging_face_weights(config), shapes).values()
    ]
    return {
        "weights_gib": round(sum(weights_gib), 3),
        "largest_tensor_gib": round(max(file_gib), 3),
        "largest_stack_gib": round(max(weights_gib), 3),
    }


def main() -> None:
    """Read the flags, measure, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=[name for name in SIZES if name != "tiny"], default="large")
    parser.add_argument("--max_shard_bytes", type=int, default=500 * 10**6)
    parser.add_argument("--folder", help="where to write some times the model's size, removed at the end")
    parser.add_argument("--output", help="a JSON file to write")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = {"model": f"T5 1.1 {arguments.size}", **sizes_of(SIZES[arguments.size]), **about()}
        result["jax"] = jax.__version__
        for name in ("tiny", arguments.size):
            result[name] = measure(SIZES[name], Path(folder) / name, arguments.max_shard_bytes)
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
