"""Tokens a second of the server, for one client and for several at once.

    python -m benchmarks.serving --clients 1 32 --output benchmarks/results/serving_cpu.json

A fresh GPT-2 writes 64 tokens after prompts of 24 to 40 random tokens, greedily and without an end of text. Each client
sends its next request when the last one is answered. Programs are compiled before the time is taken.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
import uvicorn

from benchmarks.machine import about
from t5x_like.io.files import write_json
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.serving.application import build_application
from t5x_like.serving.request_fields import Limits
from t5x_like.serving.served_model import ServedModel

_NEW_TOKENS, _PROMPT_TOKENS = 64, (24, 40)
_SIZES: dict[str, Any] = {
    "vocab_size": 8192,
    "model_dim": 256,
    "mlp_dim": 1024,
    "num_heads": 4,
    "num_layers": 6,
}


def main() -> None:
    """Start a server, ask it from several threads, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="time of each measurement (20)")
    parser.add_argument("--rows", type=int, default=Limits.rows, help="completions computed together")
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.rows)
        return
    with served(arguments.rows) as port:
        for number in arguments.clients:  # compiles the programs of all numbers of rows
            measure(port, number, 5.0)
        rates = {number: measure(port, number, arguments.seconds) for number in arguments.clients}
    first = rates[arguments.clients[0]]
    result = {
        **about(),
        "jax": jax.__version__,
        "model": _SIZES,
        "new_tokens": _NEW_TOKENS,
        "rows": arguments.rows,
        "tokens_per_second_by_clients": {number: round(rate, 1) for number, rate in rates.items()},
        "ratio": {number: round(rate / first, 2) for number, rate in rates.items()},
    }
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


def serve(port: int, rows: int) -> None:
    """Serve a fresh model until the process is ended.

    Args:
      port: Port on the loopback interface.
      rows: Completions computed together.
    """
    config = GPT2Config(**_SIZES, max_position_embeddings=256)
    checkpoint = Checkpoint.in_memory(config.build(jax.random.key(0)), config)
    model = ServedModel(Pretrained(checkpoint), "gpt2", Limits(rows=rows))
    uvicorn.run(build_application(model), port=port, log_level="warning")


@contextlib.contextmanager
def served(rows: int) -> Iterator[int]:
    """Run a server in another process, and yield its port."""
    port = random.SystemRandom().randrange(20_000, 60_000)
    command = [sys.executable, "-m", "benchmarks.serving", "--serve", str(port), "--rows", str(rows)]
    with subprocess.Popen(command) as server:
        try:
            _wait_for(port)
            yield port
        finally:
            server.terminate()


def measure(port: int, num_clients: int, seconds: float) -> float:
    """Return the new tokens a second of all clients together.

    Args:
      port: Port of the server.
      num_clients: Clients at once.
      seconds: Time in which requests begin.
    """
    numbers: list[int] = []
    begin = time.perf_counter()

    def ask(seed: int) -> None:
        draw, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        while time.perf_counter() - begin < seconds:
            prompt = [draw.randrange(2, _SIZES["vocab_size"]) for _ in range(draw.randint(*_PROMPT_TOKENS))]
            numbers.append(_complete(connection, prompt))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(num_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(numbers) / (time.perf_counter() - begin)


def _complete(connection: http.client.HTTPConnection, prompt: list[int]) -> int:
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": _NEW_TOKENS, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    return answer["usage"]["completion_tokens"]


def _wait_for(port: int) -> None:
    async def connect() -> None:
        while True:
            with contextlib.suppress(OSError):
                await asyncio.open_connection("127.0.0.1", port)
                return
            await asyncio.sleep(0.2)

    asyncio.run(asyncio.wait_for(connect(), 120))


if __name__ == "__main__":
    main()
