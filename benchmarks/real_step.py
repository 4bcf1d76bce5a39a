"""Train by the real command ``t5x-like train`` on shipped text, next to the synthetic step of the same recipe.

    python -m benchmarks.real_step --runs runs/real_step --output benchmarks/results/real_step_cpu.json
    python -m benchmarks.real_step --runs runs/real_step --recipes bert --steps 80

Tiny recipes on a CPU, sizes of papers on a GPU or TPU with ``gin/hardware/gpu.gin``. Needs an installation of t5x-like
without extras: no TensorFlow and no seqio. A run evaluates after each quarter of its steps, and saves as often, or
twice where checkpoints have gigabytes. Its figures are those of its ``metrics.jsonl``. Then ``benchmarks.step_time``
times the step of the same recipe on one batch of full rows. Each part is a process of its own, and run directories are
deleted. The output is kept after each recipe, and keeps recipes that an earlier call has measured.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.commands import command
from benchmarks.machine import about
from t5x_like.io.files import read_json, read_jsonl, write_json

_TEXT = {
    "TRAIN_FILES": "data/king_james/train.txt",
    "VALIDATION_FILES": "data/king_james/validation.txt",
    "VOCABULARY": "data/vocabulary/spiece.model",
}
_T5_BASE, _GPU = "gin/recipes/t5_1_1/pretrain_base.gin", "gin/hardware/gpu.gin"


class Recipe(NamedTuple):
    """A recipe and its shapes.

    Attributes:
      files: Gin files, of which later ones overrule.
      macros: Values that are given to the command.
      steps: Steps to train unless a flag says otherwise.
      num_saves: Checkpoints of a run, of which the last is not measured.
    """

    files: tuple[str, ...]
    macros: Mapping[str, Any]
    steps: int
    num_saves: int = 4

    def flags(self, **macros: Any) -> list[str]:
        """Return the arguments of a command, with more macros."""
        files = (f"--gin_file={file}" for file in self.files)
        return [*files, *(f"--set={name}={value}" for name, value in {**self.macros, **macros}.items())]


_KING_JAMES = "gin/recipes/objectives/king_james.gin"
TINY = {
    "t5": Recipe(("gin/recipes/quickstart/pretrain.gin",), {}, 240),
    "bert": Recipe(("gin/recipes/comparisons/toy_encoder.gin",), {}, 240),
    "llama": Recipe(
        (_KING_JAMES,),
        {"OBJECTIVE_NAME": "full_lm", "BATCH_SIZE": 32, "INPUTS_LENGTH": 128, "TARGETS_LENGTH": 128},
        240,
    ),
    "electra": Recipe((_KING_JAMES,), {"OBJECTIVE_NAME": "electra_pretraining"}, 480),
}
# Sizes of the papers but for the vocabulary: the shipped one has 4,100 ids.
LARGE = {
    "t5_1_1_base": Recipe((_T5_BASE, _GPU), _TEXT, 80, 2),
    "t5_1_1_large": Recipe(
        (_T5_BASE, "gin/models/t5_1_1/large.gin", _GPU), {**_TEXT, "BATCH_SIZE": 64}, 80, 2
    ),
    "bert_large": Recipe(
        ("gin/recipes/bert/pretrain_large.gin", _GPU),
        {**_TEXT, "BATCH_SIZE": 64, "INPUTS_LENGTH": 512, "TARGETS_LENGTH": 512},
        80,
        2,
    ),
    "llama_1b": Recipe(
        (
            "gin/models/llama.gin",
            _GPU,
            "gin/objectives/causal_lm.gin",
            "gin/runs/pretrain_adamw_cosine.gin",
            "gin/runs/own_corpus.gin",
        ),
        {
            **_TEXT,
            "BATCH_SIZE": 16,
            "INPUTS_LENGTH": 2048,
            "TARGETS_LENGTH": 2048,
            "LEARNING_RATE": 3e-4,
            "LlamaConfig.model_dim": 2048,
            "LlamaConfig.mlp_dim": 5632,
            "LlamaConfig.num_heads": 32,
            "LlamaConfig.num_kv_heads": 4,
            "LlamaConfig.num_layers": 22,
        },
        80,
        2,
    ),
}
_STEPS_BETWEEN_LINES = 10


def main() -> None:
    """Measure each recipe, and keep the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument(
        "--recipes", nargs="+", choices=[*TINY, *LARGE], help="those for this device if left out"
    )
    parser.add_argument("--steps", type=int, help="steps of a run, a multiple of 40 from 80 on")
    parser.add_argument("--output", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.steps is not None and (arguments.steps < 80 or arguments.steps % 40):
        parser.error(
            f"--steps {arguments.steps}: give a multiple of 40 from 80 on, so that some log lines have no pause"
        )
    recipes = TINY | LARGE
    names = arguments.recipes or (TINY if _backend() == "cpu" else LARGE)
    output = arguments.output
    earlier = read_json(output)["recipes"] if output is not None and output.exists() else {}
    result: dict[str, Any] = {**about(), "recipes": earlier}
    for name in names:
        recipe = recipes[name]
        steps = arguments.steps or recipe.steps
        measured = measure(recipe, steps, arguments.runs / name)
        print(name, json.dumps(measured, indent=2), flush=True)
        result["recipes"][name] = measured
        if output is not None:
            write_json(output, result)


def measure(recipe: Recipe, steps: int, home: Path) -> dict[str, Any]:
    """Train a recipe by the command, time its synthetic step, and compare both.

    Args:
      recipe: The recipe.
      steps: Steps to train, a multiple of 40 from 80 on.
      home: Run directory, which is deleted before and after.
    """
    shutil.rmtree(home, ignore_errors=True)
    intervals = {
        "TRAIN_STEPS": steps,
        "LOG_EVERY_STEPS": _STEPS_BETWEEN_LINES,
        "EVALUATE_EVERY_STEPS": steps // 4,
        "SAVE_EVERY_STEPS": steps // recipe.num_saves,
        "WARMUP_STEPS": steps // 10,
    }
    loads = {"real": round(os.getloadavg()[0], 2)}
    done = run_command(command("train", *recipe.flags(MODEL_DIR=home, **intervals)))
    real = {
        "process_peak_gib": done.peak_gib,
        "seconds_to_first_step": done.seconds_to_first_step,
        **run_figures(list(read_jsonl(home / "metrics.jsonl")), done.processor_seconds),
    }
    choices = {row["setting"]: row["value"] for row in read_json(home / "choices.json")}
    shutil.rmtree(home)
    loads["synthetic"] = round(os.getloadavg()[0], 2)
    file = home.with_suffix(".json")
    flags = [
        *recipe.flags(MODEL_DIR="unused", TRAIN_STEPS=steps),
        f"--steps={steps // 2}",
        f"--output={file}",
    ]
    run_command([sys.executable, "-m", "benchmarks.step_time", *flags])
    synthetic = read_json(file)
    file.unlink()
    return {
        "files": list(recipe.files),
        "macros": {**recipe.macros, **intervals},
        "load_average": loads,
        "choices": choices,
        "real": real,
        "synthetic": synthetic,
        **comparison(real, synthetic),
    }


class CommandResult(NamedTuple):
    """What is known of a command from outside.

    Attributes:
      peak_gib: Peak memory of its process.
      seconds_to_first_step: Seconds until it said that its first step was compiled; None if it didn't.
      processor_seconds: Seconds of all threads until it printed the line of a training step, by step.
    """

    peak_gib: float
    seconds_to_first_step: float | None
    processor_seconds: dict[int, float]


def run_command(arguments: Sequence[str]) -> CommandResult:
    """Run a command that must succeed.

    Raises:
      SystemExit: The command failed.
    """
    began, first_step, printed = time.monotonic(), None, []
    processor_seconds: dict[int, float] = {}
    process = subprocess.Popen(arguments, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            printed.append(line)
            if line.startswith("compiled in "):
                first_step = time.monotonic() - began
            elif step := re.match(r"step (\d+)/\d+  train ", line):
                processor_seconds[int(step[1])] = _processor_seconds(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}: {''.join(printed)[-3000:]}")
    return CommandResult(usage.ru_maxrss / 2**20, first_step, processor_seconds)


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process that has not been waited for; for Linux."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user mode, and in the kernel


def run_figures(lines: Sequence[Mapping[str, Any]], processor_seconds: Mapping[int, float]) -> dict[str, Any]:
    """Return the figures of a run from the lines of its ``metrics.jsonl``; the first step, which compiles, is left out.

    Args:
      lines: Lines from the first step on, of which the last is about the last step.
      processor_seconds: Processor time of the run's process until each line of training, by step.
    """
    train = [line for line in lines if line["split"] == "train"]
    ends = [0, *(line["step"] for line in train)]
    steps = [
        end - start - ("compile_seconds" in line)
        for (start, end), line in zip(itertools.pairwise(ends), train, strict=True)
    ]
    seconds = [count / line["steps_per_second"] for count, line in zip(steps, train, strict=True)]
    tokens = sum(line["tokens_per_second"] * each for line, each in zip(train, seconds, strict=True))
    waited = sum(line["data_wait_fraction"] * each for line, each in zip(train, seconds, strict=True))
    pauses = {
        activity: [line[key] for line in train if (key := f"pause_seconds/{activity}") in line]
        for activity in ("evaluating", "saving")
    }
    num_paused = sum(map(sum, pauses.values()))
    # Of lines without a pause: evaluation, and what is saved in the background, take processor time, too.
    spent = [
        (processor_seconds[line["step"]] - processor_seconds[earlier["step"]]) / count
        for earlier, line, count in zip(train, train[1:], steps[1:], strict=False)
        if not any(key.startswith("pause_seconds/") for key in line)
    ]
    rates = [line["steps_per_second"] for line in train]
    peak = {name: train[-1][name] for name in ("device_peak_gib",) if name in train[-1]}
    return {
        "steps": sum(steps),
        "compile_seconds": train[0]["compile_seconds"],
        # The first evaluation compiles its program, and the first save imports Orbax.
        "first_evaluation_seconds": pauses["evaluating"][0],
        "evaluation_seconds": statistics.median(pauses["evaluating"][1:]),
        "first_save_seconds": pauses["saving"][0],
        "save_seconds": statistics.median(pauses["saving"][1:] or pauses["saving"]),
        "steps_per_second": sum(steps) / sum(seconds),
        "steps_per_second_of_lines": {
            "slowest": min(rates),
            "median": statistics.median(rates),
            "fastest": max(rates),
        },
        "processor_seconds_per_step": statistics.median(spent),
        "tokens_per_second": tokens / sum(seconds),
        "tokens_per_second_with_pauses": tokens / (sum(seconds) + num_paused),
        "padding": 1 - train[-1]["row_share_filled"],
        "data_wait_fraction": waited / sum(seconds),
        **peak,
    }


def comparison(real: Mapping[str, Any], synthetic: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ratios of a run's rates to those of the synthetic step, and the run's model FLOPs utilization.

    Steps are compared by medians: their rates, and the processor time that each takes, which says more where other work
    shares a CPU. Tokens of the run are without padding.

    Args:
      real: Result of ``run_figures``.
      synthetic: Result of ``benchmarks.step_time``.
    """
    ratio = real["steps_per_second_of_lines"]["median"] * synthetic["seconds_per_step"]["median"]
    processor_seconds = [each["processor_seconds_per_step"] for each in (real, synthetic)]
    utilization = synthetic["model_flops_utilization"]
    return {
        "synthetic_steps_per_second": 1 / synthetic["seconds_per_step"]["median"],
        "ratio_of_steps_per_second": ratio,
        "ratio_of_processor_seconds": processor_seconds[0] / processor_seconds[1],
        "ratio_of_tokens_with_pauses": real["tokens_per_second_with_pauses"] / synthetic["tokens_per_second"],
        "model_flops_utilization": None if utilization is None else utilization * ratio,
    }


def _backend() -> str:
    """Return JAX's backend, from a process of its own: this one must not hold the accelerator."""
    script = "import jax; print(jax.default_backend())"
    return subprocess.run(
        [sys.executable, "-c", script], text=True, check=True, stdout=subprocess.PIPE
    ).stdout.strip()


if __name__ == "__main__":
    main()
