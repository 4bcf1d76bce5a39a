"""A real run small enough for tests: bytes, two layers, a corpus of counting words. Also a program, to be killed.

python tests/integration/tiny_run.py MODEL_DIR TRAIN_STEPS [data=2 fsdp=2 model=2] [evaluate]
"""

import sys
from pathlib import Path

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.end_process import end_process
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.processes import initialize_processes
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import Finished, train
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

MODEL = T5Config(
    vocab_size=384,  # 259 bytes and specials, 100 sentinels, up to a multiple of 128
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    head_dim=16,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dropout_rate=0.1,
)

CAPITALS = TaskEvaluation(
    mixture="capitals",
    inputs_length=32,
    targets_length=8,
    batch_size=16,
    generation=GenerationConfig(max_new_tokens=4),
)


def write_data(directory: Path) -> None:
    """A corpus of counting, and a table of words and their capitals."""
    lines = [" ".join(WORDS[(start + step) % 10] for step in range(12)) for start in range(200)]
    (directory / "corpus.txt").write_text("\n".join(lines) + "\n")
    rows = [f"{word} {index}\t{word.upper()[:1]}" for index in range(8) for word in WORDS]
    (directory / "capitals.tsv").write_text("word\tcapital\n" + "\n".join(rows) + "\n")


def experiment(directory: Path, *, model_dir: str, total_steps: int, **changes) -> Experiment:
    """A mixture of span corruption and capitals; every step is logged, every third one saved."""
    files = {"train": str(directory / "corpus.txt"), "validation": str(directory / "corpus.txt")}
    table = {"train": str(directory / "capitals.tsv"), "validation": str(directory / "capitals.tsv")}
    tasks = (
        PretrainingTask(name="counting", vocabulary="bytes", files=files),
        TextTask(
            name="capitals",
            vocabulary="bytes",
            files=table,
            input_template="capital: {word}",
            target_template="{capital}",
            labels=tuple(sorted({word.upper()[:1] for word in WORDS})),
            metrics=("accuracy",),
        ),
        Mixture(name="counting_and_capitals", tasks=("counting", "capitals")),
    )
    settings = {
        "model": MODEL,
        "train": LoaderConfig(
            mixture="counting_and_capitals", batch_size=8, inputs_length=64, targets_length=32, seed=3
        ),
        "tasks": tasks,
        "optimizer": Adafactor(learning_rate=Constant(value=0.02)),
        "intervals": Intervals(
            log_every_steps=1, evaluate_every_steps=0, save_every_steps=3, keep_checkpoints=2
        ),
        "mesh": MeshConfig(),
        "seed": 5,
    }
    return experiment_of(model_dir=model_dir, total_steps=total_steps, **(settings | changes))


def run(directory: Path, *, model_dir: str, total_steps: int, **changes) -> Finished:
    """Trains it."""
    return train(experiment(directory, model_dir=model_dir, total_steps=total_steps, **changes))


if __name__ == "__main__":
    initialize_processes()
    model_dir, steps, *options = sys.argv[1:]
    parts = [option.partition("=") for option in options]
    changes = {"mesh": MeshConfig(**{axis: int(size) for axis, _, size in parts if size})}
    if "evaluate" in options:
        changes["evaluations"] = (CAPITALS,)
    run(Path(model_dir).parent, model_dir=model_dir, total_steps=int(steps), **changes)
    end_process()
