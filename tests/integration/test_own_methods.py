"""A training method of one's own: its loss, its frozen model and what it logs, without a change elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest

from t5x_like.config_class import config_class
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model.families.family import ExtraLoss, predict
from t5x_like.training.companions import CompanionSource
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.microbatches import MODEL, Memories, Microbatch
from tests.integration import tiny_run


@config_class
class NearReference(TrainingMethod):
    """Supervised learning that keeps logits near those of a reference model."""

    reference: str
    weight: float = 0.1

    measures: ClassVar[tuple[str, ...]] = ("distance",)

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        return {"reference": CompanionSource(self.reference)}

    def compute_loss(
        self, model: Any, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Any, Memories]]:
        own = predict(model, microbatch.batch, dropout_key=context.dropout_key)
        reference = jax.lax.stop_gradient(context.companions["reference"].predict(microbatch))
        distances = jnp.mean(jnp.square(own.logits - reference.logits), axis=-1)  # pyright: ignore[reportOptionalOperand]
        total, count = jnp.sum(distances), jnp.float32(distances.size)
        own = own._replace(extra_losses={"distance": ExtraLoss(total, self.weight, count, count)})
        loss, totals = self.total(own, microbatch, context)
        return loss, (totals, {MODEL: own.memory})


@pytest.mark.slow
def test_a_users_method_trains_and_continues_with_its_frozen_model(directory: Path) -> None:
    reference = str(directory / "reference")
    tiny_run.run(directory, model_dir=reference, total_steps=2)
    home, method = str(directory / "near"), NearReference(reference=reference)
    tiny_run.run(directory, model_dir=home, total_steps=2, method=method)
    finished = tiny_run.run(directory, model_dir=home, total_steps=4, method=method)
    assert finished.step == 4
    distances = [line["distance"] for line in read_jsonl(f"{home}/metrics.jsonl") if line["split"] == "train"]
    assert len(distances) == 4
    assert all(distance > 0 for distance in distances)
    record = read_json(Path(home) / "reference.json")
    assert (record["reference"], record["step"]) == (reference, 2)
    assert read_json(Path(home) / "config.json")["method.is"] == "NearReference"


@config_class
class Misnamed(NearReference):
    """A method whose frozen model would overwrite the run's configuration."""

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        return {"config": CompanionSource(self.reference)}


def test_a_frozen_model_cannot_have_the_name_of_a_file_of_the_run(directory: Path) -> None:
    method = Misnamed(reference=str(directory / "reference"))
    with pytest.raises(ValueError, match=r"can't have the name 'config', since config\.json"):
        tiny_run.run(directory, model_dir=str(directory / "misnamed"), total_steps=1, method=method)
    assert not (directory / "misnamed" / "config.json").exists()
