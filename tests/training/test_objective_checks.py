"""Rows of pretraining that a model can't learn from, refused before anything is compiled."""

from typing import Any

import pytest

from t5x_like.model.zoo.electra_pretraining import ElectraPretrainingConfig
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.objective_checks import check_objectives
from t5x_like.training.run_config import RunConfig
from t5x_like.training.training_data import ResolvedTasks, TrainingData
from tests.model.zoo.tiny_models import TINY

JOINT: Any = ElectraPretrainingConfig(
    vocab_size=128, embed_dim=16, model_dim=32, mlp_dim=32, num_heads=4, num_layers=2
)
NEXT = MaskedLM(predicted_from="previous")


def check(model: Any, objective: Any, **loader: Any) -> None:
    """Check one task for a model."""
    task = PretrainingTask(name="rows", vocabulary="bytes", files={"train": "a.txt"}, objective=objective)
    config = LoaderConfig(mixture="rows", batch_size=2, inputs_length=16, targets_length=16, **loader)
    experiment = Experiment(
        model=model,
        data=TrainingData(tasks=(task,), train=config),
        run=RunConfig(model_dir="run", total_steps=2),
    )
    check_objectives(experiment, ResolvedTasks(train=TaskSet(name="rows", tasks={"rows": task})))


@pytest.mark.parametrize(
    ("model", "objective", "message"),
    [
        (
            JOINT,
            NEXT,
            "predicted_from='previous', and ElectraPretrainingConfig takes the positions of targets",
        ),
        (
            TINY["spanbert"],
            NEXT,
            "predicted_from='previous', and SpanBertConfig takes the positions of targets",
        ),
        (JOINT, ReplacedTokenDetection(), "are flags of tokens, and the model is a ElectraPretrainingConfig"),
        (TINY["roberta"], ReplacedTokenDetection(), "are flags of tokens, and the model is a RobertaConfig"),
        (TINY["electra_discriminator"], MaskedLM(), "are ids of tokens, and the model is a ElectraConfig"),
        (
            TINY["roberta"],
            CausalLM(),
            "are for a decoder alone, and RobertaConfig for 'masked_lm' reads inputs",
        ),
        (TINY["t5_1_0"], CausalLM(), "T5Config for 'sequence_to_sequence_lm' reads inputs; take a decoder"),
        (TINY["roberta"], SpanCorruption(), "RobertaConfig for 'masked_lm' writes no text after its inputs"),
        (TINY["gpt2"], SpanCorruption(), "inputs and targets apart, and GPT2Config reads one stream"),
    ],
    ids=lambda each: "" if isinstance(each, str) else type(each).__name__,
)
def test_rows_that_a_model_would_misread_are_refused(model: Any, objective: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(model, objective)


@pytest.mark.parametrize(
    ("model", "objective", "loader"),
    [
        (JOINT, MaskedLM(), {}),
        (TINY["spanbert"], MaskedLM(), {}),
        (TINY["roberta"], NEXT, {}),
        (TINY["electra_discriminator"], ReplacedTokenDetection(), {}),
        (TINY["gpt2"], CausalLM(), {}),
        (TINY["gpt2"], SpanCorruption(), {"layout": "decoder"}),
        (TINY["t5_1_0"], SpanCorruption(), {}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_rows_of_a_models_kind_pass(model: Any, objective: Any, loader: dict[str, Any]) -> None:
    check(model, objective, **loader)
