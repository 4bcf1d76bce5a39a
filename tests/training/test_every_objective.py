"""Every kind of batch that objectives make is learned from, and rows of padding cost nothing."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import State, new_state, plan_state
from t5x_like.training.step import train_step
from tests.model.zoo.tiny_models import LENGTH, TINY, VOCAB_SIZE


def padded_arrays(batch: Batch) -> dict[str, np.ndarray]:
    """The streams that it has."""
    return {name: array for name, array in batch._asdict().items() if array is not None}


RNG = np.random.default_rng(0)
TOKENS = RNG.integers(4, VOCAB_SIZE, (2, LENGTH)).astype(np.int32)
SEGMENTS = (np.arange(LENGTH) < np.array([[LENGTH], [9]])).astype(np.int32)
PLACES = np.tile(np.arange(LENGTH, dtype=np.int32), (2, 1))
REAL = SEGMENTS.astype(np.float32)
HIDDEN = np.tile(np.isin(np.arange(LENGTH), [2, 3, 6]), (2, 1))
SENTENCES = (PLACES >= 5).astype(np.int32)

ENCODER = Batch(encoder_input_tokens=TOKENS, encoder_segment_ids=SEGMENTS)
MASKED = ENCODER._replace(
    encoder_input_tokens=np.where(HIDDEN, 3, TOKENS).astype(np.int32),
    target_tokens=TOKENS,
    loss_weights=HIDDEN.astype(np.float32),
)
CAUSAL = Batch(
    decoder_input_tokens=np.roll(TOKENS, 1, axis=1),
    decoder_segment_ids=SEGMENTS,
    target_tokens=TOKENS,
    loss_weights=REAL,
)
PREFIX = CAUSAL._replace(prefix=1 - SENTENCES, loss_weights=REAL * SENTENCES)
BLANKS = CAUSAL._replace(
    decoder_positions=np.where(SENTENCES, 3, PLACES).astype(np.int32),
    block_positions=np.where(SENTENCES, PLACES - 4, 0).astype(np.int32),
    loss_weights=REAL * SENTENCES,
)
ORDER = np.tile([0, 3, 0, 1, 0, 2, 0, 4, 0, 0, 0, 0], (2, 1)).astype(np.int32)

KINDS: dict[str, tuple[str, Batch]] = {
    "span corruption": ("t5_1_0", Batch(**(padded_arrays(ENCODER) | padded_arrays(CAUSAL)))),
    "masked words and next sentence": (
        "bert",
        MASKED._replace(token_types=SENTENCES, sequence_labels=np.array([1, 0], np.int32)),
    ),
    "spans and their ends": ("spanbert", MASKED),
    "masked words from left to right": ("unilm", MASKED._replace(ranks=PLACES)),
    "replaced tokens": (
        "electra_discriminator",
        ENCODER._replace(target_tokens=HIDDEN.astype(np.int32), loss_weights=REAL),
    ),
    "language model": ("gpt2", CAUSAL),
    "language model of both directions": (
        "elmo",
        MASKED._replace(encoder_input_tokens=TOKENS, loss_weights=REAL),
    ),
    "prefix language model": ("gpt2", PREFIX),
    "prefix language model by ranks": ("gpt2", PREFIX._replace(prefix=None, ranks=np.maximum(PLACES - 4, 0))),
    "blank infilling": ("glm_orig", BLANKS._replace(prefix=1 - SENTENCES)),
    "blank infilling by ranks": ("glm_orig", BLANKS._replace(ranks=np.maximum(PLACES - 4, 0))),
    "permutations": (
        "xlnet",
        MASKED._replace(encoder_input_tokens=TOKENS, ranks=ORDER, loss_weights=(ORDER > 0) * REAL),
    ),
    "contiguous segments": ("transfo_xl", CAUSAL._replace(continues=np.zeros(2, np.int32))),
}


def with_padding(batch: Batch) -> Batch:
    """Two rows more, of which nothing is real, whatever stands there."""

    def extend(name: str, rows: np.ndarray) -> np.ndarray:
        if name == "sequence_labels":
            return np.append(rows, [-1, -1]).astype(np.int32)
        if name.endswith("tokens"):
            return np.concatenate([rows, (rows + 1) % 2])
        return np.concatenate([rows, np.zeros_like(rows)])

    return Batch(**{name: extend(name, rows) for name, rows in padded_arrays(batch).items()})


def twice(batch: Batch) -> Batch:
    """The same rows again: means stay what they are."""
    return jax.tree.map(lambda rows: np.concatenate([rows, rows]), batch)


# Models that other tests train in other ways anyway.
SLOW = (
    *("span corruption", "spans and their ends", "replaced tokens", "contiguous segments", "blank infilling"),
    *("masked words from left to right", "language model of both directions"),
)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS]
)
def test_every_kind_of_batch_is_learned_from_and_padding_costs_nothing(kind: str) -> None:
    name, batch = KINDS[kind]
    config = one_layer(TINY[name])
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(config, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1, batch_size=4)
    label_loss = None if batch.sequence_labels is None else "sentence_pairs"
    method = Supervised(loss=LossConfig(z_loss=0.0))
    step = jax.jit(train_step(plan, method, seed=0, label_loss=label_loss))
    start = new_state(plan, config, seed=0)
    whole, padded = step(start, twice(batch)), step(start, with_padding(batch))
    assert float(padded["totals"].tokens) == sum(
        array.sum() for name, array in padded_arrays(batch).items() if "segment" in name
    )
    assert loss_of(padded) > 0
    np.testing.assert_allclose(loss_of(padded), loss_of(whole) / 2, rtol=1e-5)
    np.testing.assert_allclose(padded["totals"].gradient_norm, whole["totals"].gradient_norm, rtol=1e-4)
    again = step(padded, with_padding(batch))
    assert loss_of(again) - loss_of(padded) < loss_of(padded)


def one_layer(config: Any) -> Any:
    """Without dropout, which would fall otherwise on other rows; no deeper than it takes."""
    depths = [
        name for name in ("num_layers", "num_encoder_layers", "num_decoder_layers") if hasattr(config, name)
    ]
    return replace(config, dropout_rate=0.0, **dict.fromkeys(depths, 1))


def loss_of(state: State) -> float:
    return float(state["totals"].loss + state["totals"].sequence_loss)
