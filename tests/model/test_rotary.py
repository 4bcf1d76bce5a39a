"""Rotations against recorded tables, and the properties that make them positions."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.layers.rotary import (
    LinearScaling,
    Llama3Scaling,
    Rotary,
    YarnScaling,
    frequencies,
    rotate,
)
from tests.references import read_arrays

LLAMA3 = Llama3Scaling(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
)
RECORDED = {
    "default": Rotary(rotated_dim=16),
    "theta5e5": Rotary(rotated_dim=16, rope_theta=5e5),
    "linear4": Rotary(rotated_dim=16, rope_scaling=LinearScaling(factor=4.0)),
    "llama3": Rotary(rotated_dim=16, rope_theta=5e5, rope_scaling=LLAMA3),
    "yarn": Rotary(rotated_dim=16, rope_scaling=YarnScaling(factor=4.0, original_max_position_embeddings=64)),
}


def turned(heads: np.ndarray, positions: np.ndarray, config: Rotary) -> np.ndarray:
    """One row and one head of ``rotate``: heads [L, K]."""
    return np.asarray(rotate(jnp.asarray(heads)[None, :, None], jnp.asarray(positions)[None], config))[
        0, :, 0
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_frequencies_and_angles(golden: Path, name: str) -> None:
    tables, config = read_arrays(golden / "models/units/rope.npz"), RECORDED[name]
    np.testing.assert_allclose(frequencies(config), tables[f"rope_{name}_inv_freq"], rtol=3e-7)
    positions = tables["rope_positions"].astype(np.int32)
    # A one in the first half of a pair turns into cosine and sine, which are what the tables hold.
    ones = np.tile(np.repeat([1.0, 0.0], 8).astype(np.float32), (len(positions), 1))
    result = turned(ones, positions, config)
    np.testing.assert_allclose(result[:, :8], tables[f"rope_{name}_cos"][:, :8], atol=2e-5)
    np.testing.assert_allclose(result[:, 8:], tables[f"rope_{name}_sin"][:, :8], atol=2e-5)


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_depend_on_the_distance_only(interleaved: bool) -> None:
    config = Rotary(rotated_dim=6, interleaved=interleaved)
    query, key = np.random.default_rng(0).normal(size=(2, 1, 8)).astype(np.float32)

    def score(of_query: int, of_key: int) -> float:
        at = [turned(x, np.array([place]), config) for x, place in ((query, of_query), (key, of_key))]
        return float((at[0] * at[1]).sum())

    assert score(7, 3) == pytest.approx(score(104, 100), abs=1e-4)
    assert abs(score(7, 3) - score(8, 3)) > 1e-2


def test_interleaved_pairs_are_neighbours_and_the_rest_stays() -> None:
    x = np.arange(6, dtype=np.float32)[None]
    halves = turned(x[:, [0, 2, 1, 3, 4, 5]], np.array([5]), Rotary(rotated_dim=4))
    neighbours = turned(x, np.array([5]), Rotary(rotated_dim=4, interleaved=True))
    np.testing.assert_allclose(neighbours[:, [0, 2, 1, 3, 4, 5]], halves, atol=1e-6)
    np.testing.assert_array_equal(neighbours[:, 4:], x[:, 4:])


def test_yarn_grows_queries_and_keys_as_published() -> None:
    scaling = YarnScaling(factor=4.0, original_max_position_embeddings=64, attention_factor=2.0)
    result = turned(np.ones((1, 16), np.float32), np.array([0]), Rotary(rotated_dim=16, rope_scaling=scaling))
    np.testing.assert_allclose(result, 2.0)


def test_yarn_of_a_very_short_text_keeps_all_frequencies() -> None:
    plain = Rotary(rotated_dim=32)
    short = Rotary(rotated_dim=32, rope_scaling=YarnScaling(factor=4.0, original_max_position_embeddings=1))
    np.testing.assert_array_equal(frequencies(short), frequencies(plain))


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="rotated_dim is 7"):
        Rotary(rotated_dim=7)
    with pytest.raises(ValueError, match="high_freq_factor=1"):
        Llama3Scaling(
            factor=2.0, low_freq_factor=4.0, high_freq_factor=1.0, original_max_position_embeddings=8
        )
    with pytest.raises(ValueError, match=r"beta_fast=1.0"):
        YarnScaling(factor=2.0, original_max_position_embeddings=8, beta_fast=1.0)
