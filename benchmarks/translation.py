"""Translate the Debian Handbook by small models from scratch: BLEU of the test sentences, beside that of their copies.

    python -m benchmarks.translation --runs runs/translation --output benchmarks/results/translation_cpu.json \
        --models transformer rnn_seq2seq

Commands are those of the recipes' guide: a vocabulary of byte pairs, training, the average of the last five
checkpoints, beam search. Models that ``--output`` has are not trained again.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import sacrebleu

from benchmarks.commands import only_task, run
from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json

_DATA = Path("data/debian_handbook")
MODELS = ("transformer", "rnn_seq2seq")


def main() -> None:
    """Train what is missing, and write the file after each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    report: dict[str, Any] = read_json(arguments.output) if Path(arguments.output).exists() else {}
    report |= {"what": "sacreBLEU of the test sentences, English to German", "copies": bleu_of_copies()}
    report.setdefault("models", {})
    for model in arguments.models:
        if model not in report["models"]:
            facts = about()
            report["models"][model] = translate(model, arguments.runs) | facts
            write_json(arguments.output, report)
    print(report)


def bleu_of_copies() -> float:
    """Return the BLEU of the source sentences as translations."""
    with open(_DATA / "test.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    copies = sacrebleu.corpus_bleu([row["en"] for row in rows], [[row["de"] for row in rows]])
    return round(copies.score, 2)


def translate(model: str, runs: Path) -> dict[str, Any]:
    """Train a recipe, average its checkpoints, and return the scores of the last one and of the average."""
    runs.mkdir(parents=True, exist_ok=True)
    pieces, trained, averaged = runs / "bpe.model", runs / model, runs / f"{model}_average"
    if not pieces.exists():
        text = _DATA / "train.tsv"
        run("vocabulary", "learn", "--kind", "bpe", "--input", text, "--output", pieces, "--size", 4000)
    start = time.monotonic()
    recipe = f"gin/recipes/{model}/handbook_en_de.gin"
    run("train", f"--gin_file={recipe}", f"--model_dir={trained}", VOCABULARY=str(pieces))
    minutes = (time.monotonic() - start) / 60
    if not averaged.exists():
        run("convert", "--average", 5, "--from", trained, "--to", averaged)
    return {
        "recipe": recipe,
        "training_minutes": round(minutes, 1),
        "last": test_score(trained),
        "average_of_5": test_score(averaged),
    }


def test_score(directory: Path) -> dict[str, Any]:
    """Score the test sentences."""
    results = directory / "test"
    run("evaluate", "--checkpoint", directory, "--output_dir", results)
    _, entry = only_task(results / "scores.json")
    return {"sentences": entry["examples"], **entry["scores"]}


if __name__ == "__main__":
    main()
