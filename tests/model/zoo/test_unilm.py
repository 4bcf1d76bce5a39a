"""UniLM: BERT's weights under masks that look in several ways (Dong et al. 2019)."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.model.layers.masks import AttentionDirection, direction_mask
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.references import read_arrays

RECORDED = {
    "bidir": AttentionDirection.BIDIRECTIONAL,
    "l2r": AttentionDirection.LEFT_TO_RIGHT,
    "seq2seq": AttentionDirection.SEQUENCE_TO_SEQUENCE,
}


def shown(look: AttentionDirection, source: int, total: int, length: int) -> list[str]:
    mask = direction_mask(jnp.array([look]), jnp.array([source]), jnp.array([total]), length=length)[0]
    return ["".join("x" if seen else "." for seen in row) for row in np.asarray(mask)]


def test_each_way_of_looking() -> None:
    assert shown(AttentionDirection.BIDIRECTIONAL, 2, 3, 4)[:3] == ["xxx.", "xxx.", "xxx."]
    assert shown(AttentionDirection.LEFT_TO_RIGHT, 2, 3, 4)[:3] == ["x...", "xx..", "xxx."]
    assert shown(AttentionDirection.RIGHT_TO_LEFT, 2, 3, 4)[:3] == ["xxx.", ".xx.", "..x."]
    assert shown(AttentionDirection.SEQUENCE_TO_SEQUENCE, 2, 4, 5)[:4] == ["xx...", "xx...", "xxx..", "xxxx."]


def test_examples_of_a_batch_look_in_their_own_ways() -> None:
    looks = jnp.array([AttentionDirection.RIGHT_TO_LEFT, AttentionDirection.BIDIRECTIONAL])
    mask = direction_mask(looks, jnp.array([1, 1]), jnp.array([2, 2]), length=2)
    assert mask.tolist() == [[[True, True], [False, True]], [[True, True], [True, True]]]


@pytest.fixture(scope="module")
def recorded(golden: Path) -> dict[str, np.ndarray]:
    return read_arrays(golden / "models/unilm/io.npz")


@pytest.fixture(scope="module")
def pretrained(golden: Path) -> Pretrained:
    return t5x_like.from_pretrained(golden / "models/unilm")


def mask_of(recorded: dict[str, np.ndarray], look: AttentionDirection) -> jax.Array:
    num_rows, length = recorded["in_input_ids"].shape
    lengths = (jnp.asarray(recorded[f"in_{name}_len"]) for name in ("src", "total"))
    return direction_mask(jnp.full((num_rows,), look), *lengths, length=length)


@pytest.mark.parametrize("name", RECORDED)
def test_masks_and_scores_are_the_recorded_ones(
    recorded: dict[str, np.ndarray], pretrained: Pretrained, name: str
) -> None:
    mask = np.asarray(mask_of(recorded, RECORDED[name]))
    real = np.arange(mask.shape[1])[None] < recorded["in_total_len"][:, None]
    np.testing.assert_array_equal(mask[real], recorded[f"in_mask3d_{name}"][real] > 0)
    answers = pretrained(
        input_ids=recorded["in_input_ids"],
        token_type_ids=recorded["in_token_type_ids"],
        attention_mask=mask.astype(np.int32),
    )
    wanted = recorded[f"out_{name}_logits"]
    np.testing.assert_allclose(answers.logits[real], wanted[real], atol=2e-5)
    others = [recorded[f"out_{other}_logits"] for other in RECORDED if other != name]
    assert all(np.abs(answers.logits - other)[real].max() > 0.1 for other in others)
