"""Any architecture can be fine-tuned to any task: classes and choices of sequences, classes and answers of tokens."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.pretrained.checkpoint import family_of
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.open_model import CALLS
from tests.model.zoo.tiny_models import TINY, VOCAB_SIZE

ROWS, LENGTH, CHOICES, CLASSES = 2, 8, 3, 5

# What is given beside the ids, and the shape of each answer.
TASKS: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]]]] = {
    "sequence_classification": ({"labels": np.array([4, 0])}, {"logits": (ROWS, CLASSES)}),
    "multiple_choice": ({"labels": np.array([2, 0])}, {"logits": (ROWS, CHOICES)}),
    "token_classification": (
        {"labels": np.full((ROWS, LENGTH), 4)},
        {"logits": (ROWS, LENGTH, CLASSES)},
    ),
    "question_answering": (
        {"start_positions": np.array([1, 2]), "end_positions": np.array([1, 5])},
        {"start_logits": (ROWS, LENGTH), "end_logits": (ROWS, LENGTH)},
    ),
}


@pytest.mark.parametrize("name", TINY)
def test_every_task_is_answered_with_a_loss(name: str) -> None:
    for task, (labels, answers) in TASKS.items():
        config = dataclasses.replace(TINY[name], task=task, num_labels=CLASSES)
        shape = (ROWS, CHOICES, LENGTH) if task == "multiple_choice" else (ROWS, LENGTH)
        ids = np.random.default_rng(0).integers(3, VOCAB_SIZE, shape)
        ids[..., -1] = 1  # encoder-decoders tell classes at the end
        context = Context(config, special_ids_of({"eos_token_id": 1, "decoder_start_token_id": 0}))

        graphdef, params, _ = parameters.abstract(config)
        call = CALLS[family_of(parameters.merge(graphdef, params))]
        inputs = call.read({"input_ids": ids, **labels}, context)

        def compute(params: Any, inputs: Any) -> Any:
            return call.compute(parameters.merge(graphdef, params), config, inputs, False)  # noqa: B023

        found = jax.eval_shape(compute, params, inputs)
        assert {key: found[key].shape for key in answers} == answers, task
        assert found["loss"].shape == (), task
