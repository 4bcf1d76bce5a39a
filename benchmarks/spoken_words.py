"""SpeechT5 on synthetic speech: recognition of held-out words, and synthesis of them, next to simple baselines.

    python -m data.prepare.spoken_words --output corpus/spoken_words --train_words 4000
    python -m benchmarks.spoken_words --words corpus/spoken_words --runs runs/spoken_words --seeds 0 1 2 \
        --output benchmarks/results/spoken_words_cpu.json

A run that is finished is not trained again. Recognition is scored on all held-out recordings by error rates of words
and characters; its baseline is the most frequent training answer. Synthesis is scored by the mean absolute difference
of log-mel spectra to the base 10:

* ``teacher_forced``: the decoder reads the true frames before each one; next to the mean frame of training.
* ``generated``: whole spectra until the stop flag, aligned to their targets by dynamic time warping. Next to them are
  the mean frame, and the recording of another word by the same voice.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import about
from t5x_like import from_pretrained
from t5x_like.audio.speech_features import SpeechFeatures
from t5x_like.audio.spoken_text import SpokenText
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.reports.machine import describe_machine
from t5x_like.text.tasks.speech_table import read_spoken_texts

TASKS = ("recognition", "synthesis")
_EVALUATED = 100  # held-out words that are spoken, each by one of the voices
_MEAN_OF = 400  # training recordings


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, score it, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", required=True, type=Path, metavar="DIR", help="tables of spoken words")
    parser.add_argument("--runs", required=True, type=Path, metavar="DIR", help="where runs are written")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="macro of both recipes"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON to write")
    options = parser.parse_args(arguments)
    for task in TASKS:
        for seed in options.seeds:
            train(task, options.runs / f"{task}_{seed}", options.words, ["SEED=" + str(seed), *options.set])
    recognition = [recognized(options.runs / f"recognition_{seed}") for seed in options.seeds]
    distances = SpectralDistances(options.words)
    synthesis = [distances.of_run(options.runs / f"synthesis_{seed}") for seed in options.seeds]
    result = {
        "what": "SpeechT5 tiny on words that espeak-ng speaks; no held-out word is one of training",
        "recognition": {
            name: _mean([scores[name] for scores, _ in recognition]) for name in recognition[0][0]
        },
        "recognition_baseline": recognition[0][1],
        "synthesis": {name: _mean([each[name] for each in synthesis]) for name in synthesis[0]},
        "synthesis_baselines": distances.baselines(),
        "seeds": options.seeds,
        "settings": options.set,
        "machine": describe_machine(),
        **about(),
    }
    print(json.dumps(result, indent=2))
    if options.output:
        write_json(options.output, result)


def train(task: str, directory: Path, words: Path, settings: Sequence[str]) -> None:
    """Train a run of a toy's recipe, or continue it.

    Args:
      task: "recognition" or "synthesis".
      directory: Folder of the run.
      words: Tables of spoken words.
      settings: Macros and their values.
    """
    macros = [f"{split.upper()}_FILES={words / split}.jsonl" for split in ("train", "validation")]
    flags = [flag for setting in (*macros, *settings) for flag in ("--set", setting)]
    recipe = f"gin/recipes/comparisons/toy_speech_{task}.gin"
    program = Path(sys.executable).parent / "t5x-like"
    command = [str(program), "train", f"--gin_file={recipe}", "--model_dir", str(directory), *flags]
    subprocess.run(command, check=True)


def recognized(directory: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of a run's last evaluation, and those of the most frequent answer."""
    steps = sorted((directory / "evaluations").iterdir(), key=lambda each: int(each.name.rpartition("_")[2]))
    (entry,) = read_json(steps[-1] / "scores.json", dict)["tasks"].values()
    return entry["scores"], entry["baseline"]


class SpectralDistances:
    """Distances of spectra to those of held-out recordings.

    Args:
      words: Tables of spoken words.
    """

    def __init__(self, words: Path) -> None:
        self._features = SpeechFeatures(names=("log_mel",))
        held_out = read_spoken_texts(str(words / "validation.jsonl"))
        num_voices = len(held_out[0].cells["voice"])
        # Rows are the voices of a word, one word after the other.
        self._rows = [
            held_out[start + word % num_voices]
            for word, start in enumerate(range(0, len(held_out), num_voices))
        ][:_EVALUATED]
        self._targets = [self._log_mel(row) for row in self._rows]
        training = read_spoken_texts(str(words / "train.jsonl"))
        chosen = training[:: max(1, len(training) // _MEAN_OF)]
        self._mean = np.concatenate([self._log_mel(row) for row in chosen]).mean(axis=0, keepdims=True)

    def of_run(self, directory: Path) -> dict[str, float]:
        """Return the distances of a run: with true frames before each, and of whole spectra.

        Args:
          directory: Folder of the run.
        """
        lines = [line for line in read_jsonl(directory / "metrics.jsonl") if "refined_l1" in line]
        held_out = [line for line in lines if line["split"].startswith("validation/")]
        model = from_pretrained(str(directory))
        spectra, lengths = model.generate_speech(
            [row.text for row in self._rows],
            speaker_embeddings=np.array([row.cells["voice"] for row in self._rows], np.float32),
            return_output_lengths=True,
        )
        generated = [spectrum[:length] for spectrum, length in zip(np.asarray(spectra), lengths, strict=True)]
        shares = [len(each) / len(target) for each, target in zip(generated, self._targets, strict=True)]
        return {
            "teacher_forced": held_out[-1]["refined_l1"],
            "generated": self._distance(generated),
            "length_ratio": statistics.median(shares),
        }

    def baselines(self) -> dict[str, float]:
        """Return the distances of the mean frame, and of another word by the same voice."""
        frames = np.concatenate(self._targets)
        num_voices = len(self._rows[0].cells["voice"])
        others = [*self._targets[num_voices:], *self._targets[:num_voices]]
        return {
            "mean_frame_teacher_forced": float(np.abs(frames - self._mean).mean()),
            "mean_frame_generated": self._distance([self._mean] * len(self._targets)),
            "another_word_generated": self._distance(others),
        }

    def _distance(self, spectra: Sequence[np.ndarray]) -> float:
        pairs = zip(spectra, self._targets, strict=True)
        return statistics.fmean(warped_distance(spectrum, target) for spectrum, target in pairs)

    def _log_mel(self, row: SpokenText) -> np.ndarray:
        return self._features(row.audio)["log_mel"]


def warped_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean absolute difference along the best alignment (dynamic time warping, Sakoe and Chiba 1978).

    Args:
      first: Spectrum [T, E].
      second: Spectrum [S, E].
    """
    costs = np.abs(first[:, None] - second[None]).mean(axis=-1)
    # Sum of costs and number of pairs of the best path to each pair.
    best = np.full((len(first) + 1, len(second) + 1, 2), np.inf)
    best[0, 0] = 0
    for row in range(len(first)):
        for column in range(len(second)):
            before = min(
                (best[row, column], best[row, column + 1], best[row + 1, column]), key=lambda path: path[0]
            )
            best[row + 1, column + 1] = np.add(before, (costs[row, column], 1))
    total, length = best[-1, -1]
    return float(total / length)


def _mean(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": statistics.fmean(values), "seeds": list(values)}


if __name__ == "__main__":
    main()
