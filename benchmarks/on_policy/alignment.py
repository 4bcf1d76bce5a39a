"""Figures of InstructGPT's three steps, and of a policy that follows its reward model too far."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.on_policy.conversations import SETTINGS, Conversations
from benchmarks.on_policy.judgment import Scores, correlation, win_rate
from benchmarks.on_policy.runs import lines_of, steps_of

# A coefficient so small costs nothing, but the log has the divergence, which a run without a reference lacks.
OVER_OPTIMIZED: dict[str, Any] = {"kl_coefficient": 1e-6, "ppo_rate": 3e-3, "ppo_steps": 480}
_NUM_POINTS = 12


def measure_steps(folder: Path, seed: int, **changes: Any) -> dict[str, Any]:
    """Run the three steps, and return the rule's and the reward model's scores of held-out answers around PPO.

    Args:
      folder: Folder of the runs.
      seed: Seed of all runs.
      **changes: Changes of ``conversations.SETTINGS``.
    """
    begin = time.process_time()
    conversations = Conversations(folder, seed, SETTINGS | changes)
    conversations.train_supervised()
    reward_model = conversations.train_reward_model()
    reward = conversations.model_reward.open()
    before = conversations.scores(conversations.supervised, reward)
    home = conversations.train_policy("ppo")
    after = conversations.scores(home, reward)
    gains = {"rule": after.rule - before.rule, "characters": after.lengths - before.lengths}
    return {
        "seed": seed,
        "reward_model": {
            "held_out_accuracy": reward_model["accuracy"],
            "length_alone": reward_model["length_accuracy"],
        },
        "before": before.summary,
        "after": after.summary,
        "win_rate_by_rule": win_rate(after.rule, before.rule),
        "win_rate_of_longer": win_rate(after.lengths, before.lengths),
        "correlation_of_gains_in_length_and_rule": correlation(gains["characters"], gains["rule"]),
        "kl": round(lines_of(home, "train")[-1]["kl"], 2),
        "examples": examples(conversations, before, after),
        "settings": dict(conversations.settings),
        "cpu_minutes": round((time.process_time() - begin) / 60, 1),
    }


def measure_over_optimization(folder: Path, seed: int, **changes: Any) -> dict[str, Any]:
    """Train a policy without a penalty for long, and return the curves of reward model, rule and divergence.

    Args:
      folder: Folder with the runs of ``measure_steps``, which are made if they are missing.
      seed: Seed of all runs.
      **changes: Changes of ``OVER_OPTIMIZED``, or of ``conversations.SETTINGS``.
    """
    begin = time.process_time()
    own = OVER_OPTIMIZED | {name: value for name, value in changes.items() if name in OVER_OPTIMIZED}
    rest = {name: value for name, value in changes.items() if name not in OVER_OPTIMIZED}
    conversations = Conversations(folder, seed, SETTINGS | rest)
    conversations.train_supervised()
    conversations.train_reward_model()
    reward = conversations.model_reward.open()
    home = conversations.train_policy(
        "over_optimized", save_every_steps=own["ppo_steps"] // _NUM_POINTS, **own
    )
    logged = {line["step"]: line for line in lines_of(home, "train")}
    curve: list[dict[str, Any]] = []
    for step in [0, *steps_of(home)]:
        scores = conversations.scores(conversations.supervised if not step else home, reward, step or None)
        kl = round(logged[step]["kl"], 2) if step else 0.0
        curve.append({"step": step, **scores.summary, "kl": kl})
    rules = [point["rule"] for point in curve]
    best = int(np.argmax(rules))
    return {
        "seed": seed,
        "best_rule": {"step": curve[best]["step"], "rule": rules[best]},
        "last_rule": rules[-1],
        "curve": curve,
        "settings": dict(conversations.settings) | own,
        "cpu_minutes": round((time.process_time() - begin) / 60, 1),
    }


def examples(conversations: Conversations, before: Scores, after: Scores) -> list[dict[str, str]]:
    """Return answers to the first held-out prompts before and after.

    Args:
      conversations: Prompts.
      before: Scores of the answers before.
      after: Scores of the answers after.
    """
    num = len(before.texts) // len(conversations.answers.prompts)
    return [
        {"prompt": prompt, "before": before.texts[index * num], "after": after.texts[index * num]}
        for index, prompt in enumerate(conversations.answers.prompts[:4])
    ]
