"""Train and generate on the accelerator that is here: tokens a second, model FLOPs utilization, peak memory.

    python -m benchmarks.accelerator --output benchmarks/results/h200.json
    python -m benchmarks.accelerator --models tiny --steps 2                      any machine, to try the script
    python -m benchmarks.accelerator --pytorch /path/to/python                    the same models in PyTorch, too

Needs JAX, Flax, Optax and Orbax: no TensorFlow, no seqio, no gin. Each model runs in a process of its own, in bfloat16
with AdamW, on all devices of the machine. Where memory is too small, the number of rows is halved until it fits. Rows
are full of random tokens. ``--pytorch`` names a Python with torch and transformers, which trains the same configuration
with as many rows as fit there, in bfloat16 by autocast, and generates with weights of the same type. The output is kept
after each model.

``--measure agreement`` compares gradients: those of two layers in bfloat16 by ``--attention`` and by plain attention,
relative to plain attention in float32, for rows with padding and for packed rows.
"""

import argparse
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.machine import about
from benchmarks.timed_step import empty_rows, random_batch, time_calls, time_train_step
from t5x_like.batch import Batch
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.layers.attention_implementations import AttentionImplementation
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig

_LARGE: dict[str, Any] = {"compute_dtype": "bfloat16", "remat": "minimal"}
_T5: dict[str, Any] = {
    "vocab_size": 32128,
    "feed_forward": "gated_gelu",
    "tie_word_embeddings": False,
    "head_dim": 64,
}


class Case(NamedTuple):
    """A model and the shape of its batches.

    Attributes:
      config: its configuration.
      rows: of a batch, before any halving.
      inputs_length: tokens of an encoder's row, 0 without an encoder.
      targets_length: tokens of a decoder's row, 0 without a decoder.
    """

    config: Any
    rows: int
    inputs_length: int
    targets_length: int


CASES = {
    "t5_1_1_large": Case(
        T5Config(
            **_T5, **_LARGE, model_dim=1024, mlp_dim=2816, num_heads=16, num_encoder_layers=24, num_decoder_layers=24
        ),
        128, 512, 128,
    ),
    "t5_1_1_xl": Case(
        T5Config(
            **_T5, **_LARGE, model_dim=2048, mlp_dim=5120, num_heads=32, num_encoder_layers=24, num_decoder_layers=24
        ),
        64, 512, 128,
    ),
    "bert_large": Case(
        BertConfig(
            **_LARGE, vocab_size=30592, model_dim=1024, mlp_dim=4096, num_heads=16, num_layers=24, task="masked_lm"
        ),
        128, 512, 0,
    ),
    "llama_1b": Case(
        LlamaConfig(
            **_LARGE, vocab_size=32000, model_dim=2048, mlp_dim=5632, num_heads=32, num_kv_heads=4, num_layers=22
        ),
        16, 0, 2048,
    ),
    "tiny": Case(
        T5Config(
            vocab_size=512, compute_dtype="bfloat16", model_dim=64, mlp_dim=128, num_heads=4, head_dim=16,
            num_encoder_layers=2, num_decoder_layers=2,
        ),
        8, 64, 32,
    ),
}  # fmt: skip
_PROMPT_LENGTH, _NEW_TOKENS, _DECODE_ROWS, _DECODE_CALLS = 128, 128, 32, 3
_AGREEMENT_LENGTH = 256


def main() -> None:
    """Take each measure of each model in a process of its own, or one of them in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", nargs="+", choices=CASES, default=[name for name in CASES if name != "tiny"]
    )
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=["train", "decode"])
    parser.add_argument("--steps", type=int, default=10, help="train steps to time (10)")
    parser.add_argument("--pytorch", metavar="PYTHON", help="a Python with torch and transformers")
    parser.add_argument("--attention", choices=("auto", *get_args(AttentionImplementation)), default="auto")
    parser.add_argument("--unroll_layers", action="store_true", help="no loop over layers while training")
    parser.add_argument(
        "--logits_chunk_length", type=int, help="positions whose logits are computed at once (all)"
    )
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        case = CASES[arguments.models[0]]
        settings = {
            "attention_implementation": arguments.attention,
            "scan_layers": False if arguments.unroll_layers else "auto",
        }
        case = case._replace(config=replace(case.config, **settings))
        loss = LossConfig(logits_chunk_length=arguments.logits_chunk_length)
        print(json.dumps(MEASURES[arguments.measure[0]](case, loss, arguments.steps)))
        return
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax", "optax")}
    options = ["attention", "unroll_layers", "logits_chunk_length"]
    result: dict[str, Any] = {
        **about(),
        "versions": versions,
        **{name: getattr(arguments, name) for name in options},
        "models": {name: {} for name in arguments.models},
    }
    flags = ["--one", "--steps", str(arguments.steps), "--attention", arguments.attention]
    flags += ["--unroll_layers"] * arguments.unroll_layers
    if arguments.logits_chunk_length is not None:
        flags += ["--logits_chunk_length", str(arguments.logits_chunk_length)]
    for measure in arguments.measure:
        for name, actual in result["models"].items():
            command = [sys.executable, "-m", "benchmarks.accelerator", *flags]
            actual[measure] = last_line([*command, "--models", name, "--measure", measure])
            if arguments.pytorch and measure in PYTORCH and actual[measure]:
                for way, function in PYTORCH[measure].items():
                    in_pytorch = function(arguments.pytorch, CASES[name], actual[measure], arguments.steps)
                    rates: list[Any] = [
                        each.get("tokens_per_second") for each in (actual[measure], in_pytorch)
                    ]
                    actual[f"{way}_{measure}"] = in_pytorch
                    speedup = f"{measure}_speedup" + way.removeprefix("pytorch")
                    actual[speedup] = rates[0] / rates[1] if all(rates) else None
            print(name, json.dumps(actual, indent=2), flush=True)
            if arguments.output:
                write_json(arguments.output, result)


def last_line(command: Sequence[str]) -> dict[str, Any]:
    """Run a command and return the JSON object of its last line, or its error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    if done.returncode:
        return {"error": done.stderr.strip()[-2000:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def pytorch_train(
    python: str, case: Case, measured: dict[str, Any], steps: int, *, is_compiled: bool = False
) -> dict[str, Any]:
    """Time the train step of the same model in PyTorch, with as many rows as fit, at most ours."""
    rows = measured.get("rows", case.rows)
    lengths = {"inputs_length": case.inputs_length, "targets_length": case.targets_length}
    request = {"steps": steps, "compile": is_compiled, **lengths}
    while True:
        in_pytorch = _in_pytorch(python, case, {**request, "rows": rows})
        if "OutOfMemoryError" not in in_pytorch.get("error", "") or rows == 1:
            return {"rows": rows, **in_pytorch}
        rows //= 2


def pytorch_decode(python: str, case: Case, measured: dict[str, Any], _: int) -> dict[str, Any]:
    """Time greedy generation by the same model in PyTorch."""
    length = _prompt_length(case)
    lengths = {"inputs_length": length if case.inputs_length else 0, "targets_length": length}
    request = {"measure": ["greedy"], "steps": _DECODE_CALLS, "rows": _DECODE_ROWS, "new_tokens": _NEW_TOKENS}
    in_pytorch = _in_pytorch(
        python, case, {**request, **lengths, "weights": measured.get("weights", "float32")}
    )
    if "greedy_seconds" in in_pytorch:
        in_pytorch["tokens_per_second"] = _DECODE_ROWS * _NEW_TOKENS / in_pytorch["greedy_seconds"]
    return in_pytorch


def _in_pytorch(python: str, case: Case, request: dict[str, Any]) -> dict[str, Any]:
    fields = architecture_of(case.config).to_hugging_face(case.config)
    return last_line([python, "-m", "benchmarks.pytorch_step", json.dumps({"fields": fields, **request})])


def train(case: Case, loss: LossConfig, num_steps: int) -> dict[str, Any]:
    """Time the train step of as many rows as fit."""
    mesh = MeshConfig(data=1, fsdp=-1).build()
    rows = case.rows
    while True:
        batch = random_batch(
            empty_rows(case.inputs_length, case.targets_length),
            batch_size=rows,
            vocab_size=case.config.vocab_size,
        )
        try:
            return time_train_step(
                case.config, AdamW(learning_rate=1e-4), batch, mesh, num_steps=num_steps, loss=loss
            )
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or rows <= mesh.size:
                raise
            rows //= 2


def agreement(case: Case, loss: LossConfig, _: int) -> dict[str, Any]:
    """Return relative errors of the gradient of two layers by implementation of attention.

    For rows with one example and padding, and for rows with two examples.
    """
    config = case.config
    layers = {
        name: 2
        for name in ("num_layers", "num_encoder_layers", "num_decoder_layers")
        if hasattr(config, name)
    }
    small = replace(config, **layers, remat="none")
    lengths = (min(length, _AGREEMENT_LENGTH) for length in (case.inputs_length, case.targets_length))
    batch = random_batch(empty_rows(*lengths), batch_size=2, vocab_size=config.vocab_size)
    batches = {kind: _split(batch, packed=kind == "packed") for kind in ("padding", "packed")}
    params = parameters.split(jax.jit(small.build)(jax.random.key(0)))[1]

    def gradients(**settings: str) -> dict[str, list[jax.Array]]:
        graphdef = parameters.abstract(replace(small, **settings))[0]

        def loss_of(params: Any, batch: Batch, weights: jax.Array, normalizers: jax.Array) -> jax.Array:
            predictions = predict(parameters.merge(graphdef, params), batch)
            of_batch = {"weights": weights, "normalizers": normalizers, "num_tasks": 1}
            return losses.total(predictions, batch, loss, **of_batch)[0]

        gradient = jax.jit(jax.grad(loss_of))
        return {
            kind: jax.tree.leaves(gradient(params, batch, *losses.normalize(batch, loss)))
            for kind, batch in batches.items()
        }

    with jax.default_matmul_precision("highest"):
        reference = gradients(attention_implementation="plain", compute_dtype="float32")
    results: dict[str, Any] = {kind: {} for kind in batches}
    for implementation in ("plain", config.attention_implementation):
        for kind, mine in gradients(attention_implementation=implementation).items():
            differences = [one - other for one, other in zip(mine, reference[kind], strict=True)]
            size = optax.global_norm(reference[kind])
            results[kind][implementation] = float(optax.global_norm(differences) / size)
    return results


def _split(batch: Batch, *, packed: bool) -> Batch:
    """Return a batch whose rows end in padding, or in a second example."""
    segments = {
        name: split_rows(rows, packed=packed)
        for name, rows in batch._asdict().items()
        if name.endswith("segment_ids") and rows is not None
    }
    return batch._replace(**segments)


def split_rows(segments: np.ndarray, *, packed: bool) -> np.ndarray:
    """Return segment ids of rows that end in padding, or in a second example."""
    segments = segments.copy()
    segments[0, segments.shape[1] // 3 :] = segments[1, segments.shape[1] // 2 :] = 2 if packed else 0
    return segments


def decode(case: Case, _: LossConfig, __: int) -> dict[str, Any]:
    """Time greedy generation after prompts of random tokens on one device."""
    if not case.targets_length:
        return {}
    length = _prompt_length(case)
    config = replace(case.config, remat="none")
    graphdef, params = parameters.split(jax.jit(config.build)(jax.random.key(0)))
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    prompts = jax.random.randint(jax.random.key(1), (_DECODE_ROWS, length), 2, config.vocab_size)
    settings = GenerationConfig(max_new_tokens=_NEW_TOKENS).search_settings(())

    @jax.jit
    def generate(params: Any, prompts: jax.Array) -> jax.Array:
        model = parameters.merge(graphdef, params)
        return continue_prompts(model, prompts, jnp.ones_like(prompts), None, start_id=0, settings=settings)[
            0
        ]

    seconds = time_calls(lambda: generate(params, prompts), _DECODE_CALLS)
    return {
        "rows": _DECODE_ROWS,
        "prompt_length": length,
        "new_tokens": _NEW_TOKENS,
        "seconds": seconds,
        "tokens_per_second": _DECODE_ROWS * _NEW_TOKENS / seconds,
        "weights": "bfloat16",
    }


def _prompt_length(case: Case) -> int:
    return min(_PROMPT_LENGTH, case.inputs_length or case.targets_length)


MEASURES = {"train": train, "decode": decode, "agreement": agreement}
PYTORCH: dict[str, dict[str, Callable[..., dict[str, Any]]]] = {
    "train": {"pytorch": pytorch_train, "pytorch_compiled": partial(pytorch_train, is_compiled=True)},
    "decode": {"pytorch": pytorch_decode},
}

if __name__ == "__main__":
    main()
