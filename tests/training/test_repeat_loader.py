"""Batches that several steps read, and their position after any of them."""

import itertools

import numpy as np
import pytest

from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.repeat_loader import RepeatLoader


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> TaskSet:
    path = tmp_path_factory.mktemp("repeated") / "rows.tsv"
    path.write_text("a\tb\n" + "".join(f"{row}\t{row}\n" for row in range(10)))
    task = TextTask(
        name="repeated_rows",
        vocabulary="bytes",
        files={"train": str(path)},
        input_template="{a}",
        target_template="{b}",
    )
    return TaskSet(name=task.name, tasks={task.name: task})


def loader_of(tasks: TaskSet) -> RepeatLoader:
    config = LoaderConfig(
        mixture="repeated_rows", batch_size=2, inputs_length=4, targets_length=4, pack=False
    )
    return RepeatLoader(Loader(config, tasks), 3)


@pytest.mark.parametrize("num_done", range(8))
def test_each_batch_is_read_three_times_wherever_the_run_was_stopped(tasks: TaskSet, num_done: int) -> None:
    batches = [batch.target_tokens for batch in itertools.islice(loader_of(tasks), 12)]
    for start in range(0, 12, 3):
        np.testing.assert_array_equal(batches[start], batches[start + 2])
    assert not np.array_equal(batches[2], batches[3])
    stopped, continued = loader_of(tasks), loader_of(tasks)
    for _ in range(num_done):
        next(stopped)
    continued.restore(stopped.state())
    for batch, wanted in zip(continued, batches[num_done:], strict=False):
        np.testing.assert_array_equal(batch.target_tokens, wanted)
        if wanted is batches[-1]:
            break
    assert continued.epochs(30) == {}
