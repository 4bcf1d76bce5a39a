"""Masks as cuDNN's kernels take them; JAX's own attention computes them here, where there is no GPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo

from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.cudnn_attention import FORWARD_PRIMITIVE, cudnn_attention, has_one_example
from t5x_like.model.layers.masks import AttentionMask, SlidingWindow, as_array
from t5x_like.model.layers.remat import Remat, with_remat
from t5x_like.partitioning.mesh import MeshConfig
from tests.slow_cases import slow_except

LENGTH = 12
PADDED = jnp.array([[3] * 7 + [0] * 5, [1] * 12, [0] * 12])
PACKED = jnp.array([[1] * 4 + [2] * 5 + [0] * 3, [1] * 6 + [2] * 6, [2] * 3 + [1] * 9])
RANKS = jnp.broadcast_to(jnp.arange(LENGTH) // 2, PADDED.shape)

MASKS = {
    "none": None,
    "nothing hidden": AttentionMask(),
    "padding": AttentionMask(PADDED, PADDED),
    "padding of keys": AttentionMask(None, PADDED),
    "packed": AttentionMask(PACKED, PACKED),
    "causal": AttentionMask(causal=True),
    "causal and padding": AttentionMask(PADDED, PADDED, causal=True),
    "causal and packed": AttentionMask(PACKED, PACKED, causal=True),
    "causal window": AttentionMask(PADDED, PADDED, causal=True, window=SlidingWindow(left=3)),
    "window": AttentionMask(PADDED, PADDED, window=SlidingWindow(left=2, right=2)),
    "prefix": AttentionMask(PADDED, PADDED, causal=True, prefix=jnp.ones_like(PADDED).at[:, 4:].set(0)),
    "ranks": AttentionMask(PADDED, PADDED, causal=True, query_ranks=RANKS, key_ranks=RANKS),
    "array": AttentionMask(PADDED, PADDED, allowed=jnp.tri(LENGTH, dtype=bool)[None, None]),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let JAX compute what cuDNN would; return the arguments of each call."""
    attend, seen = jax.nn.dot_product_attention, []

    def recorded(*arrays: jax.Array, implementation: str, **arguments: Any) -> jax.Array:
        assert implementation == "cudnn"
        present = {name: value for name, value in arguments.items() if value is not None}
        seen.append(present | {"shape": arrays[0].shape})
        return attend(*arrays, implementation="xla", **arguments)

    monkeypatch.setattr(jax.nn, "dot_product_attention", recorded)
    return seen


def heads(seed: int, num_heads: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (len(PADDED), LENGTH, num_heads, 8))


def plain(queries: Any, keys: Any, values: Any, *, mask: Any, bias: Any, scale: float) -> jax.Array:
    attention = Attention(
        AttentionConfig(num_heads=4, head_dim=8, num_kv_heads=2, attention_scale=scale),
        32,
        key=jax.random.key(0),
    )
    scores = attention.scores(queries, keys) + (0.0 if bias is None else bias)
    visible = as_array(mask, num_queries=LENGTH, num_keys=LENGTH)
    scores = scores if visible is None else jnp.where(visible, scores, -1e10)
    return attention.combine_values(jax.nn.softmax(scores), values).reshape(queries.shape)


@pytest.mark.parametrize("bias", slow_except([False, True], [True]))
@pytest.mark.parametrize("name", MASKS)
def test_masks_hide_what_they_hide_in_plain_attention(
    calls: list[dict[str, Any]], name: str, bias: bool
) -> None:
    mask = MASKS[name]
    arrays = [heads(0, 4), heads(1, 2), heads(2, 2)]
    if bias:
        arrays.append(jax.random.normal(jax.random.key(3), (1, 4, LENGTH, LENGTH)))
    # Queries of padding in a row of padding see no key; what they get isn't used.
    used = (
        jnp.ones(PADDED.shape) if mask is None or mask.key_segment_ids is None else mask.key_segment_ids > 0
    )

    def total(attend: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        def sum_of_averages(queries: Any, keys: Any, values: Any, bias: Any = None) -> jax.Array:
            averages = attend(queries, keys, values, mask=mask, bias=bias, scale=0.3)
            return jnp.sum(jnp.sin(averages) * used[..., None, None])

        return jax.jit(jax.value_and_grad(sum_of_averages, argnums=tuple(range(len(arrays)))))

    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5),
        total(cudnn_attention)(*arrays),
        total(plain)(*arrays),
    )
    assert calls


@pytest.mark.parametrize("num_groups", slow_except([1, 2], [2]))
@pytest.mark.parametrize("name", ["causal", "causal and packed", "padding"])
def test_devices_attend_for_their_own_rows_and_heads(
    calls: list[dict[str, Any]], name: str, num_groups: int
) -> None:
    def repeated(part: Any) -> Any:
        return jnp.concatenate([part, part[:1]])

    mask = jax.tree.map(lambda part: repeated(part) if isinstance(part, jax.Array) else part, MASKS[name])
    assert mask is not None
    arrays = [repeated(heads(seed, index)) for seed, index in enumerate((4, num_groups, num_groups))]
    arrays.append(jax.random.normal(jax.random.key(3), (1, 4, LENGTH, LENGTH)))
    used = 1 if mask.key_segment_ids is None else (mask.key_segment_ids > 0)[..., None, None]

    def total(queries: Any, keys: Any, values: Any, bias: Any) -> jax.Array:
        averages = cudnn_attention(queries, keys, values, mask=mask, bias=bias, scale=0.3)
        return jnp.sum(jnp.sin(averages) * used)

    gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    alone = gradient(*arrays)
    assert all(call["shape"] == (4, LENGTH, 4, 8) for call in calls)
    calls.clear()
    with jax.set_mesh(MeshConfig(data=2, fsdp=2, model=2).build(jax.devices()[:8])):
        together = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))(*arrays)
    assert calls
    assert all(call["shape"] == (1, LENGTH, 2, 8) for call in calls)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), together, alone)


@pytest.mark.parametrize(
    "name", ["causal", "causal and padding", "causal window", "padding", "nothing hidden"]
)
def test_simple_masks_are_no_arrays(calls: list[dict[str, Any]], name: str) -> None:
    cudnn_attention(heads(0, 4), heads(1, 2), heads(2, 2), mask=MASKS[name], bias=None, scale=1.0)
    assert any("mask" not in call for call in calls)
    assert all(call.get("is_causal", False) == ("causal" in name) for call in calls)
    assert all(("local_window_size" in call) == ("window" in name) for call in calls)


@pytest.mark.parametrize(
    ("queries", "keys", "expected"),
    [
        (PADDED, PADDED, True),
        (None, PADDED, True),
        (PACKED, PACKED, False),
        (PACKED, PADDED, False),
        (PADDED[:, ::-1], PADDED[:, ::-1], False),  # padding first
        (jnp.zeros_like(PADDED), PADDED, True),
        (jnp.where(PADDED > 0, 2, 0), PADDED, False),  # queries of other examples
    ],
)
def test_one_example_and_padding_after_it(queries: Any, keys: Any, expected: bool) -> None:
    assert bool(has_one_example(queries, keys)) == expected


@pytest.mark.parametrize(("remat", "times"), [("none", 1), ("minimal", 1), ("full", 2)])
def test_minimal_remat_keeps_its_outputs(monkeypatch: pytest.MonkeyPatch, remat: Remat, times: int) -> None:
    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91300)  # traced, not run
    queries, keys = heads(0, 4).astype(jnp.bfloat16), heads(1, 2).astype(jnp.bfloat16)

    def attend(queries: jax.Array) -> jax.Array:
        return cudnn_attention(queries, keys, keys, mask=MASKS["causal"], bias=None, scale=1.0)

    # The sine needs the averages in the backward pass.
    gradient = jax.grad(lambda queries: jnp.sum(jnp.sin(with_remat(attend, remat)(queries))))
    assert str(jax.make_jaxpr(gradient)(queries)).count(f"{FORWARD_PRIMITIVE}[") == times
