"""Methods that compare the log-probabilities of answers with those of a frozen reference."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Family, Measure, Predictions, predict
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.cached_outputs import OutputCache, Outputs
from t5x_like.training.companions import CompanionSource
from t5x_like.training.losses.answer_pairs import AnswerScores, answer_logps
from t5x_like.training.methods.method import LossContext, OwnLossMethod
from t5x_like.training.methods.reference_checks import check_reference
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch

REFERENCE = "reference"


@config_class
class ReferenceMethod(OwnLossMethod, ABC):
    """Base of methods whose examples have several answers to a prompt, scored by the model and by a reference.

    Attributes:
      reference: A run, a Hugging Face directory, or any other checkpoint; usually the one that the run starts from.
        A model that trains an adapter needs none: its reference is the model without the adapter, in the same memory.
      reference_step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      beta: Strength of the reference.
      logps_dir: Directory of the reference's log-probabilities, one file for each step. Files that are there are read;
        others are computed and written. ``None`` computes all, and keeps none.
    """

    reference: str | None = None
    reference_step: int | None = None
    beta: float = 0.1
    logps_dir: str | None = changeable(default=None)

    compares_answers: ClassVar[bool] = True
    task_class: ClassVar[str]

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ValueError(f"beta is {self.beta}; give a positive number, such as 0.1")
        if self.reference is None:
            because = "there is no checkpoint as reference"
            refuse_unused(self, "reference_step", "logps_dir", because=because)
        self.refuse_token_options("compares answers and has no loss of single tokens")

    @property
    def has_reference(self) -> bool:
        """True if the loss compares with a reference."""
        return True

    @abstractmethod
    def losses_of(
        self, scores: AnswerScores, batch: Batch, context: LossContext
    ) -> tuple[dict[str, ExtraLoss], dict[str, Measure]]:
        """Return the losses of answers to minimize, and the means to log.

        Args:
          scores: Scores of answers [B, C].
          batch: Rows of the answers.
          context: Numbers that losses of the whole batch are divided by.
        """

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        """Return where the reference is, and where its log-probabilities are kept."""
        if not self.has_reference:
            return {}
        cache = self.logps_dir and OutputCache(self.logps_dir, "logps_dir", {}, reference_outputs)
        return {REFERENCE: CompanionSource(self.reference, self.reference_step, cache or None)}

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that examples have several answers, and that the reference reads the same tokens."""
        if loader.head is not None or loader.num_rows_of_example < 2:
            raise ValueError(
                f"{type(self).__name__} compares answers, and mixture {train.mixture!r} has one answer in each "
                f"example; give it a {self.task_class} (text.tasks.preferences), with the layout of a language model"
            )
        if self.has_reference:
            check_reference(self.reference, self.reference_step, model, loader)

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the mean loss of the examples, and rewards and log-probabilities to log."""
        batch = microbatch.batch
        predictions = predict(model, batch, dropout_key=context.dropout_key)
        logp = answer_logps(predictions, batch, self.loss.logits_chunk_length)
        reference_logp = jnp.zeros_like(logp)
        if REFERENCE in microbatch.outputs:
            reference_logp = microbatch.outputs[REFERENCE]["logp"]
        elif self.has_reference:
            chunk = self.loss.logits_chunk_length
            reference = context.companions[REFERENCE].predict(microbatch, defers_logits=chunk is not None)
            reference_logp = answer_logps(reference, batch, self.loss.logits_chunk_length)
        num_tokens = jnp.sum(batch.loss_weights > 0, axis=-1, dtype=jnp.float32)
        scores = AnswerScores(logp, jax.lax.stop_gradient(reference_logp), num_tokens)
        extra, measures = self.losses_of(scores, batch, context)
        own = predictions._replace(
            logits=None,
            extra_losses={**(predictions.extra_losses or {}), **extra},
            measures={**(predictions.measures or {}), **measures},
        )
        return self.own_total(own, microbatch, context)


def reference_outputs(predictions: Predictions, batch: Batch) -> Outputs:
    """Return the part of a reference's predictions that is kept: the log-probabilities of answers, [B, C].

    Args:
      predictions: Predictions of the reference.
      batch: Batch of ranked answers.
    """
    return {"logp": answer_logps(predictions, batch)}
