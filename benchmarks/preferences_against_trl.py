"""Compare GRPO and DPO with TRL's trainers: same weights, same rows, one run; seconds, tokens a second, memory.

    python -m venv ../trl && ../trl/bin/pip install torch trl
    python -m benchmarks.preferences_against_trl --trl ../trl/bin/python \
        --output benchmarks/results/preferences_against_trl_cpu.json

Ours is the command ``t5x-like train`` with the shipped recipes. Both keep a reference in memory, in float32, without
dropout. Each round runs both, one after the other, each in a process of its own. Seconds are medians of the steps after
the first ones, which compile. Memory is the highest of the process, with all that it imports.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.commands import command
from benchmarks.machine import about
from t5x_like.io.files import read_jsonl, write_json, write_jsonl
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.planning.chips import GIB
from t5x_like.pretrained.hugging_face_export import write_hugging_face

_NUM_WORDS, _NUM_ROWS = 8190, 512
_PROMPT, _ANSWER = 32, 32  # tokens
# Rows of DPO are pairs, which are two rows of the model.
_BATCH_SIZES = {"grpo": 64, "dpo": 16}
_SHARED: dict[str, Any] = {"num_answers": 8, "learning_rate": 1e-5, "beta": 0.04}
_COMPILING = 2  # steps


def main() -> None:
    """Measure both methods, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=_BATCH_SIZES, default=list(_BATCH_SIZES))
    parser.add_argument("--rounds", type=int, default=3, help="of both (3)")
    parser.add_argument("--steps", type=int, default=12, help="steps of each round (12)")
    parser.add_argument("--trl", metavar="PYTHON", required=True, help="a Python with torch and trl")
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**about(), "jax": jax.__version__, "methods": {}}
    with tempfile.TemporaryDirectory() as folder:
        result["parameters"] = write_model(Path(folder) / "model")
        write_rows(Path(folder))
        for method in arguments.methods:
            result["methods"][method] = compare(method, Path(folder), arguments)
            print(method, json.dumps(result["methods"][method], indent=2), flush=True)
            if arguments.output:
                write_json(arguments.output, result)


def write_model(directory: Path) -> int:
    """Write a GPT-2 of random weights with a tokenizer of words; return the number of its parameters.

    Args:
      directory: Directory in Hugging Face's format.
    """
    config = GPT2Config(
        vocab_size=_NUM_WORDS + 2, model_dim=256, mlp_dim=1024, num_heads=8, num_layers=6,
        max_position_embeddings=_PROMPT + 1 + _ANSWER, dropout_rate=0.0,
    )  # fmt: skip
    params = parameters.split(jax.jit(config.build)(jax.random.key(0)))[1]
    write_hugging_face(config, params, directory)
    end, unknown = "<end>", "<unknown>"
    words = [end, unknown, *(f"word{index}" for index in range(_NUM_WORDS))]
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=unknown)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([end, unknown])
    tokenizer.save(str(directory / "tokenizer.json"))
    marks = {"eos_token": end, "pad_token": end, "unk_token": unknown}
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **marks})
    fields = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    write_json(directory / "config.json", fields | {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0})
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def write_rows(folder: Path) -> None:
    """Write prompts and pairs of random words, which fill their rows.

    Args:
      folder: Folder of the files.
    """
    draw = random.Random(0)

    def words(number: int) -> str:
        return " ".join(f"word{draw.randrange(_NUM_WORDS)}" for _ in range(number))

    write_jsonl(folder / "grpo.jsonl", [{"prompt": words(_PROMPT)} for _ in range(_NUM_ROWS)])
    # TRL joins texts without a space; an answer ends with one more token.
    pairs = [
        {"prompt": words(_PROMPT) + " ", "chosen": words(_ANSWER - 1), "rejected": words(_ANSWER - 1)}
        for _ in range(_NUM_ROWS)
    ]
    write_jsonl(folder / "dpo.jsonl", pairs)


def compare(method: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one method, ours and TRL's.

    Args:
      method: "grpo" or "dpo".
      folder: Folder of model and rows.
      arguments: Rounds, steps, and the other Python.
    """
    batch_size = _BATCH_SIZES[method]
    own_runs, trl_runs = [], []
    for index in range(arguments.rounds):
        own_runs.append(run_ours(method, folder, folder / f"{method}_{index}", batch_size, arguments.steps))
        request = {
            **_SHARED,
            "method": method,
            "directory": str(folder / "model"),
            "rows": str(folder / f"{method}.jsonl"),
            "new_tokens": _ANSWER,
            "batch_size": batch_size,
            "steps": arguments.steps,
        }
        trl_runs.append(run_trl(arguments.trl, request))
    num_tokens = batch_size * (_PROMPT + _ANSWER) * (2 if method == "dpo" else 1)
    sides = {"t5x_like": own_runs, "trl": trl_runs}
    return {
        "batch_size": batch_size,
        "prompt_tokens": _PROMPT,
        "answer_tokens": _ANSWER,
        **({"num_answers": _SHARED["num_answers"]} if method == "grpo" else {}),
        "versions": trl_runs[0]["versions"],
        "mean_answer_length": {name: each[0]["length"] for name, each in sides.items()},
        "seconds_per_step": {name: _median(each, "seconds") for name, each in sides.items()},
        "seconds_per_step_of_each_run": {name: [run["seconds"] for run in each] for name, each in sides.items()},
        "tokens_per_second": {name: round(num_tokens / _median(each, "seconds")) for name, each in sides.items()},
        "peak_gib": {name: _median(each, "peak_gib") for name, each in sides.items()},
        "seconds_of_the_whole_process": {name: _median(each, "whole") for name, each in sides.items()},
        "speedup": round(
            statistics.median(trl["seconds"] / own["seconds"] for own, trl in zip(own_runs, trl_runs, strict=True)), 2
        ),
    }  # fmt: skip


def run_ours(method: str, folder: Path, home: Path, batch_size: int, steps: int) -> dict[str, Any]:
    """Train by the shipped recipe, and return seconds of a step, memory, and length of answers.

    Args:
      method: Name of the recipe.
      folder: Folder of model and rows.
      home: Folder of the run.
      batch_size: Answers or pairs of a step.
      steps: Number of steps.
    """
    macros: dict[str, Any] = {
        "INITIAL_CHECKPOINT": str(folder / "model"),
        "LAYOUT": "decoder",
        "PREFIX_ATTENTION": "causal",
        "INPUTS_LENGTH": _PROMPT + 1,  # with an end, which these rows lack
        "TARGETS_LENGTH": _PROMPT + 1 + _ANSWER,
        "TRAIN_FILES": str(folder / f"{method}.jsonl"),
        "TRAIN_STEPS": steps,
        "BATCH_SIZE": batch_size,
        "WARMUP_STEPS": 1,
        "LEARNING_RATE": _SHARED["learning_rate"],
        "BETA": _SHARED["beta"],
        "LOG_EVERY_STEPS": 1,
        "EVALUATE_EVERY_STEPS": steps,
        "SAVE_EVERY_STEPS": steps,
    }
    if method == "grpo":
        macros |= {"REWARD": f"{__spec__.name}.reward", "NUM_ANSWERS": _SHARED["num_answers"]}
    else:
        macros |= {"VALIDATION_FILES": str(folder / f"{method}.jsonl")}
    recipe = f"gin/recipes/preferences/{method}.gin"
    process = measured(command("train", f"--gin_file={recipe}", f"--model_dir={home}", **macros))
    lines = [line for line in read_jsonl(home / "metrics.jsonl") if line["split"] == "train"]
    return process | {
        "seconds": statistics.median(1 / line["steps_per_second"] for line in lines[_COMPILING:]),
        "length": round(lines[-1]["answer_length"], 1) if method == "grpo" else _ANSWER,
    }


def run_trl(python: str, request: dict[str, Any]) -> dict[str, Any]:
    """Train by TRL, and return seconds of a step, memory, and length of answers.

    Args:
      python: A Python with torch and trl.
      request: Argument of ``benchmarks.trl_training``.
    """
    process = measured([python, "-m", "benchmarks.trl_training", json.dumps(request)])
    answer = json.loads(process.pop("output").strip().splitlines()[-1])
    return process | {
        "seconds": statistics.median(answer["seconds"][_COMPILING:]),
        "length": round(answer["lengths"][-1], 1) if answer["lengths"] else _ANSWER,
        "versions": {name: answer[name] for name in ("torch", "transformers", "trl", "threads")},
    }


def measured(arguments: Sequence[str]) -> dict[str, Any]:
    """Run a command, and return its output, seconds, and the most memory that it took.

    Args:
      arguments: Command line.

    Raises:
      SystemExit: The command failed.
    """
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(arguments)}\n{errors.read().strip()[-3000:]}")
        output.seek(0)
        return {
            "output": output.read(),
            "whole": round(seconds, 1),
            "peak_gib": round(usage.ru_maxrss * 1024 / GIB, 3),
        }


def reward(prompts: Sequence[str], answers: Sequence[str], targets: Sequence[str]) -> list[float]:
    """Reward answers with the share of "e" among their characters."""
    del prompts, targets
    return [text.count("e") / max(len(text), 1) for text in answers]


def _median(rounds: Sequence[dict[str, Any]], name: str) -> float:
    return round(statistics.median(each[name] for each in rounds), 3)


if __name__ == "__main__":
    main()
