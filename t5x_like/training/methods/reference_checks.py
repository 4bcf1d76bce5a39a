"""Checks that a reference's log-probabilities can be compared with the model's, before weights are read."""

from typing import Any

from t5x_like.model.adapters.adapter_weights import adapter_of
from t5x_like.pretrained.open_checkpoint import open_unread
from t5x_like.training.methods.teacher_checks import check_family
from t5x_like.training.vocabulary_checks import check_same_vocabulary


def check_reference(directory: str | None, step: int | None, model: Any, loader: Any) -> None:
    """Check that there is a reference, and that it reads the batches of the model.

    Args:
      directory: The reference; None for the model without its adapter.
      step: Step of a run; its newest if not given.
      model: Configuration of the trained model.
      loader: Loader of the training data: its vocabulary.

    Raises:
      ValueError: There is none, or it has another vocabulary or family.
    """
    if directory is None:
        if adapter_of(model) is None:
            raise ValueError(
                "the loss compares with a reference, and there is none; give reference=CHECKPOINT, usually the one "
                "that the run starts from, or train an adapter, whose model without it is the reference"
            )
        return
    with open_unread(directory, step=step) as reference:
        check_same_vocabulary("the reference", reference, loader)
        check_family("reference", reference, model)
