"""InstructGPT's three steps on the shipped conversations, with a rule in place of people.

A tiny decoder is fine-tuned on demonstrations, of which half have another form than the one that was asked for. Answers
that it samples are ranked by a rule, a reward model learns the ranks, and PPO learns from the reward model. The rule
alone says what was reached on held-out prompts.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.on_policy.judgment import Scores, in_other_form, read_rows, rule
from benchmarks.on_policy.runs import Answers, lines_of, loader_of, run
from t5x_like.io.files import write_jsonl
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.preferences import PreferenceTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.methods.ppo import PPO
from t5x_like.training.methods.reward_model import RewardModel
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.rollouts.rewards import ModelReward, RewardFunction

VOCABULARY, VOCAB_SIZE = "data/vocabulary/spiece.model", 4096  # rows beyond the pieces' 4,000 are unused
_INPUTS_LENGTH, _ANSWER_LENGTH, _REWARD_LENGTH = 30, 8, 48
DECODER = GPT2Config(
    vocab_size=VOCAB_SIZE,
    model_dim=32,  # most of a step are the products with the vocabulary
    mlp_dim=128,
    num_heads=2,
    num_layers=2,
    max_position_embeddings=_INPUTS_LENGTH + _ANSWER_LENGTH + 2,
)
ENCODER = BertConfig(
    vocab_size=VOCAB_SIZE,
    model_dim=64,
    mlp_dim=256,
    num_heads=4,
    num_layers=1,
    max_position_embeddings=_REWARD_LENGTH,
    task="sequence_classification",
    num_labels=1,
    dropout_rate=0.1,
)
SETTINGS: dict[str, Any] = {
    "supervised_rows": 1500,
    "careless_share": 0.5,  # of the demonstrations, whose answer has the other form
    "supervised_steps": 500,
    "supervised_rate": 2e-3,
    "num_ranked": 6,  # answers sampled for each prompt; those with the same score are one
    "reward_steps": 600,
    "reward_rate": 1e-3,
    "ppo_steps": 400,
    "ppo_rate": 1e-3,
    "ppo_batch": 64,
    "ppo_minibatches": 4,
    "ppo_epochs": 2,
    "kl_coefficient": 0.05,
}


def text_task(folder: Path, name: str, rows: Mapping[str, Sequence[Mapping[str, str]]]) -> TextTask:
    """Write rows of splits, and return their task.

    Args:
      folder: Folder of the files.
      name: Name of the task.
      rows: Rows of ``prompt`` and ``answer`` by split.
    """
    files = {split: str(folder / f"{name}_{split}.jsonl") for split in rows}
    for split, part in rows.items():
        write_jsonl(files[split], part)
    return TextTask(
        name=name,
        vocabulary=VOCABULARY,
        num_sentinels=0,
        files=files,
        input_template="{prompt}",
        target_template="{answer}",
    )


class Conversations:
    """Rows, runs and figures of one seed.

    Args:
      folder: Folder of the runs.
      seed: Seed of all of them.
      settings: ``SETTINGS``, or changed ones.
    """

    def __init__(self, folder: Path, seed: int, settings: Mapping[str, Any]) -> None:
        self.folder, self.seed, self.settings = folder / f"seed_{seed}", seed, settings
        self.folder.mkdir(parents=True, exist_ok=True)
        rows, held_out = read_rows("train"), read_rows("validation")
        random.Random(seed).shuffle(rows)
        first, rest = rows[: settings["supervised_rows"]], rows[settings["supervised_rows"] :]
        num_careless = round(settings["careless_share"] * len(first))
        first = [*map(in_other_form, first[:num_careless]), *first[num_careless:]]
        # Tasks are registered by name, and the seeds of one process have rows of their own.
        self.demonstrations, self.questions = (
            text_task(self.folder, f"{name}_{seed}", {"train": train, "validation": held_out})
            for name, train in (("demonstrations", first), ("questions", rest))
        )
        self.supervised, self.reward = self.folder / "supervised", self.folder / "reward"
        self.answers = Answers(
            replace(self.loader(self.questions), split="validation"), self.questions, len(held_out)
        )
        self._train_answers = Answers(self.loader(self.questions), self.questions, len(rest))

    def loader(self, task: TextTask) -> LoaderConfig:
        """Return batches of a decoder.

        Args:
          task: Task of the rows.
        """
        return replace(loader_of(DECODER, task, _INPUTS_LENGTH, _ANSWER_LENGTH), seed=self.seed)

    def train_supervised(self) -> None:
        """Fine-tune the decoder on few conversations."""
        run(
            self.supervised,
            DECODER,
            self.loader(self.demonstrations),
            (self.demonstrations,),
            method=Supervised(),
            steps=self.settings["supervised_steps"],
            learning_rate=self.settings["supervised_rate"],
            seed=self.seed,
        )

    def train_reward_model(self) -> dict[str, float]:
        """Train a reward model on ranks of sampled answers, and return its held-out figures."""
        files = {split: str(self.folder / f"ranked_{split}.jsonl") for split in ("train", "validation")}
        for split, answers in (("train", self._train_answers), ("validation", self.answers)):
            written = answers(
                self.supervised, num_answers=self.settings["num_ranked"], temperature=1.0, seed=self.seed
            )
            write_jsonl(files[split], ranked(answers, written))
        task = PreferenceTask(
            name=f"ranked_answers_{self.seed}",
            vocabulary=VOCABULARY,
            num_sentinels=0,
            files=files,
            ranked="answers",
            num_answers=self.settings["num_ranked"],
        )
        loader = LoaderConfig(
            mixture=task.name,
            batch_size=16,
            inputs_length=_REWARD_LENGTH,
            targets_length=2,
            pack=False,
            layout="encoder",
            seed=self.seed,
        )
        run(
            self.reward,
            ENCODER,
            loader,
            (task,),
            method=RewardModel(),
            steps=self.settings["reward_steps"],
            learning_rate=self.settings["reward_rate"],
            seed=self.seed,
            held_out=(replace(loader, split="validation", shuffle=False, repeat=False),),
            every_steps=100,
        )
        line = lines_of(self.reward, f"validation/{task.name}")[-1]
        return {name: round(100 * line[name], 1) for name in ("accuracy", "length_accuracy")}

    def train_policy(self, name: str, *, save_every_steps: int = 0, **changes: Any) -> Path:
        """Train the decoder by PPO with the reward model, and return the run.

        Args:
          name: Name of the run.
          save_every_steps: Interval of saved steps.
          **changes: Changes of the settings.
        """
        settings = {**self.settings, **changes}
        coefficient = settings["kl_coefficient"]
        method = PPO(
            rewards=(self.model_reward,),
            num_epochs=settings["ppo_epochs"],
            num_minibatches=settings["ppo_minibatches"],
            kl_coefficient=coefficient,
            keep_samples_every_steps=0,
            reference=str(self.supervised) if coefficient else None,
        )
        return run(
            self.folder / name,
            DECODER,
            replace(self.loader(self.questions), batch_size=settings["ppo_batch"]),
            (self.questions,),
            method=method,
            steps=settings["ppo_steps"],
            learning_rate=settings["ppo_rate"],
            seed=self.seed,
            start=self.supervised,
            save_every_steps=save_every_steps,
        )

    @property
    def model_reward(self) -> ModelReward:
        """The reward model, opened by rollouts."""
        return ModelReward(checkpoint=str(self.reward), batch_size=128)

    def scores(self, home: Path, reward: RewardFunction, step: int | None = None) -> Scores:
        """Return what rule and reward model say of sampled answers to held-out prompts.

        Args:
          home: Run that writes the answers.
          reward: The opened reward model.
          step: Step of the run; its newest if not given.
        """
        written = self.answers(home, step=step, num_answers=2, temperature=1.0, seed=self.seed)
        return Scores(self.answers, written, reward)


def ranked(answers: Answers, written: Sequence[Sequence[str]]) -> Iterable[dict[str, Any]]:
    """Yield prompts with lists of answers from the best to the worst by the rule, one for each score.

    Args:
      answers: Prompts and targets.
      written: Answers to each prompt.
    """
    for prompt, target, texts in zip(answers.prompts, answers.targets, written, strict=True):
        by_score = {rule(prompt, text, target): text for text in texts if text.strip()}
        if len(by_score) > 1:
            yield {"prompt": prompt, "answers": [by_score[score] for score in sorted(by_score, reverse=True)]}
