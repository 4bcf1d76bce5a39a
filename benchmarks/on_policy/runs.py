"""Runs of tiny models, and the answers that they write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flax import nnx

from t5x_like.config_class import config_class
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.io.files import read_jsonl
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.methods.method import TrainingMethod
from t5x_like.training.rollouts.answer_rows import prompts_of
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.start.starts import start_from
from t5x_like.training.train import train
from t5x_like.training.training_data import TrainingData

Kind = Literal["gpt2", "t5"]
_SIZES: dict[str, Any] = {"vocab_size": 384, "model_dim": 64, "mlp_dim": 256, "num_heads": 4}
_WARMUP_STEPS = 10


def fresh_model(kind: Kind, max_length: int) -> ModelConfig:
    """Return a decoder or an encoder-decoder of bytes, of two layers and width 64.

    Args:
      kind: Name of the model.
      max_length: Positions of the decoder.
    """
    if kind == "gpt2":
        return GPT2Config(**_SIZES, num_layers=2, max_position_embeddings=max_length)
    return T5Config(**_SIZES, head_dim=16, num_encoder_layers=2, num_decoder_layers=2)


@config_class
class StopAt(Hook):
    """Stops a run as soon as a held-out number reaches a threshold.

    Attributes:
      metric: Logged number, as ``validation/<task>/<metric>``.
      threshold: Number at which the run stops.
    """

    metric: str
    threshold: float

    def after_step(self, run: RunProgress) -> None:
        """Compare the newest evaluation."""
        split, _, name = self.metric.rpartition("/")
        line = run.last.get(split, {})
        if line.get("step") == run.step and line[name] >= self.threshold:
            run.stop(f"{self.metric} is {line[name]:g}")


def loader_of(model: ModelConfig, task: TextTask, inputs_length: int, answer_length: int) -> LoaderConfig:
    """Return a loader of single rows, in the layout of a model.

    Args:
      model: Configuration of the model.
      task: Task of the rows.
      inputs_length: Tokens of a prompt.
      answer_length: Tokens of an answer.
    """
    lengths: dict[str, Any] = {
        "mixture": task.name,
        "batch_size": 64,
        "inputs_length": inputs_length,
        "pack": False,
    }
    if isinstance(model, GPT2Config):
        return LoaderConfig(
            **lengths,
            layout="decoder",
            prefix_attention="causal",
            targets_length=inputs_length + answer_length,
        )
    return LoaderConfig(**lengths, layout="encoder_decoder", targets_length=answer_length)


def run(
    home: Path,
    model: ModelConfig,
    train_on: LoaderConfig,
    tasks: Sequence[TextTask],
    *,
    method: TrainingMethod,
    steps: int,
    learning_rate: float,
    seed: int,
    start: Path | None = None,
    held_out: Sequence[LoaderConfig] = (),
    evaluations: Sequence[HeadEvaluation] = (),
    every_steps: int = 50,
    save_every_steps: int = 0,
    hooks: Sequence[Hook] = (),
) -> Path:
    """Train a run, or continue it, and return its folder.

    Args:
      home: Folder of the run.
      model: Configuration of the model.
      train_on: Batches of training.
      tasks: Tasks of all mixtures.
      method: Method of the run.
      steps: Number of the last step.
      learning_rate: Highest rate, after which it falls to zero.
      seed: Seed of weights, order and draws.
      start: Run that this one starts from; fresh weights without one.
      held_out: Batches whose loss is measured.
      evaluations: Held-out rows that a head predicts.
      every_steps: Interval of evaluations.
      save_every_steps: Interval of saved steps; 0 saves the last alone.
      hooks: Hooks of the run.
    """
    schedule = LinearWarmupLinearDecay(peak=learning_rate, warmup_steps=_WARMUP_STEPS, total_steps=steps)
    intervals = Intervals(
        log_every_steps=10 if save_every_steps == 0 else min(10, save_every_steps),
        evaluate_every_steps=every_steps,
        save_every_steps=save_every_steps,
        keep_checkpoints=100,
    )
    train(
        Experiment(
            model=model,
            data=TrainingData(
                train=train_on,
                tasks=tuple(tasks),
                validations=tuple(held_out),
                evaluations=tuple(evaluations),
            ),
            run=RunConfig(
                model_dir=str(home), total_steps=steps, intervals=intervals, hooks=tuple(hooks), seed=seed
            ),
            start=start_from(None if start is None else str(start)),
            method=method,
            optimizer=AdamW(learning_rate=schedule, weight_decay_rate=0.0),
        )
    )
    return home


def lines_of(home: Path, split: str) -> list[dict[str, Any]]:
    """Return what a run has logged of a split."""
    return [line for line in read_jsonl(home / "metrics.jsonl") if line["split"] == split]


def steps_of(home: Path) -> list[int]:
    """Return the saved steps of a run."""
    return sorted(int(folder.name) for folder in home.iterdir() if folder.name.isdigit())


class Answers:
    """Answers of runs to the prompts of a task, which they read as in training.

    Args:
      loader: Loader of the prompts, such as ``loader_of`` of a held-out split.
      task: Task of the prompts.
      num_prompts: Number of the prompts; all rows of the split if not given.
    """

    def __init__(self, loader: LoaderConfig, task: TextTask, num_prompts: int) -> None:
        self._mesh = MeshConfig().build()
        self._is_decoder = loader.layout == "decoder"
        self._inputs_length, self._task = loader.inputs_length + 1, task
        whole = replace(loader, batch_size=num_prompts, shuffle=False, repeat=False)
        data = TrainingData(train=whole, tasks=(task,))
        batch = next(iter(data.open_loader(data.tasks_of(task.name), self._mesh)))
        prompts = prompts_of(batch)
        self._ids = prompts.ids
        self._length = loader.targets_length - (loader.inputs_length if self._is_decoder else 0)
        end = task.tokenizer.special.eos
        assert end is not None, "the vocabulary has an end of sequence"
        self._end = end
        self.prompts, self.targets = self._texts(prompts.ids), self._texts(prompts.targets)
        self._generators: dict[nnx.GraphDef, Generator] = {}

    def __call__(
        self,
        home: Path,
        *,
        step: int | None = None,
        num_answers: int = 1,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[list[str]]:
        """Return answers to each prompt.

        Args:
          home: Folder of the run.
          step: Step of the run; its newest if not given.
          num_answers: Answers to each prompt.
          temperature: Temperature of sampling; 0 for greedy decoding.
          seed: Seed of sampling.
        """
        checkpoint = open_checkpoint(home, mesh=self._mesh, step=step)
        graphdef = checkpoint.graphdef  # a policy of PPO has a value head besides
        if graphdef not in self._generators:
            self._generators[graphdef] = Generator(
                graphdef, self._mesh, is_decoder=self._is_decoder, start_id=SHIFTED_IN
            )
        draws: list[dict[int, list[int]]] = [
            dict(
                self._generators[graphdef](
                    checkpoint.params,
                    self._ids,
                    GenerationConfig(
                        max_new_tokens=self._length, temperature=temperature, seed=seed * 1000 + draw
                    ),
                    end_ids=(self._end,),
                    batch_size=len(self._ids),
                    limit=self._inputs_length,
                )
            )
            for draw in range(num_answers)
        ]
        return [self._texts([draw[index] for draw in draws]) for index in range(len(self._ids))]

    def _texts(self, rows: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        special = (SHIFTED_IN, self._end)
        return [
            self._task.tokenizer.decode([int(each) for each in row if int(each) not in special])
            for row in rows
        ]
