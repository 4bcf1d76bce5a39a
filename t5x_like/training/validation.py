"""Teacher-forced loss on held-out data."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.segment_memory import Memory, memory_for
from t5x_like.model.heads import defer_logits
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import place
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training import losses
from t5x_like.training.companions import Companion, frozen_models, own_params
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.metrics import Totals, add, summarize, zero_totals
from t5x_like.training.microbatches import MODEL, Microbatch
from t5x_like.training.state import StateLayout, empty, plan_memory
from t5x_like.training.training_data import open_share


class Validator:
    """Measures the loss on one split: always the same batches, without dropout, with a memory of their own."""

    def __init__(
        self,
        config: LoaderConfig,
        tasks: TaskSet,
        plan: StateLayout,
        method: TrainingMethod,
        mesh: Mesh,
        *,
        vocab_size: int,
        companions: Mapping[str, Companion] = {},
    ):
        """Raise ValueError if there is no such split, or it can't be read."""
        self.name = config.mixture
        self._config = replace(config, repeat=False, shuffle=False)
        # Opened before training: a split that can't be read is found now, and texts are tokenized once.
        self._loader = open_share(self._config, tasks, mesh)
        self._beginning = self._loader.state()
        self._plan, self._mesh = plan, mesh
        self._measured = (*plan.measured, *method.measures)
        self._frozen = own_params(companions)
        self._step = jax.jit(
            validation_step(plan, method, label_loss=self._loader.label_loss, companions=companions)
        )
        self._count = jax.jit(lambda batch: _count_targets(batch, vocab_size))

    def measure(self, params: Parameters, after_batch: Callable[[], None] = lambda: None) -> dict[str, float]:
        """Average the loss over all target tokens of the split, in nats, or that of the method over all examples.

        ``unigram_entropy`` is a baseline: the loss of a model that only knows how frequent each target token of this
        split is.

        Args:
          params: Weights to measure.
          after_batch: Function called after each batch; its errors end the measurement.

        Raises:
          ValueError: there was no target token to average over.
        """
        loader = self._loader
        loader.restore(self._beginning)
        totals = zero_totals(len(loader.task_names), self._measured)
        counts, memory = 0.0, self._new_memory()
        for batch in loader:
            placed = place(batch, mesh=self._mesh)
            totals, memory = self._step(params, placed, totals, memory, self._frozen)
            counts = counts + np.asarray(self._count(placed), np.float64)
            after_batch()
        summary = summarize(totals, loader.task_names, head=loader.head)
        if float(totals.target_tokens):
            return summary | {"unigram_entropy": entropy(np.asarray(counts))}
        if float(totals.sequences) or any(float(each.count) for each in totals.measures.values()):
            return summary
        raise ValueError(f"no target token in {self._config.split!r} of {self.name!r}; is the split empty?")

    def _new_memory(self) -> Memory | None:
        plan, num_rows = self._plan, self._config.batch_size
        abstract = plan_memory(plan.graphdef, plan.weights(plan.abstract), self._mesh, num_rows=num_rows)
        return None if abstract is None else empty(abstract)


def validation_step(
    plan: StateLayout,
    method: TrainingMethod,
    *,
    label_loss: LabelLoss | None = None,
    companions: Mapping[str, Companion] = {},
) -> Callable[..., tuple[Totals, Memory | None]]:
    """Return the function that adds what the method measures of a batch, without dropout.

    ``(params, batch, totals, memory, frozen) -> (totals, memory)``, where only some models have a memory, and
    ``frozen`` are the weights of companions.

    Args:
      plan: Layout of the state.
      method: Loss to measure.
      label_loss: Loss of the labels in the batches; None for batches without labels.
      companions: Frozen models of the method.
    """

    def step(
        params: Parameters,
        batch: Batch,
        totals: Totals,
        memory: Memory | None,
        frozen: Mapping[str, Parameters] = {},
    ) -> tuple[Totals, Memory | None]:
        batch = losses.with_targets(batch, method.loss)
        model = parameters.merge(plan.graphdef, params)
        if method.defers_logits(model, batch):
            defer_logits(model)
        weights, normalizers = losses.normalize(batch, method.loss, label_loss)
        models = frozen_models(companions, frozen, params)
        context = LossContext(normalizers, totals.task_loss.shape[0], None, models, label_loss)
        rows = Microbatch(batch, weights, {MODEL: memory_for(batch, memory)})
        measured, after = method.measure(model, rows, context)
        return add(totals, measured), memory if after is None else after

    return step


def _count_targets(batch: Batch, vocab_size: int) -> jax.Array:
    """Return the sum of loss weights of each target token, float32 [V]."""
    return jnp.zeros(vocab_size, jnp.float32).at[batch.target_tokens].add(batch.loss_weights)


def entropy(counts: np.ndarray) -> float:
    """Return the entropy of the distribution with these counts, in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
