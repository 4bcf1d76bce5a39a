"""Methods that learn from answers which the trained model writes itself, and from the rewards of these."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Family, Measure, Predictions, predict
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.companions import CompanionSource
from t5x_like.training.losses.answer_pairs import token_logps
from t5x_like.training.methods.method import LossContext, OwnLossMethod, TrainingMethod
from t5x_like.training.methods.reference_checks import check_reference
from t5x_like.training.methods.reference_method import REFERENCE
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch
from t5x_like.training.rollouts.answer_rows import ANSWER_POSITIONS
from t5x_like.training.rollouts.rewards import Reward
from t5x_like.training.rollouts.rollout import Rollout


@config_class
class OnPolicyMethod(OwnLossMethod, ABC):
    """Base of methods that write answers to a batch of prompts, reward them, and learn from them in one or more steps.

    Each step learns from ``batch_size`` answers, which are sampled with temperature 1, from (seed, step) alone. An
    answer may have ``targets_length`` tokens, of a decoder those that ``inputs_length`` leaves.

    Attributes:
      rewards: Rewards of answers, which are added.
      num_answers: Answers to each prompt.
      num_epochs: Times that answers are learned before new ones are written.
      num_minibatches: Steps of an epoch, for which all answers are written at once.
      reference: A run, a Hugging Face directory, or any other checkpoint that the model stays near to; usually the one
        that the run starts from. A model that trains an adapter needs none: its reference is the model without it.
      reference_step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      epsilon_low: Ratios of new to old probabilities below 1 minus this are clipped.
      epsilon_high: Ratios above 1 plus this are clipped.
      learns_cut_answers: Learn from answers that were cut by the length, too.
      supervised_tasks: Tasks of the mixture whose rows are no prompts: their targets are learned, as PPO-ptx does
        (Ouyang et al. 2022, eq. 2).
      supervised_weight: Weight of the cross entropy of these rows.
      keep_samples_every_steps: Interval at which answers are written to ``samples`` in the run; 0 writes none.
    """

    rewards: tuple[Reward, ...]
    num_answers: int = 1
    num_epochs: int = 1
    num_minibatches: int = 1
    reference: str | None = None
    reference_step: int | None = None
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    learns_cut_answers: bool = True
    supervised_tasks: tuple[str, ...] = ()
    supervised_weight: float = 1.0
    keep_samples_every_steps: int = changeable(default=100)

    measures: ClassVar[tuple[str, ...]] = (
        "loss",
        "reward",
        "kl",
        "entropy",
        "answer_length",
        "cut_answers",
        "unrewarded_answers",
        "equal_rewards",
        "clipped_tokens",
        "supervised_loss",
    )
    min_answers: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.refuse_token_options("learns from rewards, and not from targets")
        name = type(self).__name__
        if not self.rewards:
            raise ValueError(
                f'{name} needs rewards, such as (FunctionReward(function="my_rewards.is_right"),)'
            )
        for field in ("num_answers", "num_epochs", "num_minibatches"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}; give at least 1")
        if self.num_answers < self.min_answers:
            raise ValueError(
                f"num_answers is {self.num_answers}, and {name} compares the answers to a prompt; give at least 2"
            )
        for field in ("epsilon_low", "epsilon_high"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} is {getattr(self, field)}; give a positive number, such as 0.2")
        if self.steps_of_rollout == 1:
            refuse_unused(
                self,
                "epsilon_low",
                "epsilon_high",
                because="each answer is learned in one step, whose ratios are 1",
            )
        if not self.supervised_tasks:
            refuse_unused(self, "supervised_weight", because="there are no supervised_tasks")
        elif self.num_answers > 1:
            raise ValueError(
                f"supervised_tasks with num_answers={self.num_answers} would repeat their rows; set num_answers=1"
            )
        if self.reference is None:
            refuse_unused(self, "reference_step", because="there is no checkpoint as reference")

    @property
    def steps_of_rollout(self) -> int:
        """Steps that learn from the answers to one batch of prompts."""
        return self.num_epochs * self.num_minibatches

    def num_prompts(self, batch_size: int) -> int:
        """Return the prompts that are answered at once.

        Args:
          batch_size: Answers that a step learns from.

        Raises:
          ValueError: Each prompt has several answers, which don't fill the steps.
        """
        num_answers = batch_size * self.num_minibatches
        if num_answers % self.num_answers:
            raise ValueError(
                f"batch_size={batch_size} by num_minibatches={self.num_minibatches} are {num_answers} answers, which "
                f"aren't a multiple of num_answers={self.num_answers}, the answers to a prompt; choose other numbers"
            )
        return num_answers // self.num_answers

    @property
    def has_reference(self) -> bool:
        """True if the loss compares with a reference."""
        return True

    @property
    def needs_old_logps(self) -> bool:
        """True if the loss reads log-probabilities of the model that wrote the answers."""
        return self.steps_of_rollout > 1

    @property
    def needs_logps(self) -> bool:
        """True if rewards or the loss read log-probabilities of the model that wrote the answers."""
        return self.needs_old_logps

    @abstractmethod
    def streams_of(self, rollout: Rollout) -> dict[str, np.ndarray]:
        """Return numbers of tokens that the loss reads, float32 [N, L], such as advantages.

        Args:
          rollout: Answers with their rewards.
        """

    @abstractmethod
    def losses_of(
        self, logps: jax.Array, predictions: Predictions, streams: DeclaredStreams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """Return the losses of answers by name, and which tokens were clipped, float32 [B, L].

        The losses of all parts of a step are summed, so they are weighted by the stream ``"policy_weights"``.

        Args:
          logps: Log-probabilities of tokens [B, L].
          predictions: Predictions of the model.
          streams: Streams of the rows of answers.
        """

    @property
    def loss_factors(self) -> Mapping[str, float]:
        """Factors of losses in the whole loss, by name; others have 1."""
        return {}

    def weights_of(self, mask: np.ndarray, max_length: int) -> np.ndarray:
        """Return weights of tokens [N, L], whose losses are summed.

        Args:
          mask: Tokens of the answers of one step that are learned.
          max_length: The most tokens of an answer.
        """
        del max_length
        return mask / max(float(mask.sum()), 1.0)

    def next_log_kl_factor(self, rollout: Rollout) -> float:
        """Return the logarithm of the penalty's factor for the next answers.

        Args:
          rollout: The newest answers.
        """
        return rollout.log_kl_factor

    def companions(self, model: ModelConfig) -> Mapping[str, CompanionSource]:
        """Return where the reference is."""
        return {REFERENCE: CompanionSource(self.reference, self.reference_step)} if self.has_reference else {}

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that rows are prompts with one answer each, that the model writes, and that the reference fits."""
        name = type(self).__name__
        if loader.head is not None or loader.num_rows_of_example > 1 or train.layout == "encoder":
            raise ValueError(
                f"{name} writes answers, and mixture {train.mixture!r} is for a head, or compares several answers; "
                "give it a task of texts, such as a TextTask or a PromptTask, and the layout of a language model"
            )
        if train.pack:
            raise ValueError(
                f"{name} writes an answer after each row's prompt, and rows of mixture {train.mixture!r} are packed; "
                "set pack=False (LoaderConfig.pack = False in a recipe)"
            )
        if traits_of(model).carried_memory is not None:
            raise ValueError(
                f"{name} writes answers without a memory of the rows before; take a model without one"
            )
        unknown = [each for each in self.supervised_tasks if each not in loader.task_names]
        if unknown:
            raise ValueError(
                f"supervised_tasks has {unknown[0]!r}, and the tasks of mixture {train.mixture!r} are "
                f"{', '.join(loader.task_names)}"
            )
        if self.has_reference:
            check_reference(self.reference, self.reference_step, model, loader)

    def defers_logits(self, model: Family, batch: Batch) -> bool:
        return _answer_positions(batch) is not None or super().defers_logits(model, batch)

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the loss of held-out rows' own targets; no answer is written for them."""
        return TrainingMethod.measure(self, model, microbatch, context)

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the loss of answers, and what they were rewarded with."""
        batch = microbatch.batch
        assert batch.declared is not None, "rollouts have given the answers their streams"
        predictions = predict(model, batch, dropout_key=context.dropout_key)
        logps = token_logps(
            predictions, batch, self.loss.logits_chunk_length, positions=_answer_positions(batch)
        )
        losses, is_clipped = self.losses_of(logps, predictions, batch.declared)
        if self.supervised_tasks:
            weights = batch.declared["supervised_weights"]
            losses["supervised_loss"] = -jnp.sum(jnp.where(weights > 0, logps * weights, 0.0))
        factors = {"supervised_loss": self.supervised_weight, **self.loss_factors}
        nothing = {} if self.supervised_tasks else {"supervised_loss": Measure(jnp.zeros(()), jnp.zeros(()))}
        # A step's weights sum to one, so its parts count as one together.
        one, share = jnp.ones(()), 1.0 / jnp.asarray(context.normalizers.parts, jnp.float32)
        extra = {name: ExtraLoss(total, factors.get(name, 1.0), share, one) for name, total in losses.items()}
        own = predictions._replace(
            logits=None,
            extra_losses={**(predictions.extra_losses or {}), **extra},
            measures={**(predictions.measures or {}), **nothing, **_measures(batch, logps, is_clipped)},
        )
        return self.own_total(own, microbatch, context)


def _answer_positions(batch: Batch) -> jax.Array | None:
    return None if batch.declared is None else batch.declared.row.get(ANSWER_POSITIONS)


def _measures(batch: Batch, logps: jax.Array, is_clipped: jax.Array) -> dict[str, Measure]:
    """Return the means to log: of answers, and of their tokens."""
    assert batch.declared is not None
    mask, streams = batch.loss_weights, batch.declared
    num_tokens = jnp.sum(mask, axis=-1)
    is_answer = (num_tokens > 0).astype(jnp.float32)

    def of(values: jax.Array, weights: jax.Array) -> Measure:
        return Measure(jnp.sum(jnp.where(weights > 0, values * weights, 0.0)), jnp.sum(weights))

    rewards = streams["reward"]
    kl = streams.row.get("answer_kl")
    if kl is None:
        log_ratios = jax.lax.stop_gradient(logps) - streams["reference_logps"]
        kl = jnp.sum(jnp.where(mask > 0, log_ratios, 0.0), axis=-1)
    is_rewarded = is_answer * jnp.isfinite(rewards)
    return {
        "reward": of(rewards, is_rewarded),
        "kl": of(kl, is_answer * jnp.isfinite(kl)),
        "entropy": of(-logps, mask),  # an estimate by the sampled tokens
        "answer_length": of(num_tokens, is_answer),
        "cut_answers": of(streams["is_cut"], is_answer),
        "unrewarded_answers": of(1.0 - is_rewarded, is_answer),
        "equal_rewards": of(streams["has_equal_rewards"], is_answer),
        "clipped_tokens": of(is_clipped, mask),
    }
