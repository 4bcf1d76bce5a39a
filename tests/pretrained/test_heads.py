"""Any architecture can be fine-tuned to any task: classes and choices of sequences, classes and answers of tokens."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.ancestors.families.rnn_language_model import PieceReading
from t5x_like.ancestors.zoo.awd_lstm import ConcatPooling
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.pretrained.checkpoint import family_of
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.open_model import CALLS
from tests.model.zoo.tiny_models import TINY, VOCAB_SIZE
from tests.slow_cases import slow_except

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


# Slow are those whose family and stacks are those of another.
ALIKE = {
    "bart",
    "longt5_local",
    "longt5_transient_global",
    "mt5",
    "umt5",
    "switch_top_2",
    "t5_shared",
    "gemma",
    "gemma2",
}
ALIKE |= {"gpt3", "gpt_neo", "llama3_1", "roberta", "spanbert", "unilm"}


@pytest.mark.parametrize("name", slow_except(TINY, TINY.keys() - ALIKE))
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
            return call.compute(parameters.merge(graphdef, params), config, inputs)  # noqa: B023

        result = jax.eval_shape(compute, params, inputs)
        assert {key: result[key].shape for key in answers} == answers, task
        assert result["loss"].shape == (), task


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"classifier": ConcatPooling(hidden_dim=6)}, marks=pytest.mark.slow),
        {"direction": "backward"},
        {
            "direction": "backward",
            "classifier": ConcatPooling(hidden_dim=6),
            "pieces": PieceReading(length=3),
        },
    ],
    ids=lambda changes: ", ".join(changes) or "last token",
)
def test_a_language_model_of_lstms_scores_texts_as_in_training(changes: dict[str, Any]) -> None:
    config: Any = dataclasses.replace(
        TINY["awd_lstm"], task="sequence_classification", num_labels=CLASSES, init_stddev=1.0, **changes
    )
    model = config.build(jax.random.key(0))
    ids = np.random.default_rng(0).integers(3, VOCAB_SIZE, (ROWS, LENGTH)).astype(np.int32)
    mask = np.ones((ROWS, LENGTH), np.int32)
    ids[1, 5:] = mask[1, 5:] = 0
    call = CALLS[family_of(model)]
    context = Context(config, special_ids_of({"eos_token_id": 1, "pad_token_id": 0}))
    inputs = call.read({"input_ids": ids, "attention_mask": mask}, context)
    result = jax.jit(lambda model, inputs: call.compute(model, config, inputs))(model, inputs)
    wanted = jax.jit(lambda model, batch: model(batch).heads)(
        model, Batch(encoder_input_tokens=ids, encoder_segment_ids=mask)
    )["sequence_classification"]
    np.testing.assert_allclose(result["logits"], wanted, atol=1e-6)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-3
