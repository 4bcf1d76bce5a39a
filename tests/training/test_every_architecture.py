"""Every architecture trains, the same on eight devices cut three ways as on one."""

import jax
import numpy as np
import pytest

from t5x_like.ancestors.families.rnn_encoder_decoder import RNNEncoderDecoder
from t5x_like.ancestors.families.rnn_language_model import RNNLanguageModel
from t5x_like.batch import Batch
from t5x_like.model.families.decoder import Decoder
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step
from tests.model.zoo.tiny_models import TINY, random_batch

# tests/training/test_step.py has one of them that runs every time.


def batch_for(config, seed: int) -> Batch:
    """What the architecture reads, with labels of sequences where a head has classes for them."""
    model = jax.eval_shape(config.build, jax.random.key(0))
    reads = "encoder"
    if isinstance(model, Decoder | Recurrent | RNNLanguageModel):
        reads = "decoder"
    elif isinstance(model, EncoderDecoder | RNNEncoderDecoder):
        reads = "both"
    batch = random_batch(seed, reads=reads)
    if config.task == "replaced_tokens":
        batch = batch._replace(target_tokens=batch.target_tokens % 2)
    if config.task == "pretraining":
        types = (batch.encoder_segment_ids == 2).astype(np.int32)
        batch = batch._replace(
            sequence_labels=np.arange(len(types), dtype=np.int32) % 2, token_types=types, task_types=types
        )
    return batch


def losses(config, *, num_devices: int, mesh_config: MeshConfig, steps: int = 3) -> list[float]:
    """Of each step, on the same batch, so that they fall."""
    mesh = mesh_config.build(jax.devices()[:num_devices])
    plan = plan_state(config, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1)
    step = jax.jit(
        train_step(
            plan,
            Supervised(loss=LossConfig(z_loss=0.0)),
            seed=1,
            label_loss="sentence_pairs" if config.task == "pretraining" else None,
        ),
        donate_argnums=0,
        out_shardings=shardings_of(plan.abstract),
    )
    state, batch = new_state(plan, config, seed=0), place(batch_for(config, 0), mesh)
    result, before = [], 0.0
    with jax.set_mesh(mesh):
        for _ in range(steps):
            state = step(state, batch)
            total = float(state["totals"].loss + state["totals"].sequence_loss)
            result.append(total - before)
            before = total
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_eight_devices_on_three_axes_train_as_one(name):
    config = TINY[name]
    one = losses(config, num_devices=1, mesh_config=MeshConfig())
    eight = losses(config, num_devices=8, mesh_config=MeshConfig(data=2, fsdp=2, model=2))
    assert np.isfinite(one).all()
    assert one[-1] < one[0]
    np.testing.assert_allclose(eight, one, rtol=2e-5)
