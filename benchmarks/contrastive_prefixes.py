"""Contrastive prefixes on shipped text: steers a small GPT-2 to write of a plant or of a person.

    python -m benchmarks.contrastive_prefixes --output benchmarks/results/contrastive_prefixes_cpu.json

A GPT-2 learns to write the definitions of WordNet's six categories. Prefixes for two of them are trained over it, with
and without the discriminative loss (Qian et al. 2022). A classifier that was trained on the same definitions says what
each model writes. About 8 minutes on 2 CPU cores.
"""

import argparse
import csv
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import t5x_like
from t5x_like.io.files import shipped_directory
from t5x_like.pretrained.conversion import take_attribute
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask

CATEGORIES = ("plant", "person")
VOCABULARY = "data/vocabulary/spiece.model"
GPT2 = t5x_like.GPT2Config(
    vocab_size=4224,
    model_dim=128,
    num_heads=4,
    num_layers=3,
    mlp_dim=512,
    max_position_embeddings=64,
    dropout_rate=0.1,
)
PREFIX = {"length": 10, "hidden_dim": 64}


def rows_of(split: str) -> list[tuple[str, str]]:
    """Return the definitions of a split, and their categories."""
    with (shipped_directory("data") / "wordnet_definitions" / f"{split}.tsv").open() as file:
        return [(row["definition"], row["category"]) for row in csv.DictReader(file, delimiter="\t")]


def task_of(home: Path, name: str, category: str | None) -> TextTask:
    """Return the task of writing definitions of one category, or of all."""
    files = {}
    for split in ("train", "validation"):
        lines = [f"define\t{text}" for text, of in rows_of(split) if category in (None, of)]
        files[split] = str(home / f"{name}_{split}.tsv")
        Path(files[split]).write_text("\n".join(["prompt\tdefinition", *lines]) + "\n")
    templates = {"input_template": "{prompt}", "target_template": "{definition}"}
    return TextTask(name=name, vocabulary=VOCABULARY, files=files, **templates)


def train(
    home: Path, name: str, model: Any, mixture: str, tasks: tuple[Any, ...], steps: int, **others: Any
) -> Any:
    """Train a model on definitions, and return the last measures."""
    loader = t5x_like.LoaderConfig(
        mixture=mixture,
        batch_size=32,
        inputs_length=8,
        targets_length=40,
        layout="decoder",
        loss_on_targets_only=True,
        pack=False,
        prefix_attention="causal",
    )
    rate = t5x_like.LinearWarmupLinearDecay(peak=3e-3, warmup_steps=steps // 10, total_steps=steps)
    experiment = t5x_like.Experiment(
        model=model,
        train=loader,
        tasks=tasks,
        optimizer=t5x_like.AdamW(learning_rate=rate),
        intervals=t5x_like.Intervals(log_every_steps=50, evaluate_every_steps=0, save_every_steps=steps),
        model_dir=str(home / name),
        total_steps=steps,
        **others,
    )
    return t5x_like.train(experiment).last["train"]


def written(pretrained: Any, classifier: Any, num_texts: int) -> dict[str, Any]:
    """Return the share of each category among texts that a model writes, and two of the texts."""
    prompt = np.array([[0, *pretrained.vocabulary.encode("define"), 1]] * num_texts)  # start, prompt, end
    ids = pretrained.generate(prompt, np.ones_like(prompt), max_new_tokens=30, do_sample=True, top_p=0.9)
    texts = pretrained.decode(ids[:, prompt.shape[1] :])
    categories = list(classifier.predict(texts))
    shares = {name: round(categories.count(name) / num_texts, 3) for name in CATEGORIES}
    return {**shares, "different": len({*texts}) / num_texts, "examples": list(texts[:2])}


def main() -> None:
    """Train, write, classify, and store the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--prefix_steps", type=int, default=400)
    parser.add_argument("--texts", type=int, default=200)
    arguments = parser.parse_args()
    texts, labels = zip(*rows_of("train"), strict=True)
    classifier = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=500))
    classifier.fit(texts, labels)
    accuracy = classifier.score(*zip(*rows_of("test"), strict=True))
    results: dict[str, Any] = {"classifier_accuracy": round(float(accuracy), 3), "steps": arguments.steps}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        tasks = (
            task_of(home, "definitions", None),
            *(task_of(home, name, name) for name in CATEGORIES),
            Mixture(name="contrasted", tasks=CATEGORIES),
        )
        train(home, "base", GPT2, "definitions", tasks, arguments.steps)
        base = t5x_like.from_pretrained(home / "base")
        results["untuned"] = written(base, classifier, arguments.texts)
        for name, weight in (("prefixes", 0.0), ("contrastive", 0.25)):
            adapter = t5x_like.ContrastivePrefixes(
                attributes=CATEGORIES, discriminative_weight=weight, **PREFIX
            )
            model = replace(GPT2, adapter=adapter, dropout_rate=0.0)
            start = {"start_from": str(home / "base")}
            last = train(home, name, model, "contrasted", tasks, arguments.prefix_steps, **start)
            results[name] = {"attribute_accuracy": round(last["attribute_accuracy"], 3)}
            for category in CATEGORIES:
                take_attribute(home / name, home / f"{name}_{category}", category)
                base.load_adapter(category, home / f"{name}_{category}")
                results[name][category] = written(base, classifier, arguments.texts)
    Path(arguments.output).write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
