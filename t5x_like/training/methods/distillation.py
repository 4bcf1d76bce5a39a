"""Distillation: a student learns from its teacher's predictions and hidden states.

Hinton et al. 2015, https://arxiv.org/abs/1503.02531; DistilBERT, Sanh et al. 2019, https://arxiv.org/abs/1910.01108.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Family, Predictions, predict
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.cached_outputs import OutputCache
from t5x_like.training.companions import CompanionSource
from t5x_like.training.losses import soft_targets
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.methods.teacher_checks import check_teacher
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch

TEACHER = "teacher"


@config_class
class Distillation(TrainingMethod):
    """A student learns to predict what its teacher predicts. The weights are those of DistilBERT's code.

    The loss is ``own_loss_weight`` times the loss without a teacher, plus ``soft_targets_weight`` times the divergence
    from the teacher's distributions, plus ``hidden_states_weight`` times the distance of hidden states.

    Attributes:
      teacher: A run, a Hugging Face directory, or any other checkpoint. It has no dropout.
      teacher_step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      temperature: Divides the logits of both before the softmax. The divergence is multiplied by its square, so that
        gradients keep their size (Hinton et al. 2015, §2.1). Numbers of a regression have no temperature.
      soft_targets_weight: Factor of the mean of KL(teacher || student), and for a regression of the squared difference.
        Each head counts with which the student learns from labels.
      hidden_states_weight: Factor of the mean of ``1 - cosine`` between both models' outputs of the last layer, over
        real tokens. An encoder-decoder has one such mean for each stack. The models need the same width.
      own_loss_weight: Factor of the loss from labels or target tokens.
      soft_target_tokens: Tokens of which a token head's distributions are compared: all ``"real"`` ones, as in
        DistilBERT's code, or only the ``"targets"`` of the own loss, with its weights.
      logits_dir: Directory of the teacher's predictions, one file for each step. Files that are there are read; others
        are computed and written. ``None`` computes all, and keeps none.
      num_logits: Most likely tokens of each position that ``logits_dir`` keeps. All others count as one further token,
        so the divergence is a lower bound, and exact with the whole vocabulary.
    """

    teacher: str
    teacher_step: int | None = None
    temperature: float = 2.0
    soft_targets_weight: float = 5.0
    hidden_states_weight: float = 1.0
    own_loss_weight: float = 2.0
    soft_target_tokens: Literal["real", "targets"] = "real"
    logits_dir: str | None = changeable(default=None)
    num_logits: int = 64

    measures: ClassVar[tuple[str, ...]] = (
        "soft_target_loss",
        "soft_sequence_loss",
        "encoder_cosine_loss",
        "decoder_cosine_loss",
    )
    learns_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; give a positive number, such as 2")
        names = ("soft_targets_weight", "hidden_states_weight", "own_loss_weight")
        for name in names:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not (self.soft_targets_weight or self.hidden_states_weight):
            raise ValueError(
                "soft_targets_weight and hidden_states_weight are both 0, so that nothing is learned from the teacher; "
                "give one of them a weight, or leave out distillation"
            )
        if self.num_logits < 1:
            raise ValueError(f"num_logits is {self.num_logits}; give at least 1")
        if self.logits_dir is not None and self.hidden_states_weight:
            raise ValueError(
                "logits_dir keeps no hidden states; set hidden_states_weight=0, or leave logits_dir out"
            )
        if self.logits_dir is None:
            refuse_unused(self, "num_logits", because="logits are not kept", advice="give logits_dir")
        if not self.soft_targets_weight:
            refuse_unused(self, "temperature", "soft_target_tokens", because="soft_targets_weight is 0")
        if self.loss.logits_chunk_length is not None:
            raise ValueError(
                "logits_chunk_length with a teacher, whose logits are compared whole; set logits_chunk_length=None"
            )

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        """Return where the teacher is, and where its predictions are kept."""
        if self.logits_dir is None:
            return {TEACHER: CompanionSource(self.teacher, self.teacher_step)}
        settings = {
            "temperature": self.temperature,
            "num_logits": self.num_logits,
            "vocab_size": model.vocab_size,
        }
        outputs = partial(soft_targets.kept_outputs, **settings)
        cache = OutputCache(self.logits_dir, "logits_dir", settings, outputs)
        return {TEACHER: CompanionSource(self.teacher, self.teacher_step, cache)}

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the teacher's predictions can be compared with the student's."""
        check_teacher(
            self.teacher,
            self.teacher_step,
            model,
            loader,
            train,
            compares_heads=bool(self.soft_targets_weight),
            compares_hidden_states=bool(self.hidden_states_weight),
        )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the loss of a microbatch, the sums to log, and the memories of both models."""
        student = predict(
            model, microbatch.batch, dropout_key=context.dropout_key, memory=microbatch.memories.get(MODEL)
        )
        if TEACHER in microbatch.outputs:
            teacher = soft_targets.predictions_of(microbatch.outputs[TEACHER])
        else:
            teacher = context.companions[TEACHER].predict(microbatch)
        taught = self.with_teacher(student, teacher, microbatch, context)
        total, totals = self.total(taught, microbatch, context, label_weight=self.own_loss_weight)
        return total, (totals, {MODEL: student.memory, TEACHER: teacher.memory})

    def with_teacher(
        self, student: Predictions, teacher: Predictions, microbatch: Microbatch, context: LossContext
    ) -> Predictions:
        """Add the losses against a teacher's predictions to those of the student; no gradient reaches the teacher.

        Args:
          student: Predictions of the trained model.
          teacher: Predictions of the teacher.
          microbatch: Rows of both.
          context: Numbers that losses of the whole batch are divided by.
        """
        teacher, batch = jax.lax.stop_gradient(teacher), flatten_choices(microbatch.batch)
        normalizers = context.normalizers
        extra: dict[str, ExtraLoss | None] = dict.fromkeys(self.measures)
        if self.soft_targets_weight:
            options = {
                "temperature": self.temperature,
                "weight": self.soft_targets_weight,
                "normalizers": normalizers,
            }
            weights = microbatch.weights if self.soft_target_tokens == "targets" else None
            extra["soft_target_loss"] = soft_targets.soft_token_loss(
                student, teacher, batch, weights=weights, **options
            )
            extra["soft_sequence_loss"] = soft_targets.soft_sequence_loss(
                student, teacher, batch, context.label_loss, **options
            )
        if self.hidden_states_weight:
            weight = self.hidden_states_weight
            encoder = (student.encoder_output, teacher.encoder_output, batch.encoder_segment_ids)
            decoder = (student.decoder_output, teacher.decoder_output, batch.decoder_segment_ids)
            extra["encoder_cosine_loss"] = soft_targets.hidden_state_loss(
                *encoder, weight, normalizers.encoder_tokens
            )
            extra["decoder_cosine_loss"] = soft_targets.hidden_state_loss(
                *decoder, weight, normalizers.tokens
            )
        nothing = ExtraLoss(jnp.zeros(()), 0.0, jnp.zeros(()), jnp.ones(()))
        added = {name: nothing if loss is None else loss for name, loss in extra.items()}
        return student._replace(extra_losses={**(student.extra_losses or {}), **added})
