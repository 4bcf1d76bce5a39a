"""Prompts of rows, and rows with other answers, in every layout of inputs and targets."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.rollouts.answer_rows import prompts_of, with_answers

LAYOUTS: list[dict[str, Any]] = [
    {"layout": "encoder_decoder", "targets_length": 8},
    {"layout": "decoder", "targets_length": 16},
    {"layout": "decoder", "prefix_attention": "causal", "targets_length": 16},
]


def rows_of(folder: Path, pairs: list[tuple[str, str]], layout: dict[str, Any]) -> Batch:
    path = folder / f"{len(pairs)}_{hash(tuple(pairs))}.jsonl"
    path.write_text("".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in pairs))
    task = TextTask(
        name="pairs_of_rows",
        vocabulary="bytes",
        files={"train": str(path)},
        input_template="{a}",
        target_template="{b}",
    )
    config = LoaderConfig(
        mixture=task.name,
        batch_size=len(pairs) + 1,
        inputs_length=8,
        pack=False,
        shuffle=False,
        repeat=False,
        **layout,
    )
    return next(Loader(config, TaskSet(name=task.name, tasks={task.name: task})))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_rows_with_other_answers_are_those_that_the_loader_makes_of_them(
    tmp_path: Path, layout: dict[str, Any]
) -> None:
    pairs = [("abc", "xy"), ("d", "longer")]
    batch = rows_of(tmp_path, pairs, layout)
    prompts = prompts_of(batch)
    assert [len(ids) for ids in prompts.ids] == [
        4 + (layout.get("prefix_attention") is None and layout["layout"] == "decoder"),
        2 + (layout.get("prefix_attention") is None and layout["layout"] == "decoder"),
        0,
    ]
    others = rows_of(tmp_path, [("abc", "new"), ("d", "n")], layout)
    answers = [ids.tolist() for ids in prompts_of(others).targets]
    made = with_answers(batch, prompts.starts, answers)
    for name, stream in made._asdict().items():
        if stream is not None:
            real = (
                others.decoder_segment_ids > 0 if stream.shape == others.decoder_segment_ids.shape else True
            )
            np.testing.assert_array_equal(
                np.where(real, stream, 0), np.where(real, getattr(others, name), 0), err_msg=name
            )
    np.testing.assert_array_equal(made.loss_weights, others.loss_weights)
    np.testing.assert_array_equal(made.decoder_segment_ids, others.decoder_segment_ids)


def test_the_last_answer_of_a_conversation_is_written_anew() -> None:
    tokens = np.arange(1, 9, dtype=np.int32)[None]
    weights = np.array([[0, 1, 1, 0, 0, 1, 1, 0]], np.float32)
    batch = Batch(
        decoder_input_tokens=tokens,
        decoder_segment_ids=(tokens < 8).astype(np.int32),
        target_tokens=tokens + 1,
        loss_weights=weights,
    )
    prompts = prompts_of(batch)
    assert prompts.ids[0].tolist() == [1, 2, 3, 4, 5, 6]
    assert prompts.targets[0].tolist() == [7, 8]
    made = with_answers(batch, prompts.starts, [[90]])
    assert made.target_tokens[0, 5:].tolist() == [90, 0, 0]
    assert made.loss_weights[0].tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
