"""Tokens a second of texts of very different lengths: in rolling batches, and one batch after another.

    python -m benchmarks.mixed_lengths --output benchmarks/results/mixed_lengths_cpu.json

A fresh model samples after prompts of 8 to 64 random tokens. Of its vocabulary, one id in 32 ends a text, so that
lengths are drawn from a geometric distribution. Both ways write the same texts, in turn; the first turn compiles.
"""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.machine import about
from t5x_like.inference.generator import GenerationConfig, Generator, continue_prompts
from t5x_like.inference.length_batches import length_batches, pad_prompts
from t5x_like.inference.sampling import row_keys
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.partitioning.mesh import MeshConfig

_LONGEST_PROMPT, _MEAN, _LONGEST = 64, 32, 256
_VOCAB = 8192
_END_IDS = tuple(range(2, 2 + _VOCAB // _MEAN))
_SIZE: dict[str, Any] = {"vocab_size": _VOCAB, "model_dim": 256, "mlp_dim": 1024, "num_heads": 4}
_MODELS: dict[str, Any] = {
    "gpt2": GPT2Config(**_SIZE, num_layers=6, max_position_embeddings=512),
    "t5": T5Config(**_SIZE, head_dim=64, num_encoder_layers=3, num_decoder_layers=3),
}


def main() -> None:
    """Measure both ways, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32], help="rows of a batch (8 and 32)")
    parser.add_argument("--rounds", type=int, default=3, help="turns after the first (3)")
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    result = {
        **about(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "prompts": arguments.prompts,
        "mean_length": _MEAN,
        "longest": _LONGEST,
        "models": {
            name: {rows: measure(name, rows, arguments.prompts, arguments.rounds) for rows in arguments.rows}
            for name in _MODELS
        },
    }
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


def measure(name: str, num_rows: int, num_prompts: int, rounds: int) -> dict[str, float]:
    """Return the median tokens a second of both ways, and their ratio.

    Args:
      name: Model.
      num_rows: Rows of a batch.
      num_prompts: Number of prompts.
      rounds: Turns that are measured.

    Raises:
      RuntimeError: The texts differ.
    """
    graphdef, params = parameters.split(_MODELS[name].build(jax.random.key(0)))
    draw = np.random.default_rng(0)
    prompts = [
        draw.integers(_END_IDS[-1] + 1, _VOCAB, length).tolist()
        for length in draw.integers(8, _LONGEST_PROMPT + 1, num_prompts).tolist()
    ]
    is_decoder = name == "gpt2"
    generator = Generator(graphdef, MeshConfig().build(), is_decoder=is_decoder)
    config = GenerationConfig(max_new_tokens=_LONGEST, temperature=1.0)

    def rolling() -> Iterator[tuple[int, list[int]]]:
        return generator(
            params, prompts, config, end_ids=_END_IDS, batch_size=num_rows, limit=_LONGEST_PROMPT
        )

    def batches() -> Iterator[tuple[int, list[int]]]:
        return _one_batch_after_another(graphdef, params, prompts, config, num_rows, is_decoder)

    rates: dict[str, list[float]] = {"rolling": [], "batches": []}
    for turn in range(rounds + 1):
        texts = {}
        for way, write in (("rolling", rolling), ("batches", batches)):
            begin = time.perf_counter()
            texts[way] = dict(write())
            number = sum(len(ids) + 1 for ids in texts[way].values())  # and the end
            if turn:
                rates[way].append(number / (time.perf_counter() - begin))
        if texts["rolling"] != texts["batches"]:
            raise RuntimeError("both ways should write the same texts")
    medians = {way: float(np.median(each)) for way, each in rates.items()}
    return {
        **{f"{way}_tokens_per_second": round(rate, 1) for way, rate in medians.items()},
        "ratio": round(medians["rolling"] / medians["batches"], 2),
    }


_continue = jax.jit(
    lambda graphdef, params, ids, mask, keys, config, num_last: continue_prompts(
        parameters.merge(graphdef, params),
        ids,
        mask,
        keys,
        start_id=0,
        settings=config.search_settings(_END_IDS),
        num_last_inputs=num_last,
    )[0],
    static_argnums=(0, 5, 6),
)


def _one_batch_after_another(
    graphdef: Any,
    params: Any,
    prompts: list[list[int]],
    config: GenerationConfig,
    num_rows: int,
    is_decoder: bool,
) -> Iterator[tuple[int, list[int]]]:
    """Yield the ids of each prompt; from 16 rows on the last quarter of a batch is computed alone."""
    keys = row_keys(jax.random.key(config.seed), len(prompts))
    num_last = num_rows // 4 if num_rows >= 16 else None
    for indices in length_batches([len(ids) for ids in prompts], num_rows):
        padded = pad_prompts(
            [prompts[index] for index in indices],
            length=_LONGEST_PROMPT,
            batch_size=num_rows,
            on_the_left=is_decoder,
        )
        of_rows = keys[np.resize(indices, num_rows)]
        rows = np.asarray(_continue(graphdef, params, *padded, of_rows, config, num_last)).tolist()
        for index, row in zip(indices, rows, strict=False):
            end = next((place for place, token in enumerate(row) if token in _END_IDS), len(row))
            yield index, row[:end]


if __name__ == "__main__":
    main()
