"""Compare train step, forward pass and generation with transformers in PyTorch: same weights, same tokens, one run.

    python -m venv ../torch && ../torch/bin/pip install torch transformers
    LD_PRELOAD=libtcmalloc_minimal.so.4 python -m benchmarks.against_pytorch --pytorch ../torch/bin/python \
        --output benchmarks/results/against_pytorch_cpu.json

Each round measures ours, PyTorch in eager mode, and PyTorch with ``torch.compile``, one after the other, each in a
process of its own. Figures are medians over the rounds, and a ``speedup`` is the median over rounds of PyTorch's
seconds divided by ours. All in float32, without dropout, and nothing generated ends early. Logits and greedy ids of
both are compared. Without ``--pytorch`` only ours are measured.

tcmalloc makes train steps of both faster. glibc's huge pages make ours faster, and PyTorch's not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.machine import about
from benchmarks.timed_step import compile_step, empty_rows, time_calls
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.training.losses import LossConfig
from t5x_like.training.state import new_state

_ROWS, _NEW_TOKENS = 16, 32
MEASURES = ("train", "forward", "greedy", "beam_4")


class Case(NamedTuple):
    """A model and its batch.

    Attributes:
      config: its configuration, without dropout.
      inputs_length: tokens of an encoder's row; 0 without an encoder.
      targets_length: tokens of a decoder's row; 0 without a decoder.
      prompt_length: tokens before those that are generated; 0 for a model that doesn't write.
      optimizer: of the train step.
    """

    config: Any
    inputs_length: int
    targets_length: int
    prompt_length: int
    optimizer: str = "adamw"


CASES = {
    "t5": Case(
        T5Config(
            vocab_size=32128, model_dim=256, mlp_dim=512, num_heads=8, head_dim=32, feed_forward="gated_gelu",
            tie_word_embeddings=True, num_encoder_layers=4, num_decoder_layers=4, dropout_rate=0.0,
        ),
        128, 32, 128, "adafactor",
    ),
    "bert": Case(
        BertConfig(
            vocab_size=30522, model_dim=256, mlp_dim=1024, num_heads=4, num_layers=4, dropout_rate=0.0,
            task="masked_lm",
        ),
        128, 0, 0,
    ),
    "gpt2": Case(
        GPT2Config(vocab_size=20480, model_dim=256, mlp_dim=1024, num_heads=8, num_layers=6, dropout_rate=0.0),
        0, 128, 32,
    ),
    "llama": Case(
        LlamaConfig(
            vocab_size=32000, model_dim=288, mlp_dim=768, num_heads=6, num_kv_heads=6, num_layers=6,
            tie_word_embeddings=True,
        ),
        0, 128, 32,
    ),
}  # fmt: skip


def main() -> None:
    """Measure the models in turn, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--rounds", type=int, default=3, help="of both (3)")
    parser.add_argument("--steps", type=int, default=5, help="calls to time in each round (5)")
    parser.add_argument("--pytorch", metavar="PYTHON", help="a Python with torch and transformers")
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("--one", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        folder, case = Path(arguments.one), CASES[arguments.models[0]]
        print(json.dumps(measure(case, folder, arguments.measure, arguments.steps)))
        return
    result: dict[str, Any] = {**about(), "jax": jax.__version__, "rows": _ROWS, "new_tokens": _NEW_TOKENS}
    result["models"] = {}
    for name in arguments.models:
        result["models"][name] = compare(name, arguments)
        print(name, json.dumps(result["models"][name], indent=2), flush=True)
        if arguments.output:
            write_json(arguments.output, result)


def compare(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one model, ours and theirs."""
    case = CASES[name]
    measures = [each for each in arguments.measure if case.prompt_length or each in ("train", "forward")]
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(case, Path(folder))
        own = [sys.executable, "-m", "benchmarks.against_pytorch", "--one", folder, "--models", name]
        own += ["--steps", str(arguments.steps), "--measure", *measures]
        in_jax, in_pytorch, compiled = [], [], []
        of_compiled = [each for each in measures if each in ("train", "forward")]
        settings = {"python": arguments.pytorch, "num_calls": arguments.steps}
        for _ in range(arguments.rounds):
            in_jax.append(last_line(own))
            if arguments.pytorch:
                in_pytorch.append(pytorch(case, Path(folder), measures, **settings))
                compiled.append(pytorch(case, Path(folder), of_compiled, **settings, is_compiled=True))
        results: dict[str, Any] = {
            "parameters": in_jax[0]["parameters"],
            "inputs_length": case.inputs_length,
            "targets_length": case.targets_length,
            "prompt_length": case.prompt_length,
            "optimizer": case.optimizer,
            "seconds": {each: _median(in_jax, each) for each in measures},
        }
        if not arguments.pytorch:
            return results
        results["pytorch"] = {
            key: in_pytorch[0][key] for key in ("torch", "transformers", "threads", "attention")
        }
        results["pytorch"]["seconds"] = {each: _median(in_pytorch, each) for each in measures}
        results["pytorch_compiled"] = {"seconds": {each: _median(compiled, each) for each in of_compiled}}
        for name, rounds, measured in (
            ("speedup", in_pytorch, measures),
            ("speedup_over_compiled", compiled, of_compiled),
        ):
            results[name] = {
                each: round(
                    statistics.median(
                        slower[each] / faster[each] for faster, slower in zip(in_jax, rounds, strict=True)
                    ),
                    2,
                )
                for each in measured
            }
        return results | {"agreement": agreement(Path(folder), in_jax[0], in_pytorch[0])}


def write_inputs(case: Case, folder: Path) -> None:
    """Write weights in Hugging Face's format, and tokens."""
    params = parameters.split(jax.jit(case.config.build)(jax.random.key(0)))[1]
    write_hugging_face(case.config, params, folder / "model")
    rng = np.random.default_rng(0)

    def tokens(length: int) -> np.ndarray:
        return rng.integers(2, case.config.vocab_size, (_ROWS, length))

    inputs = tokens(case.inputs_length or case.targets_length)
    targets = tokens(case.targets_length) if case.inputs_length and case.targets_length else inputs
    np.savez(folder / "train.npz", inputs=inputs, targets=targets)
    prompts = inputs[:, : case.prompt_length]
    np.savez(folder / "generate.npz", inputs=prompts, targets=prompts)


def pytorch(
    case: Case,
    folder: Path,
    measures: list[str],
    *,
    python: str,
    num_calls: int,
    profile: bool = False,
    is_compiled: bool = False,
) -> dict[str, Any]:
    """Return PyTorch's figures of one round; with ``profile`` the seconds of each of its operations, too."""
    base = {
        "fields": architecture_of(case.config).to_hugging_face(case.config),
        "directory": str(folder / "model"),
        "rows": _ROWS,
        "inputs_length": case.inputs_length,
        "targets_length": case.targets_length,
        "new_tokens": _NEW_TOKENS,
        "steps": num_calls,
        "profile": profile,
        "compile": is_compiled,
        "optimizer": case.optimizer,
    }
    results: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for file in ("train", "generate"):
        selected = [each for each in measures if (each in ("train", "forward")) == (file == "train")]
        if selected:
            tokens, outputs = str(folder / f"{file}.npz"), str(folder / f"pytorch_{file}.npz")
            request = base | {"measure": selected, "tokens": tokens, "outputs": outputs}
            answer = last_line([python, "-m", "benchmarks.pytorch_step", json.dumps(request)])
            operations |= answer.pop("operations", {})
            results |= answer
    renamed = {"train": "seconds_per_step"}
    seconds = {each: results[renamed.get(each, f"{each}_seconds")] for each in measures}
    return results | seconds | {"operations": operations}


def measure(case: Case, folder: Path, measures: list[str], num_calls: int) -> dict[str, Any]:
    """Return our figures of one round, and keep the outputs."""
    results: dict[str, Any] = {}
    outputs = {}
    for name in measures:
        program = our_program(case, folder, name)
        results |= {"parameters": program.num_parameters, name: time_calls(program.run, num_calls)}
        if name != "train":
            outputs[name] = np.asarray(program.run())
    np.savez(folder / "ours.npz", **outputs)
    return results


class Program(NamedTuple):
    """A compiled program of a model.

    Attributes:
      compiled: as JAX compiled it.
      run: runs it once.
      num_parameters: of the model.
    """

    compiled: Any
    run: Callable[[], Any]
    num_parameters: int


def our_program(case: Case, folder: Path, name: str) -> Program:
    """Compile a measure's program for a model; its inputs are those that ``write_inputs`` wrote."""
    config = case.config
    if name == "train":
        return _train_step(case, folder)
    graphdef, params = parameters.split(jax.jit(config.build)(jax.random.key(0)))
    prompts = jnp.asarray(np.load(folder / "generate.npz")["inputs"], jnp.int32)

    def forward(params: Any) -> jax.Array:
        return parameters.merge(graphdef, params)(_batch(case, folder)).logits

    def generate(params: Any, num_beams: int) -> jax.Array:
        settings = GenerationConfig(max_new_tokens=_NEW_TOKENS, num_beams=num_beams).search_settings(())
        model = parameters.merge(graphdef, params)
        return continue_prompts(model, prompts, jnp.ones_like(prompts), None, start_id=0, settings=settings)[
            0
        ]

    function = forward if name == "forward" else partial(generate, num_beams=4 if name == "beam_4" else 1)
    compiled = jax.jit(function).lower(params).compile()
    return Program(compiled, lambda: compiled(params), _num_parameters(params))


def _train_step(case: Case, folder: Path) -> Program:
    mesh = MeshConfig().build(jax.devices()[:1])
    optimizer = Adafactor(learning_rate=1e-3) if case.optimizer == "adafactor" else AdamW(learning_rate=1e-4)
    step = compile_step(case.config, optimizer, _batch(case, folder), mesh, loss=LossConfig(z_loss=0.0))
    state = new_state(step.plan, case.config, seed=0)

    def run() -> Any:
        nonlocal state
        with jax.set_mesh(mesh):
            state = step.program(state, step.batch)
        return state

    return Program(step.program, run, _num_parameters(step.plan.abstract["params"]))


def _num_parameters(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def _batch(case: Case, folder: Path) -> Any:
    """Return the batch that PyTorch makes of the same tokens."""
    arrays = np.load(folder / "train.npz")
    inputs, targets = arrays["inputs"].astype(np.int32), arrays["targets"].astype(np.int32)
    rows = empty_rows(case.inputs_length, case.targets_length)
    ones = {length: np.ones((_ROWS, length), np.int32) for length in (inputs.shape[1], targets.shape[1])}
    streams: dict[str, np.ndarray] = {
        "target_tokens": targets,
        "loss_weights": ones[targets.shape[1]].astype(np.float32),
    }
    if case.inputs_length:
        streams |= {"encoder_input_tokens": inputs, "encoder_segment_ids": ones[inputs.shape[1]]}
    if case.targets_length:
        read = targets
        streams |= {"decoder_input_tokens": read, "decoder_segment_ids": ones[targets.shape[1]]}
    return rows._replace(**streams)


def agreement(folder: Path, in_jax: dict[str, Any], in_pytorch: dict[str, Any]) -> dict[str, Any]:
    """Return how far the outputs of both are apart."""
    own = np.load(folder / "ours.npz")
    results: dict[str, Any] = {"parameters": in_jax["parameters"] == in_pytorch["parameters"]}
    if "forward" in own:
        reference = np.load(folder / "pytorch_train.npz")["forward"]
        results["largest_difference_of_logits"] = float(
            np.abs(own["forward"][..., : reference.shape[-1]] - reference).max()
        )
    if "greedy" in own:
        reference = np.load(folder / "pytorch_generate.npz")["greedy"][:, -_NEW_TOKENS:]
        results["equal_greedy_ids"] = float((own["greedy"] == reference).mean())
    return results


def _median(rounds: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(each[name] for each in rounds), 4)


def last_line(command: list[str]) -> dict[str, Any]:
    """Run a command, and return the JSON object in the last line of its output."""
    root = Path(__file__).parents[1]
    # All cores for both; a test's simulated devices for neither.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr.strip()[-3000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
