"""Fine-tuning a DeBERTa on classes that only the order of words decides."""

import jax
import numpy as np

from t5x_like.batch import Batch
from t5x_like.model.zoo.deberta_v2 import DebertaV2Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

FIRST, SECOND, CLS = 5, 6, 1


def ordered_words(seed: int, num_rows: int = 32, length: int = 10) -> Batch:
    """Rows with both words among others; the class is 1 where ``FIRST`` comes first."""
    random = np.random.default_rng(seed)
    rows = random.integers(7, 20, (num_rows, length)).astype(np.int32)
    rows[:, 0] = CLS
    places = np.stack([random.permutation(np.arange(1, length))[:2] for _ in range(num_rows)])
    rows[np.arange(num_rows), places[:, 0]] = FIRST
    rows[np.arange(num_rows), places[:, 1]] = SECOND
    return Batch(
        encoder_input_tokens=rows,
        encoder_segment_ids=np.ones_like(rows),
        sequence_labels=(places[:, 0] < places[:, 1]).astype(np.int32),
    )


def test_a_deberta_learns_the_order_of_words() -> None:
    config = DebertaV2Config(
        vocab_size=20,
        model_dim=32,
        mlp_dim=64,
        num_heads=4,
        num_layers=2,
        position_buckets=8,
        task="sequence_classification",
    )
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(config, AdamW(learning_rate=Constant(value=0.003)), mesh, num_tasks=1)
    method = Supervised(loss=LossConfig(z_loss=0.0))
    step = jax.jit(
        train_step(plan, method, seed=1, label_loss="classification"),
        donate_argnums=0,
        out_shardings=shardings_of(plan.abstract),
    )
    state, losses, before = new_state(plan, config, seed=0), [], 0.0
    with jax.set_mesh(mesh):
        for seed in range(150):
            state = step(state, place(ordered_words(seed), mesh))
            total = float(state["totals"].sequence_loss)
            losses.append(total - before)
            before = total
    assert np.mean(losses[-10:]) < 0.2 * np.mean(losses[:10])
