"""Compare recurrent layers with PyTorch's: forward pass, and forward with backward pass, on this machine's CPU.

    python -m venv ../torch && ../torch/bin/pip install torch
    python -m benchmarks.recurrent_speed --pytorch ../torch/bin/python --output benchmarks/results/recurrent_speed.json

Each round measures both, one after the other, each in a process of its own. Figures are medians over the rounds, and a
``speedup`` is the median over rounds of PyTorch's seconds divided by ours. All in float32, without dropout, with random
weights. Without ``--pytorch`` only ours are measured. ``--cores 1`` gives each one core: on a busy machine PyTorch's
threads wait for each other at every position.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

# ``proj_size`` and ``bidirectional`` are PyTorch's names.
CASES: dict[str, dict[str, Any]] = {
    "lstm": {"inputs": 400, "units": 400, "layers": 2},
    "lstm_both": {"inputs": 256, "units": 256, "layers": 2, "bidirectional": True},
    "lstm_projection": {"inputs": 256, "units": 1024, "layers": 1, "proj_size": 256},
    "gru": {"inputs": 400, "units": 400, "layers": 2},
}
_ROWS, _LENGTH = 16, 64
_MEASURES = ("forward", "forward_and_backward")
_PYTORCH = """
import json, sys, torch
sys.path.insert(0, ".")
from benchmarks.recurrent_speed import time_pytorch
print(json.dumps(time_pytorch(torch, *json.loads(sys.argv[1]))))
"""


def main() -> None:
    """Measure the cases in turn, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"of a batch ({_ROWS})")
    parser.add_argument("--length", type=int, default=_LENGTH, help=f"of a row ({_LENGTH})")
    parser.add_argument("--rounds", type=int, default=3, help="of both (3)")
    parser.add_argument("--calls", type=int, default=10, help="to time in each round (10)")
    parser.add_argument("--cores", type=int, help="for each of both (all)")
    parser.add_argument("--pytorch", metavar="PYTHON", help="a Python with torch")
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("--one", metavar="REQUEST", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(time_ours(*json.loads(arguments.one))))
        return

    from benchmarks.machine import about  # PyTorch's Python lacks what these import
    from t5x_like.io.files import write_json

    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])  # processes inherit it
    result = {
        **about(num_cores=arguments.cores),
        "rows": arguments.rows,
        "length": arguments.length,
        "cases": {},
    }
    for name in arguments.cases:
        request = json.dumps([name, arguments.rows, arguments.length, arguments.calls])
        in_jax, in_pytorch = [], []
        for _ in range(arguments.rounds):
            in_jax.append(_last_line([sys.executable, "-m", "benchmarks.recurrent_speed", "--one", request]))
            if arguments.pytorch:
                in_pytorch.append(_last_line([arguments.pytorch, "-c", _PYTORCH, request]))
        result["cases"][name] = _summary(in_jax, in_pytorch)
        print(name, json.dumps(result["cases"][name], indent=2), flush=True)
    if arguments.output:
        write_json(arguments.output, result)


def time_ours(name: str, num_rows: int, length: int, num_calls: int) -> dict[str, Any]:
    """Return the seconds of a call of our layers."""
    import jax  # here and below: PyTorch's Python has no JAX
    import jax.numpy as jnp

    from t5x_like.ancestors.layers.rnn_cell import GRUConfig, LSTMConfig
    from t5x_like.ancestors.layers.rnn_stack import RNNStack, RNNStackConfig
    from t5x_like.model import parameters

    case = CASES[name]
    config = RNNStackConfig(
        input_dim=case["inputs"],
        hidden_dims=(case["units"],) * case["layers"],
        cell=GRUConfig() if name == "gru" else LSTMConfig(projection_dim=case.get("proj_size")),
        direction="both" if case.get("bidirectional") else "forward",
    )
    graphdef, params = parameters.split(RNNStack(config, key=jax.random.key(0)))
    x = jax.random.normal(jax.random.key(1), (num_rows, length, case["inputs"]))

    def mean(params: Any, x: jax.Array) -> jax.Array:
        return jnp.mean(parameters.merge(graphdef, params)(x).output)

    forward, gradients = jax.jit(mean), jax.jit(jax.grad(mean, argnums=(0, 1)))
    return {
        "version": jax.__version__,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "forward": _median_seconds(lambda: jax.block_until_ready(forward(params, x)), num_calls),
        "forward_and_backward": _median_seconds(
            lambda: jax.block_until_ready(gradients(params, x)), num_calls
        ),
    }


def time_pytorch(torch: Any, name: str, num_rows: int, length: int, num_calls: int) -> dict[str, Any]:
    """Return the seconds of a call of PyTorch's layers."""
    options = dict(CASES[name])
    inputs, units, layers = (options.pop(key) for key in ("inputs", "units", "layers"))
    kind = torch.nn.GRU if name == "gru" else torch.nn.LSTM
    module = kind(inputs, units, layers, batch_first=True, **options)
    x = torch.randn(num_rows, length, inputs, requires_grad=True)

    def forward() -> None:
        with torch.no_grad():
            module(x)

    def forward_and_backward() -> None:
        module.zero_grad()
        module(x)[0].mean().backward()

    return {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "parameters": sum(weight.numel() for weight in module.parameters()),
        "forward": _median_seconds(forward, num_calls),
        "forward_and_backward": _median_seconds(forward_and_backward, num_calls),
    }


def _summary(in_jax: list[dict[str, Any]], in_pytorch: list[dict[str, Any]]) -> dict[str, Any]:
    def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
        return rounds[0] | {
            each: round(statistics.median(one[each] for one in rounds), 5) for each in _MEASURES
        }

    results: dict[str, Any] = {"ours": medians(in_jax)}
    if in_pytorch:
        results["pytorch"] = medians(in_pytorch)
        results["speedup"] = {
            each: round(
                statistics.median(b[each] / a[each] for a, b in zip(in_jax, in_pytorch, strict=True)), 2
            )
            for each in _MEASURES
        }
    return results


def _median_seconds(call: Callable[[], Any], num_calls: int) -> float:
    call()  # compiles, or fills caches
    seconds = []
    for _ in range(num_calls):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _last_line(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
