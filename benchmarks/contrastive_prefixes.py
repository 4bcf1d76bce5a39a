"""Steer a tiny GPT by contrastive prefixes, and count what it writes about with a classifier.

    python -m benchmarks.contrastive_prefixes --runs runs/contrastive --output contrastive_prefixes_cpu.json

gin/recipes/tuning/gpt_pretrain.gin trains a GPT on definitions of six kinds of things. gpt_head.gin makes a classifier
of kinds from it, and contrastive_prefixes.gin two prefixes: plants and persons. Definitions are sampled with each
prefix and without, and the classifier counts their kinds. Runs that are complete are kept, and killed ones continued.
"""

import argparse
import resource
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import run
from benchmarks.machine import about
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.io.files import write_json
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained, from_pretrained
from t5x_like.reports.machine import describe_machine
from t5x_like.training.run_record import read_recorded

_RECIPES, _DATA = "gin/recipes/tuning", Path("data/wordnet_definitions")
ATTRIBUTES = ("plant", "person")
_START = 1  # end of sequence, after which a definition begins
_SAMPLING = {"max_new_tokens": 40, "do_sample": True, "temperature": 1.0, "top_k": 20}
_CLASSIFIER = {"AUXILIARY_LM_WEIGHT": None}  # a classifier alone
_SHOWN = 5  # texts of each kind in the result


def main() -> None:
    """Train what is missing, sample, classify, and write the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--pretrain_steps", type=int, default=1000)
    parser.add_argument("--classifier_steps", type=int, default=400)
    parser.add_argument("--steps", type=int, default=300, help="of the prefixes")
    parser.add_argument("--texts", type=int, default=250, help="sampled from each model")
    parser.add_argument(
        "--weights", type=float, nargs="+", default=[0.25], help="of the discriminative loss; 0 for none"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    runs, seed = Path(arguments.runs), arguments.seed
    base, classifier = runs / "gpt", runs / "classifier"
    train("gpt_pretrain", base, arguments.pretrain_steps, seed)
    train(
        "gpt_head", classifier, arguments.classifier_steps, seed, INITIAL_CHECKPOINT=str(base), **_CLASSIFIER
    )
    held_out = definitions("validation")
    predicted = kinds_of(classifier, [text for text, _ in held_out])
    is_right = [kind == label for kind, (_, label) in zip(predicted, held_out, strict=True)]
    known = {text for text, _ in definitions("train")}

    pretrained = from_pretrained(base)
    untuned = sample(pretrained, arguments)
    written = {"untuned": measure(untuned, kinds_of(classifier, untuned), known)}
    for weight in arguments.weights:
        prefixes = runs / f"prefixes_{weight:g}"
        options = {"INITIAL_CHECKPOINT": str(base), "DISCRIMINATIVE_WEIGHT": weight}
        train("contrastive_prefixes", prefixes, arguments.steps, seed, **options)
        for attribute in ATTRIBUTES:
            one = runs / f"{attribute}_{weight:g}_{arguments.steps}"
            if not one.exists():
                run("convert", "--attribute", attribute, "--from", prefixes, "--to", one)
            name = f"prefix of {attribute}, discriminative_weight {weight:g}"
            pretrained.load_adapter(name, one)
            texts = sample(pretrained, arguments)
            written[name] = measure(texts, kinds_of(classifier, texts), known)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result = {
        "what": "kinds of sampled definitions in percent, by a classifier of six kinds",
        "written": written,
        "classifier": {
            "accuracy": _percent(sum(is_right) / len(is_right)),
            "rows": len(held_out),
            "most_frequent": _percent(max(Counter(label for _, label in held_out).values()) / len(held_out)),
        },
        "sampling": _SAMPLING,
        "texts_of_each": arguments.texts,
        "steps": {
            "pretraining": arguments.pretrain_steps,
            "classifier": arguments.classifier_steps,
            "prefixes": arguments.steps,
        },
        "seed": seed,
        "cpu_minutes": round(sum(each.ru_utime + each.ru_stime for each in used) / 60, 1),
        "machine": describe_machine(),
        **about(),
    }
    for name, shares in written.items():
        print(f"{name}: {shares['kinds']}", *(f"\n    {text}" for text in shares["examples"]))
    print("classifier:", result["classifier"])
    if arguments.output:
        write_json(arguments.output, result)


def train(recipe: str, directory: Path, steps: int, seed: int, **macros: Any) -> None:
    """Train a run by its recipe; one that is complete stays."""
    macros |= {"TRAIN_STEPS": steps, "WARMUP_STEPS": steps // 10, "SAVE_EVERY_STEPS": 0, "SEED": seed}
    run("train", f"--gin_file={_RECIPES}/{recipe}.gin", f"--model_dir={directory}", **macros)


def definitions(split: str) -> list[tuple[str, str]]:
    """Return the definitions of a split and their kinds."""
    lines = (_DATA / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(definition, kind) for _, definition, kind in (line.split("\t") for line in lines)]


def sample(pretrained: Pretrained, arguments: argparse.Namespace) -> list[str]:
    """Sample definitions from the model with the adapter in use."""
    prompts = np.full((arguments.texts, 1), _START, np.int32)
    rows = pretrained.generate(prompts, np.ones_like(prompts), seed=arguments.seed, **_SAMPLING)
    return pretrained.decode(rows[:, 1:])


def kinds_of(classifier: Path, texts: Sequence[str]) -> list[str]:
    """Return the kind that a run's head predicts for each text."""
    of_run = RunPrediction(
        checkpoint=str(classifier),
        task=read_recorded(classifier, "train").mixture,
        tasks=read_recorded(classifier, "tasks"),
        inputs_length=read_recorded(classifier, "train").inputs_length,
        batch_size=50,
    )
    return [result.prediction for result in predict(of_run, texts)]


def measure(texts: Sequence[str], kinds: Sequence[str], known: set[str]) -> dict[str, Any]:
    """Return shares of each kind, and of texts that are new."""
    counts = Counter(kinds)
    new = {text for text in texts if text not in known}
    return {
        "kinds": {kind: _percent(count / len(texts)) for kind, count in counts.most_common()},
        "new_and_distinct": _percent(len(new) / len(texts)),
        "examples": list(texts[:_SHOWN]),
    }


def _percent(share: float) -> float:
    return round(100 * float(share), 1)


if __name__ == "__main__":
    main()
