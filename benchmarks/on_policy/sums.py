"""GRPO on sums, whose answers a rule checks: a supervised run that is stopped early continues by rewards alone."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.on_policy.runs import (
    Answers,
    Kind,
    StopAt,
    fresh_model,
    lines_of,
    loader_of,
    run,
    steps_of,
)
from t5x_like.io.files import write_jsonl
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.methods.grpo import GRPO
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.rollouts.rewards import FunctionReward

_TASK = "sums"
_METRIC = f"validation/{_TASK}/accuracy"
_NUM_HELD_OUT = 300
_INPUTS_LENGTH, _ANSWER_LENGTH = 6, 5  # "99+9" and an end; "108" and an end
# Share of held-out tokens after which supervised training stops.
_STOP_AT: dict[Kind, float] = {"gpt2": 0.78, "t5": 0.72}
SETTINGS: dict[str, Any] = {
    "supervised_steps": 3000,
    "supervised_rate": 1e-3,
    "steps": 1500,
    "learning_rate": 1e-3,
    "batch_size": 256,
    "num_answers": 8,
    "beta": 0.0,
}


def is_right(prompts: Sequence[str], answers: Sequence[str], targets: Sequence[str]) -> list[float]:
    """Reward answers that are equal to the target with 1."""
    del prompts
    return [float(answer == target) for answer, target in zip(answers, targets, strict=True)]


def write_sums(folder: Path) -> TextTask:
    """Write all sums of a number of two digits and one of one digit, a part of them held out; return their task.

    Args:
      folder: Folder of the files.
    """
    rows = [{"q": f"{a}+{b}", "a": str(a + b)} for a in range(10, 100) for b in range(10)]
    rows += [{"q": f"{b}+{a}", "a": str(a + b)} for a in range(10, 100) for b in range(10)]
    random.Random(0).shuffle(rows)
    files = {split: str(folder / f"{split}.jsonl") for split in ("train", "validation")}
    write_jsonl(files["train"], rows[_NUM_HELD_OUT:])
    write_jsonl(files["validation"], rows[:_NUM_HELD_OUT])
    return TextTask(name=_TASK, vocabulary="bytes", files=files, input_template="{q}", target_template="{a}")


def measure(folder: Path, kind: Kind, seed: int, **changes: Any) -> dict[str, Any]:
    """Train a model on sums for too short a time, then by GRPO; return what it gets right before and after.

    Args:
      folder: Folder of the runs.
      kind: Model.
      seed: Seed of both runs.
      **changes: Changes of ``SETTINGS``.
    """
    settings = {**SETTINGS, **changes}
    task = write_sums(folder)
    model = fresh_model(kind, _INPUTS_LENGTH + _ANSWER_LENGTH)
    loader = replace(loader_of(model, task, _INPUTS_LENGTH, _ANSWER_LENGTH), seed=seed)
    held_out = replace(loader, split="validation")
    shared: dict[str, Any] = {"tasks": (task,), "seed": seed}
    begin = time.process_time()
    start = run(
        folder / f"{kind}_{seed}_supervised",
        model,
        loader,
        method=Supervised(),
        steps=settings["supervised_steps"],
        learning_rate=settings["supervised_rate"],
        held_out=(replace(held_out, batch_size=_NUM_HELD_OUT, shuffle=False, repeat=False),),
        every_steps=25,
        hooks=(StopAt(metric=_METRIC, threshold=_STOP_AT[kind]),),
        **shared,
    )
    supervised_minutes = (time.process_time() - begin) / 60
    beta = settings["beta"]
    home = run(
        folder / f"{kind}_{seed}_grpo",
        model,
        replace(loader, batch_size=settings["batch_size"]),
        method=GRPO(
            rewards=(FunctionReward(function=f"{__name__}.{is_right.__name__}"),),
            num_answers=settings["num_answers"],
            beta=beta,
            reference=str(start) if beta else None,
        ),
        steps=settings["steps"],
        learning_rate=settings["learning_rate"],
        save_every_steps=100,
        start=start,
        **shared,
    )
    minutes = (time.process_time() - begin) / 60
    answers = Answers(held_out, task, _NUM_HELD_OUT)

    def accuracy(home: Path, step: int) -> float:
        written = [text for (text,) in answers(home, step=step)]
        return round(100 * sum(is_right(answers.prompts, written, answers.targets)) / _NUM_HELD_OUT, 1)

    (stopped,) = steps_of(start)
    curve = {step: accuracy(home, step) for step in steps_of(home)}
    rewards = [line["reward"] for line in lines_of(home, "train")]
    return {
        "model": kind,
        "seed": seed,
        "supervised_steps": stopped,
        "before": accuracy(start, stopped),
        "after": curve[settings["steps"]],
        "by_step": curve,
        "sampled_reward": [round(reward, 3) for reward in rewards],
        "settings": settings | {"stop_at_accuracy": _STOP_AT[kind]},
        "cpu_minutes": {
            "supervised": round(supervised_minutes, 1),
            "both": round(minutes, 1),
        },
    }
