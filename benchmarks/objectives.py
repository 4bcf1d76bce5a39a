"""Train the recipes of gin/recipes/objectives, and write their losses with those of token frequencies.

python -m benchmarks.objectives --output benchmarks/results/objectives_cpu.json [RECIPE …]
"""

import argparse
import json
import math
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import about
from benchmarks.recipe_names import file_and_row, recipe_names
from t5x_like.gin_config.configuration import load
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from t5x_like.training.experiment import Experiment
from t5x_like.training.train import train
from t5x_like.training.validation import entropy

# Objective -> recipe.
_NAMES = {
    re.findall(r"\w+", name.removesuffix(".gin"))[-1]: name for name in recipe_names("objectives/*.gin")
}
RECIPES = sorted(_NAMES)

OF_ANSWERS = ("chat", "sft")


def read_recipe(name: str, model_dir: str, overrides: Sequence[str] = ()) -> Experiment:
    """Return the recipe's experiment, its task renamed to the recipe: a process has one task of a name."""
    file, row = file_and_row(_NAMES[name])
    macros = [f"MODEL_DIR='{model_dir}'", f"MIXTURE='{name}'", *overrides]
    return load([str(file)], [*row, *macros], roots=[Experiment]).value


def losses_and_baselines(name: str, measured: Mapping[str, Any], validation: LoaderConfig) -> dict[str, Any]:
    """Return the losses on held-out data in nats, each with that of a model that knows only frequencies.

    The baseline depends on the loss:

    - tokens: the entropy of their frequencies, twice that if a second head predicts the same tokens (SpanBERT);
    - sequences in two classes: ln 2;
    - answers: the entropy of whole answers, divided by their tokens;
    - a discriminator: the entropy of the share of replaced tokens, special tokens left out because they never are.
    """
    words = measured["unigram_entropy"]
    results = {"tokens": (measured["cross_entropy"], 2 * words if name == "span_masking" else words)}
    if name in OF_ANSWERS:
        results["answers"] = (measured["cross_entropy"], entropy_of_answers(validation))
    if "sequence_cross_entropy" in measured:
        results["sequences"] = (measured["sequence_cross_entropy"], math.log(2))
    if "discriminator_loss" in measured:
        replaced = measured["replaced_share"] * measured["target_tokens"]
        real, ordinary = count_tokens(validation)
        share = entropy(np.array([replaced, ordinary - replaced])) * ordinary / real
        results["discriminator"] = (measured["discriminator_loss"], share)
    return {
        of: {"cross_entropy": round(reached, 4), "baseline": round(baseline, 4)}
        for of, (reached, baseline) in results.items()
    }


def entropy_of_answers(validation: LoaderConfig) -> float:
    """Return nats a token by the frequencies of whole answers, for a split with few different answers."""
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
    """Return all real tokens of the split, and those without classification and separation tokens."""
    loader, real, special = build_loader(validation), 0, 0
    ids = ids_of(loader.vocabulary)
    marks = [token_id for token_id in (ids.cls, ids.sep) if token_id is not None]
    for batch in loader:
        is_real = batch.encoder_segment_ids > 0
        real += int(np.count_nonzero(is_real))
        special += int(np.count_nonzero(is_real & np.isin(batch.encoder_input_tokens, marks)))
    return real, real - special


def measure(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Train one recipe in a temporary folder."""
    with tempfile.TemporaryDirectory() as directory:
        experiment = read_recipe(name, f"{directory}/run", overrides)
        started, started_cpu = time.perf_counter(), time.process_time()
        finished = train(experiment)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    (validation,) = experiment.data.validations
    return {
        "losses": losses_and_baselines(name, finished.last[f"validation/{name}"], validation),
        "accuracy": round(finished.last[f"validation/{name}"]["accuracy"], 4),
        "steps": experiment.run.total_steps,
        "seed": experiment.run.seed,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
    }


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Add results to a file; other recipes in it stay."""
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **results}, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Measure one recipe after another, and write after each."""
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
