"""Training reads tokens that were made before, needs nothing of what made them, and computes the same."""

import dataclasses
import os
import subprocess
import sys

import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pretraining import PretrainingTask
from tests.integration import tiny_run
from tests.integration.programs import losses

PROGRAM = """
import sys
for name in ("tensorflow", "tensorflow_text", "seqio", "tensorflow_datasets", "gin"):
    sys.modules[name] = None  # importing it is an error
from pathlib import Path
from t5x_like.io.end_process import end_process
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from tests.integration import tiny_run

home = Path(sys.argv[1])
if __name__ == "__main__":
    train = LoaderConfig(
        mixture="counting_and_capitals", batch_size=8, inputs_length=64, targets_length=32, seed=3,
        cache=str(home / "cache"), num_workers=2,
    )
    tiny_run.run(home, model_dir=str(home / "cached"), total_steps=3, train=train)
    end_process()
"""


@pytest.mark.slow
def test_losses_are_those_of_tokenising_at_the_start_without_tensorflow_or_seqio(directory):
    home = directory
    tiny_run.run(home, model_dir=str(home / "held"), total_steps=3)
    for task in tiny_run.experiment(home, model_dir="unused", total_steps=1).data.tasks:
        if not isinstance(task, Mixture):
            cache_split(task, "train", str(home / "cache"))
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(home)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert losses(home / "cached") == losses(home / "held")
    # Each goes on with the tokens of the other.
    in_memory = tiny_run.experiment(home, model_dir="unused", total_steps=1).data.train
    cached = dataclasses.replace(in_memory, cache=str(home / "cache"))
    for name, train in (("held", cached), ("cached", in_memory)):
        tiny_run.run(home, model_dir=str(home / name), total_steps=5, train=train)
    assert losses(home / "cached") == losses(home / "held")
    assert max(losses(home / "held")) == 5


def test_a_cache_of_other_data_is_refused(tmp_path):
    home, corpus = tmp_path, tmp_path / "corpus.txt"
    tiny_run.write_data(home)
    task = PretrainingTask(name="counting_in_a_cache", vocabulary="bytes", files={"train": str(corpus)})
    registry.register([task])
    cache_split(task, "train", str(home / "cache"))
    train = LoaderConfig(
        mixture=task.name, batch_size=2, inputs_length=64, targets_length=32, cache=str(home / "cache")
    )
    assert next(build_loader(train)).loss_weights.sum() > 0
    corpus.write_text(corpus.read_text() + "and so on\n")
    with pytest.raises(
        ValueError, match=r"(?s)file 0, bytes: the cache has 11760, you ask for 11770.*t5x-like cache"
    ):
        build_loader(train)
    lines = corpus.read_text().replace("and so on\n", "")
    corpus.write_text(lines.replace("seven", "seveN"))  # as many bytes
    with pytest.raises(
        ValueError, match=r"(?s)file 0, crc32c: the cache has .*, you ask for .*t5x-like cache"
    ):
        build_loader(train)
    assert next(build_loader(train, 1, 2)).loss_weights.sum() > 0, "process 0 reads the files for all"
    corpus.unlink()  # as on a machine that has the cache only
    assert next(build_loader(train)).loss_weights.sum() > 0
