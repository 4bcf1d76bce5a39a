"""Trains the recipes of gin/recipes/objectives and writes what each reached beside what takes no learning.

python -m benchmarks.objectives --output benchmarks/results/objectives_cpu.json [RECIPE …]
"""

import argparse
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import about
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import shipped_directory
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from t5x_like.training.experiment import Experiment
from t5x_like.training.train import train
from t5x_like.training.validation import entropy

RECIPES = sorted(
    file.stem
    for file in (shipped_directory("gin") / "recipes/objectives").glob("*.gin")
    if file.stem != "tasks"
)

OF_ANSWERS = ("chat", "sft")


def read_recipe(name: str, model_dir: str, overrides: Sequence[str] = ()) -> Experiment:
    """The recipe's run, of a task named as the recipe: a process can hold one task of a name only."""
    macros = [f"MODEL_DIR='{model_dir}'", f"MIXTURE='{name}'", *overrides]
    return load([f"gin/recipes/objectives/{name}.gin"], macros, roots=[Experiment]).value


def losses_and_baselines(name: str, measured: Mapping[str, Any], validation: LoaderConfig) -> dict[str, Any]:
    """Every loss on held-out data, in nats, and what a model reaches that knows only how frequent each answer is.

    Of words that is the entropy of their frequencies, twice that where a second head tells the same words (SpanBERT);
    of sequences in two classes ln 2; where all that is learned are answers, the entropy of whole ones, spread over
    their tokens; of a discriminator's tokens the entropy of the share that was replaced, of those
    that ever are: it is easy to tell that special ones aren't.
    """
    words = measured["unigram_entropy"]
    found = {"tokens": (measured["cross_entropy"], 2 * words if name == "span_masking" else words)}
    if name in OF_ANSWERS:
        found["answers"] = (measured["cross_entropy"], entropy_of_answers(validation))
    if "sequence_cross_entropy" in measured:
        found["sequences"] = (measured["sequence_cross_entropy"], math.log(2))
    if "discriminator_loss" in measured:
        replaced = measured["replaced_share"] * measured["target_tokens"]
        real, ordinary = count_tokens(validation)
        share = entropy(np.array([replaced, ordinary - replaced])) * ordinary / real
        found["discriminator"] = (measured["discriminator_loss"], share)
    return {
        of: {"cross_entropy": round(reached, 4), "baseline": round(baseline, 4)}
        for of, (reached, baseline) in found.items()
    }


def entropy_of_answers(validation: LoaderConfig) -> float:
    """Nats a token: of a split where few answers are given again and again, each a run of targets that count."""
    answers: Counter[bytes] = Counter()
    num_tokens = 0
    for batch in build_loader(validation):
        for tokens, weights in zip(batch.target_tokens, batch.loss_weights, strict=True):
            (borders,) = np.nonzero(np.diff(weights > 0, prepend=False, append=False))
            for start, stop in borders.reshape(-1, 2):
                answers[tokens[start:stop].tobytes()] += 1
                num_tokens += int(stop - start)
    return entropy(np.array(list(answers.values()))) * answers.total() / num_tokens


def count_tokens(validation: LoaderConfig) -> tuple[int, int]:
    """All real tokens of the split, and those of them that are no classification or separation."""
    loader, real, special = build_loader(validation), 0, 0
    ids = ids_of(loader.vocabulary)
    marks = [number for number in (ids.cls, ids.sep) if number is not None]
    for batch in loader:
        is_real = batch.encoder_segment_ids > 0
        real += int(np.count_nonzero(is_real))
        special += int(np.count_nonzero(is_real & np.isin(batch.encoder_input_tokens, marks)))
    return real, real - special


def measure(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Trains one recipe in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as directory:
        experiment = read_recipe(name, f"{directory}/run", overrides)
        started, started_cpu = time.perf_counter(), time.process_time()
        finished = train(experiment)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    (validation,) = experiment.validations
    return {
        "losses": losses_and_baselines(name, finished.last[f"validation/{name}"], validation),
        "accuracy": round(finished.last[f"validation/{name}"]["accuracy"], 4),
        "steps": experiment.total_steps,
        "seed": experiment.seed,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
    }


def write(path: Path, results: Mapping[str, Any]) -> None:
    """One file: those that were measured before stay."""
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **results}, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Measures one after the other, and writes after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES, metavar="RECIPE")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--gin", action="append", default=[], metavar="NAME=VALUE", help="change a macro")
    arguments = parser.parse_args()
    for name in arguments.recipes:
        result = {**measure(name, arguments.gin), **about()}
        write(arguments.output, {name: result})
        print(name, result["losses"], flush=True)


if __name__ == "__main__":
    main()
