"""Teacher-forced loss on held-out data."""

from typing import Any

import jax
from jax.sharding import Mesh

from t5x_like.partitioning.shard import place, row_share
from t5x_like.text.batches.loader import LoaderConfig, build_loader
from t5x_like.training.losses import LossConfig
from t5x_like.training.metrics import summarise, zero_totals
from t5x_like.training.state import StatePlan
from t5x_like.training.step import validation_step


class Validator:
    """Measures the loss on one split: always the same batches, without dropout."""

    def __init__(self, config: LoaderConfig, plan: StatePlan, loss: LossConfig, mesh: Mesh):
        self.name = config.mixture
        self._config = config
        self._mesh = mesh
        self._step = jax.jit(validation_step(plan, loss))

    def measure(self, params: Any) -> dict[str, Any]:
        """Averages over all target tokens of the split, in nats.

        Raises:
          ValueError: there was no target token to average over.
        """
        loader = build_loader(self._config, *row_share(self._mesh))
        totals = zero_totals(len(loader.task_names))
        for batch in loader:
            totals = self._step(params, place(batch, mesh=self._mesh), totals)
        if not float(totals.target_tokens):
            raise ValueError(
                f"no target token in {self._config.split!r} of {self.name!r}; is the split empty?"
            )
        return summarise(totals, tuple(loader.task_names))
