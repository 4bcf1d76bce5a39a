"""Learning from ranked answers without a reward model: DPO, IPO, SLiC's hinge, APO, ORPO, SimPO.

Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290.
"""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Measure
from t5x_like.training.losses.answer_pairs import AnswerScores, pair_losses, pairs_of
from t5x_like.training.methods.method import LossContext
from t5x_like.training.methods.reference_method import ReferenceMethod

_WITHOUT_REFERENCE = ("orpo", "simpo")
_WITH_SMOOTHING = ("sigmoid", "robust", "simpo")


@config_class
class PreferenceOptimization(ReferenceMethod):
    """A model learns to find better answers likelier than worse ones, compared with a frozen reference.

    Tasks are ``PreferenceTask``. With more than two ranked answers, all pairs of an example count, and their mean is
    the example's loss. Rewards in the log are ``beta`` times the log-ratio of model and reference.

    Attributes:
      loss_type: ``"sigmoid"`` is DPO, ``"robust"`` expects ``label_smoothing`` of the pairs to be wrong, ``"ipo"`` is
        normalized by length, ``"hinge"`` is SLiC's, ``"apo_zero"`` raises the better and lowers the worse answers.
        ``"orpo"`` and ``"simpo"`` have no reference.
      beta: Strength of the reference. Of ``"orpo"`` it is the weight of the odds ratio, 0.1 in the paper; of
        ``"simpo"`` the scale of rewards, 2.0 there.
      label_smoothing: Share of pairs that are taken for wrongly ordered.
      margin: Margin of ``"simpo"``, its gamma; 1.0 in the paper.
      supervised_weight: Weight of the cross entropy of the best answers, the mean over their tokens (RPO, Pang et al.
        2024). ORPO needs 1.0.
    """

    loss_type: Literal["sigmoid", "robust", "ipo", "hinge", "apo_zero", "orpo", "simpo"] = "sigmoid"
    beta: float = 0.1
    label_smoothing: float = 0.0
    margin: float = 0.0
    supervised_weight: float = 0.0

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
    task_class: ClassVar[str] = "PreferenceTask"

    def __post_init__(self) -> None:
        super().__post_init__()
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

    @property
    def has_reference(self) -> bool:
        return self.loss_type not in _WITHOUT_REFERENCE

    def losses_of(
        self, scores: AnswerScores, batch: Batch, context: LossContext
    ) -> tuple[dict[str, ExtraLoss], dict[str, Measure]]:
        del batch
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
