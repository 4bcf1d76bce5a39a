"""Names of the registry as values: the tasks of a mixture, and what they have in common."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads.head_answers import UNSCALED, Head
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.mixtures import Mixture, Proportional
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.task_set import NO_LABELS, TaskSet
from t5x_like.text.tasks.text_task import TextTask


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., TextTask]:
    """Returns a task of rows with classes "no" and "yes"."""

    def make(name: str, num_rows: int = 3, **changes: Any) -> TextTask:
        file = tmp_path / f"{name}.tsv"
        file.write_text("text\tlabel\n" + "one\tno\n" * num_rows)
        settings = {
            "vocabulary": "bytes",
            "files": {"train": str(file)},
            "input_template": "{text}",
            "target_template": "{label}",
            "labels": ("no", "yes"),
        }
        return TextTask(name=name, **settings | changes)

    return make


def test_a_task_is_a_set_of_one(make_task: Callable[..., TextTask]) -> None:
    task = make_task("alone")
    tasks = registry.resolve("alone", [task])
    assert tasks.only_task() is task
    assert (tasks.names, tasks.rates(), tasks.objectives) == (["alone"], [1.0], {})


def test_a_mixture_has_its_tasks_in_order_and_rates_by_their_rows(make_task: Callable[..., TextTask]) -> None:
    large, small = make_task("large_of_two", 9), make_task("small_of_two", 2)
    mixture = Mixture(name="two_sizes", tasks=("large_of_two", "small_of_two"), rates=Proportional(maximum=8))
    tasks = registry.resolve("two_sizes", [mixture, small, large])
    assert list(tasks.tasks.values()) == [large, small]
    assert tasks.rates() == [8.0, 2.0]
    assert tasks.rates({"large_of_two": 1, "small_of_two": 3}.__getitem__) == [1.0, 3.0]
    with pytest.raises(ValueError, match="'two_sizes' is a mixture of large_of_two, small_of_two; name one"):
        tasks.only_task()


def test_a_set_is_a_value_that_later_definitions_leave_alone(make_task: Callable[..., TextTask]) -> None:
    first = registry.resolve("kept_value", [make_task("kept_value")])
    other = replace(first, tasks={"kept_value": make_task("kept_value", on_bad_row="skip")})
    assert other != first
    assert registry.resolve("kept_value") == first


def test_tasks_with_a_split_keep_their_rates(make_task: Callable[..., TextTask]) -> None:
    whole, held_out = make_task("whole_data"), make_task("held_out_data")
    held_out = replace(held_out, files={"validation": held_out.files["train"]})
    mixture = Mixture(name="two_splits", rates={"whole_data": 3.0, "held_out_data": 1.0})
    tasks = registry.resolve("two_splits", [whole, held_out, mixture])
    assert tasks.with_split("train").names == ["whole_data"]
    assert tasks.with_split("train").rates() == [3.0]
    with pytest.raises(ValueError, match="'two_splits' has no split 'test'; there are train, validation"):
        tasks.with_split("test")


def test_labels_are_those_of_the_head_and_only_for_loaders_that_read_heads(
    make_task: Callable[..., TextTask],
) -> None:
    tasks = registry.resolve("with_labels", [make_task("with_labels")])
    labels = tasks.labels
    assert labels.head == Head("sequence_classification", 2)
    assert (labels.class_names, labels.scale) == (("no", "yes"), UNSCALED)
    config = LoaderConfig(mixture="with_labels", batch_size=1, inputs_length=8, targets_length=8)
    assert config.labels(tasks) == NO_LABELS
    assert replace(config, layout="encoder").labels(tasks) == labels


def test_pretraining_tasks_have_objectives_and_no_labels(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    task = PretrainingTask(
        name="plain_text_set",
        vocabulary="bytes",
        files={"train": str(tmp_path / "text.txt")},
        objective=CausalLM(),
    )
    tasks = registry.resolve("plain_text_set", [task])
    assert tasks.is_pretraining
    assert tasks.objectives == {"plain_text_set": CausalLM()}
    assert tasks.labels == NO_LABELS


def test_rates_of_another_librarys_mixture_need_it(make_task: Callable[..., TextTask]) -> None:
    tasks = TaskSet(name="another_mixture", tasks={"with_rates": make_task("with_rates")})
    with pytest.raises(ValueError, match=r"this needs seqio; connect it first"):
        tasks.rates()
