"""Learning from ranked answers without a reward model: DPO, IPO, SLiC's hinge, APO, ORPO, SimPO.

Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Family, Measure, Predictions, predict
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.cached_outputs import OutputCache, Outputs
from t5x_like.training.companions import CompanionSource
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.answer_pairs import AnswerScores, answer_logps, pair_losses, pairs_of
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.methods.reference_checks import check_reference
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch

REFERENCE = "reference"

_WITHOUT_REFERENCE = ("orpo", "simpo")
_WITH_SMOOTHING = ("sigmoid", "robust", "simpo")


@config_class
class PreferenceOptimization(TrainingMethod):
    """A model learns to find better answers likelier than worse ones, compared with a frozen reference.

    Tasks are ``PreferenceTask``. With more than two ranked answers, all pairs of an example count, and their mean is
    the example's loss. Rewards in the log are ``beta`` times the log-ratio of model and reference.

    Attributes:
      reference: A run, a Hugging Face directory, or any other checkpoint; usually the one that the run starts from.
        A model that trains an adapter needs none: its reference is the model without the adapter, in the same memory.
      reference_step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      loss_type: ``"sigmoid"`` is DPO, ``"robust"`` expects ``label_smoothing`` of the pairs to be wrong, ``"ipo"`` is
        normalized by length, ``"hinge"`` is SLiC's, ``"apo_zero"`` raises the better and lowers the worse answers.
        ``"orpo"`` and ``"simpo"`` have no reference.
      beta: Strength of the reference. Of ``"orpo"`` it is the weight of the odds ratio, 0.1 in the paper; of
        ``"simpo"`` the scale of rewards, 2.0 there.
      label_smoothing: Share of pairs that are taken for wrongly ordered.
      margin: Margin of ``"simpo"``, its gamma; 1.0 in the paper.
      supervised_weight: Weight of the cross entropy of the best answers, the mean over their tokens (RPO, Pang et al.
        2024). ORPO needs 1.0.
      logps_dir: Directory of the reference's log-probabilities, one file for each step. Files that are there are read;
        others are computed and written. ``None`` computes all, and keeps none.
    """

    reference: str | None = None
    reference_step: int | None = None
    loss_type: Literal["sigmoid", "robust", "ipo", "hinge", "apo_zero", "orpo", "simpo"] = "sigmoid"
    beta: float = 0.1
    label_smoothing: float = 0.0
    margin: float = 0.0
    supervised_weight: float = 0.0
    logps_dir: str | None = changeable(default=None)

    measures: ClassVar[tuple[str, ...]] = (
        "loss",
        "accuracy",
        "reward_margin",
        "chosen_reward",
        "rejected_reward",
        "chosen_logp",
        "rejected_logp",
        "supervised_loss",
    )
    compares_answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ValueError(f"beta is {self.beta}; give a positive number, such as 0.1")
        if not 0 <= self.label_smoothing < 0.5:
            raise ValueError(
                f"label_smoothing is {self.label_smoothing}; it is the share of wrongly ordered pairs, from 0 to below "
                "0.5"
            )
        if self.supervised_weight < 0:
            raise ValueError(f"supervised_weight is {self.supervised_weight}; give 0 or more")
        because = f"loss_type is {self.loss_type!r}"
        if self.loss_type not in _WITH_SMOOTHING:
            refuse_unused(self, "label_smoothing", because=because)
        if self.loss_type == "robust" and not self.label_smoothing:
            raise ValueError(
                "loss_type 'robust' corrects for a share of wrong labels; give label_smoothing, such as 0.1, or take "
                "loss_type='sigmoid'"
            )
        if self.loss_type != "simpo":
            refuse_unused(self, "margin", because=because)
        if self.loss_type in _WITHOUT_REFERENCE:
            refuse_unused(self, "reference", "reference_step", "logps_dir", because=because)
        if self.loss_type == "orpo" and not self.supervised_weight:
            raise ValueError(
                "ORPO is the cross entropy of the better answers and a penalty of the odds ratio; give "
                "supervised_weight=1.0"
            )
        if self.reference is None:
            refuse_unused(self, "reference_step", because="there is no checkpoint as reference")
        if self.loss != LossConfig(
            z_loss=self.loss.z_loss, logits_chunk_length=self.loss.logits_chunk_length
        ):
            raise ValueError(
                "PreferenceOptimization compares answers and has no loss of single tokens; of LossConfig it reads "
                "logits_chunk_length alone"
            )

    @property
    def _has_reference(self) -> bool:
        return self.loss_type not in _WITHOUT_REFERENCE

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        """Return where the reference is, and where its log-probabilities are kept."""
        if not self._has_reference:
            return {}
        cache = self.logps_dir and OutputCache(self.logps_dir, "logps_dir", {}, reference_outputs)
        return {REFERENCE: CompanionSource(self.reference, self.reference_step, cache or None)}

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that examples have ranked answers, and that the reference reads the same tokens."""
        if loader.head is not None or loader.num_rows_of_example < 2:
            raise ValueError(
                f"PreferenceOptimization compares answers, and mixture {train.mixture!r} has one answer in each "
                "example; give it a PreferenceTask (text.tasks.preferences), with the layout of a language model"
            )
        if self._has_reference:
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
        elif self._has_reference:
            reference = context.companions[REFERENCE].predict(microbatch)
            reference_logp = answer_logps(reference, batch, self.loss.logits_chunk_length)
        num_tokens = jnp.sum(batch.loss_weights > 0, axis=-1, dtype=jnp.float32)
        scores = AnswerScores(logp, jax.lax.stop_gradient(reference_logp), num_tokens)
        extra, measures = self.losses_of(scores, context)
        own = predictions._replace(
            logits=None,
            extra_losses={**(predictions.extra_losses or {}), **extra},
            measures={**(predictions.measures or {}), **measures},
        )
        return self.own_total(own, microbatch, context)

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the same sums of held-out rows."""
        totals, memories = self.compute_loss(model, microbatch, context)[1]
        return totals, memories[MODEL]

    def losses_of(
        self, scores: AnswerScores, context: LossContext
    ) -> tuple[dict[str, ExtraLoss], dict[str, Measure]]:
        """Return the losses of answers to minimize, and the means to log.

        Args:
          scores: Scores of answers [B, C], from the best to the worst.
          context: Numbers that losses of the whole batch are divided by.
        """
        pairs = pairs_of(scores, scores.num_tokens)
        better, worse = pairs.better, pairs.worse
        losses = pair_losses(
            self.loss_type,
            better,
            worse,
            beta=self.beta,
            label_smoothing=self.label_smoothing,
            margin=self.margin,
        )
        chosen, rejected = self._rewards(better), self._rewards(worse)
        measures = pairs.measures(
            accuracy=chosen > rejected,
            reward_margin=chosen - rejected,
            chosen_reward=chosen,
            rejected_reward=rejected,
            chosen_logp=better.logp,
            rejected_logp=worse.logp,
        )
        best, num_tokens = jnp.sum(scores.logp[:, 0]), jnp.sum(scores.num_tokens[:, 0])
        normalizers = context.normalizers
        extra = {
            "loss": ExtraLoss(pairs.total(losses), 1.0, pairs.num_examples, normalizers.examples),
            "supervised_loss": ExtraLoss(-best, self.supervised_weight, num_tokens, normalizers.first_tokens),
        }
        return extra, measures

    def _rewards(self, scores: AnswerScores) -> jax.Array:
        if self.loss_type in ("ipo", *_WITHOUT_REFERENCE):
            return self.beta * scores.mean_log_ratio
        return self.beta * scores.log_ratio


def reference_outputs(predictions: Predictions, batch: Batch) -> Outputs:
    """Return the part of a reference's predictions that is kept: the log-probabilities of answers, [B, C].

    Args:
      predictions: Predictions of the reference.
      batch: Batch of ranked answers.
    """
    return {"logp": answer_logps(predictions, batch)}
