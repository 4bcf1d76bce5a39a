"""Reward models: a number for each answer, higher for better ones.

Ouyang et al. 2022, Training language models to follow instructions with human feedback, section 3.5 and eq. 1,
https://arxiv.org/abs/2203.02155.
"""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family, predict
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.answer_pairs import pairs_of, sigmoid_loss
from t5x_like.training.methods.method import LossContext, OwnLossMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch

_HEAD = "sequence_classification"


@config_class
class RewardModel(OwnLossMethod):
    """A head of one output learns to give better answers a higher number (Bradley and Terry 1952).

    Tasks are ``PreferenceTask``, read with the layout ``"encoder"``. All pairs of an example's answers count, and their
    mean is the example's loss, so that answers to one prompt are one element of the batch.

    ``length_accuracy`` in the log is the share of pairs whose better answer is longer: what length alone explains.

    Attributes:
      margin: Stream with the margin of each example, which its task declares; None for none. The loss is
        ``-log sigmoid(better - worse - margin)`` (Touvron et al. 2023, section 3.2.2).
      center_rewards_coefficient: Weight of the squared sum of a pair's rewards, which keeps them around zero
        (Eisenstein et al. 2023).
    """

    margin: str | None = None
    center_rewards_coefficient: float = 0.0

    measures: ClassVar[tuple[str, ...]] = (
        "loss",
        "accuracy",
        "reward_margin",
        "chosen_reward",
        "rejected_reward",
        "length_accuracy",
    )
    compares_answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.center_rewards_coefficient < 0:
            raise ValueError(
                f"center_rewards_coefficient is {self.center_rewards_coefficient}; give 0 or more"
            )
        if self.loss != LossConfig(z_loss=self.loss.z_loss):
            raise ValueError(
                "RewardModel has no loss of target tokens or labels; leave the options of loss out"
            )

    def streams(self) -> Sequence[str]:
        """Return the stream of margins, if there is one."""
        return () if self.margin is None else (self.margin,)

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that a head of one output reads ranked answers."""
        if loader.head != (_HEAD, 1, None) or loader.num_rows_of_example < 2:
            raise ValueError(
                f"RewardModel compares answers that a head of one output reads, and mixture {train.mixture!r} has "
                "others; give it a PreferenceTask (text.tasks.preferences), and the loader layout='encoder'"
            )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the mean loss of the examples, and rewards to log."""
        batch = microbatch.batch
        predictions = predict(model, batch, dropout_key=context.dropout_key)
        assert predictions.heads is not None, "the model has no head"
        num_tokens = jnp.sum(_real(batch), axis=-1, dtype=jnp.float32)
        rewards = predictions.heads[_HEAD].astype(jnp.float32).reshape(num_tokens.shape)
        pairs = pairs_of((rewards, num_tokens), num_tokens)
        (chosen, chosen_length), (rejected, rejected_length) = pairs.better, pairs.worse
        margin = 0.0
        if self.margin is not None:
            assert batch.declared is not None
            margin = jnp.nan_to_num(batch.declared[self.margin])[:, None]
        losses = sigmoid_loss(chosen - rejected - margin)
        losses = losses + self.center_rewards_coefficient * jnp.square(chosen + rejected)
        measures = pairs.measures(
            accuracy=chosen > rejected,
            reward_margin=chosen - rejected,
            chosen_reward=chosen,
            rejected_reward=rejected,
            length_accuracy=chosen_length > rejected_length,
        )
        loss = ExtraLoss(pairs.total(losses), 1.0, pairs.num_examples, context.normalizers.examples)
        own = predictions._replace(
            extra_losses={**(predictions.extra_losses or {}), "loss": loss},
            measures={**(predictions.measures or {}), **measures},
        )
        return self.own_total(own, microbatch, context)


def _real(batch: Batch) -> jax.Array:
    """Return 1 for the real tokens of rows for a head, [B, C, L]."""
    segment_ids = batch.encoder_segment_ids
    return jnp.ones(batch.encoder_input_tokens.shape) if segment_ids is None else segment_ids > 0
